"""Each trouble of a lane is reported once, and its end once."""

from engine.flow.lane.lane_health import HoldChange, HoldWatch, LaneHealth


def seen(hold: HoldWatch, now_s: float, *, is_held: bool = True) -> HoldChange:
    return hold.note(is_held=is_held, now_s=now_s, report_after_s=5.0)


def test_a_hold_is_reported_once_it_lasts_and_its_end_once() -> None:
    hold = HoldWatch()
    assert [seen(hold, now_s) for now_s in (10.0, 14.9, 15.0, 16.0)] == [
        HoldChange.NOTHING,
        HoldChange.NOTHING,
        HoldChange.HELD,
        HoldChange.NOTHING,
    ]
    assert hold.since_s == 10.0
    assert [seen(hold, 17.0, is_held=False) for _ in range(2)] == [HoldChange.RELEASED, HoldChange.NOTHING]
    assert hold.since_s is None


def test_a_short_hold_is_not_reported_and_the_next_one_begins_anew() -> None:
    hold = HoldWatch()
    assert seen(hold, 10.0) is HoldChange.NOTHING
    assert seen(hold, 14.0, is_held=False) is HoldChange.NOTHING
    assert seen(hold, 15.0) is HoldChange.NOTHING
    assert hold.since_s == 15.0


def test_a_refusal_is_new_once() -> None:
    health = LaneHealth()
    assert [health.refuse("too large"), health.refuse("still too large")] == [True, False]
    assert (health.refused, health.reason) == (True, "still too large")
    assert [health.release(), health.release()] == [True, False]
    assert (health.refused, health.reason) == (False, "")


def test_a_release_without_a_refusal_leaves_the_reason() -> None:
    health = LaneHealth()
    health.explain("no leader")
    assert not health.release()
    assert health.reason == "no leader"


def test_the_end_of_one_denial_shows_the_other() -> None:
    health = LaneHealth()
    assert [health.deny("fetch", "may not read"), health.deny("fetch", "may not read yet")] == [True, False]
    assert health.deny("map", "may not write the map")
    assert health.reason == "may not write the map"
    assert [health.allow("map"), health.allow("map")] == [True, False]
    assert health.reason == "may not read yet"
    assert health.allow("fetch")
    assert health.reason == ""


def test_retention_that_passed_the_copy_is_new_each_time_that_it_does() -> None:
    health = LaneHealth()
    assert [health.pass_retention(passed=one) for one in (False, True, True, False, True)] == [
        False,
        True,
        False,
        False,
        True,
    ]
