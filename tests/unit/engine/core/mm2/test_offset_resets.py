"""Groups that go back again and again cause few events, and no information is lost."""

from hypothesis import given
from hypothesis import strategies as st

from engine.core.events.group_events import GroupWentBack
from engine.core.mm2.offset_resets import NAMED, OTHERS, WINDOW_S, OffsetResets
from policies.model import FlowName

FLOW = FlowName("A", "B")
WHY = "the group went back"


def back(group: str = "g", partitions: int = 1, why: str = WHY) -> GroupWentBack:
    return GroupWentBack(flow=FLOW, group=group, partitions=partitions, why=why)


def test_the_first_is_told_at_once_and_repeats_once_a_minute_with_their_count() -> None:
    rewinds = OffsetResets(FLOW)
    assert rewinds.admit(back(partitions=3), 0.0) == back(partitions=3)
    for second in range(1, 60):
        assert rewinds.admit(back(partitions=second % 5), float(second)) is None
        assert list(rewinds.due(float(second))) == []
    (told,) = rewinds.due(WINDOW_S)
    assert (told.group, told.times, told.partitions) == ("g", 59, 4)
    assert told.text() == (
        "g: offsets of 4 partitions at most set back on the target, 59 times since the last such event:"
        " the group went back"
    )
    assert back(partitions=3).text() == "g: offsets of 3 partitions set back on the target: the group went back"


def test_what_has_not_come_again_is_forgotten() -> None:
    rewinds = OffsetResets(FLOW)
    assert rewinds.admit(back(), 0.0) is not None
    assert list(rewinds.due(WINDOW_S)) == []
    assert rewinds.admit(back(), WINDOW_S + 1.0) == back()


def test_causes_are_told_apart() -> None:
    rewinds = OffsetResets(FLOW)
    assert rewinds.admit(back(), 0.0) is not None
    assert rewinds.admit(back(why="another"), 0.0) is not None


def test_of_many_groups_some_are_named_and_the_rest_share_an_event_a_minute() -> None:
    rewinds = OffsetResets(FLOW)
    named = 0
    told: list[GroupWentBack] = []
    for second in range(121):
        for number in range(1_000):
            named += rewinds.admit(back(f"g{number}"), float(second)) is not None
        told += rewinds.due(float(second))
    assert named <= 3 * NAMED
    shared = [event for event in told if event.group == OTHERS]
    assert [event.groups for event in shared] == [1_000 - NAMED, 1_000, 1_000]
    assert (
        "consumer groups: offsets of 1000 groups (not named here), of 1 partition at most set back" in shared[1].text()
    )
    assert len(told) + named <= 3 * (NAMED + 1)


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0.0, 40.0)), max_size=200))
def test_every_time_is_counted_once(steps: list[tuple[int, float]]) -> None:
    rewinds, now_s = OffsetResets(FLOW), 0.0
    told: list[GroupWentBack] = []
    for number, later_s in steps:
        now_s += later_s
        event = rewinds.admit(back(f"g{number}"), now_s)
        told += [event] if event is not None else []
        told += rewinds.due(now_s)
    for _ in range(3):
        now_s += WINDOW_S
        told += rewinds.due(now_s)
    assert sum(event.times for event in told) == len(steps)
    assert list(rewinds.due(now_s + WINDOW_S)) == []
