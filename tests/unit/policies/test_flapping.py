"""The search for the set that ends its copiers: who waits, who goes apart, who is quarantined, who is cleared."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.flapping import (
    MOST_WAIT_S,
    QUARANTINE_ENDS,
    RETRY_S,
    SURVIVED_S,
    Apart,
    SetRecord,
    after_end,
    after_survival,
    place_apart,
    released,
    waiting,
    wards,
)
from tests.unit.policies.ward_round import Flow


def test_the_first_end_is_nobodys_fault() -> None:
    records = after_end({}, {"s1": 0.0, "s2": 0.0}, 1000.0, "killed")
    assert records == {"s1": SetRecord(ends=1), "s2": SetRecord(ends=1)}
    assert waiting(records, 1000.0) == frozenset()
    assert wards(records, 1000.0) == ()


def test_what_outlives_the_first_end_is_cleared() -> None:
    records = {"s1": SetRecord(ends=1), "free": SetRecord(ends=1)}
    assert after_survival(records, {"s1": 10.0}, 10.0 + SURVIVED_S - 1) == records
    assert after_survival(records, {"s1": 10.0}, 10.0 + SURVIVED_S) == {"free": SetRecord(ends=1)}
    # An end that comes later than that is a first one again.
    assert after_end(records, {"s1": 10.0}, 10.0 + SURVIVED_S, "killed")["s1"] == SetRecord(ends=1)


def test_after_the_second_quick_end_its_sets_go_apart_by_halves_a_second_later() -> None:
    records = dict.fromkeys(("s1", "s2", "s3", "elsewhere"), SetRecord(ends=1))
    held = {"s1": 5.0, "s2": 5.0, "s3": 5.0, "bystander": 0.0}
    after = after_end(records, held, 10.0, "boom")
    assert after == {
        "elsewhere": SetRecord(ends=1),
        "s1": SetRecord(ends=2, lived_s=5.0, not_before_s=11.0, ward=("s1", "s2"), other_half=("s3",)),
        "s2": SetRecord(ends=2, lived_s=5.0, not_before_s=11.0, ward=("s1", "s2"), other_half=("s3",)),
        "s3": SetRecord(ends=2, lived_s=5.0, not_before_s=11.0, ward=("s3",), other_half=("s1", "s2")),
    }
    assert waiting(after, 10.5) == {"s1", "s2", "s3"}
    assert wards(after, 10.5) == ()
    assert waiting(after, 11.0) == frozenset()
    assert wards(after, 11.0) == (("s1", "s2"), ("s3",))


def test_the_other_half_is_let_out_when_a_ward_ends_but_its_ends_count_on() -> None:
    records = after_end(
        dict.fromkeys(("s1", "s2", "s3"), SetRecord(ends=1)), dict.fromkeys(("s1", "s2", "s3"), 0.0), 1.0, "boom"
    )
    after = after_end(records, {"s1": 2.0, "s2": 2.0}, 3.0, "boom")
    assert after["s3"] == SetRecord(ends=2)
    assert wards(after, 10.0) == (("s1",), ("s2",))
    # It was guilty too: that is seen at its very next end.
    assert after_end(after, {"s3": 4.0}, 5.0, "boom")["s3"].ward == ("s3",)


def test_a_half_that_outlives_its_trial_is_let_out() -> None:
    record = SetRecord(ends=2, lived_s=5.0, ward=("s1",), other_half=("s2",))
    assert after_survival({"s1": record}, {"s1": 0.0}, 14.0) == {"s1": record}
    assert after_survival({"s1": record}, {"s1": 0.0}, 15.0) == {"s1": SetRecord(ends=2)}
    alone = SetRecord(ends=3, lived_s=5.0, ward=("s1",))
    assert after_survival({"s1": alone}, {"s1": 0.0}, 15.0) == {"s1": alone}


def test_sets_that_share_a_copier_with_a_ward_are_not_blamed() -> None:
    records = {"s1": SetRecord(ends=3, ward=("s1",)), "s2": SetRecord(ends=3)}
    after = after_end(records, {"s1": 0.0, "s2": 0.0, "s3": 0.0}, 1.0, "boom")
    assert after["s2"] == SetRecord(ends=3)
    assert "s3" not in after
    assert after["s1"].ends == 4


def alone_after(ends: int) -> dict[str, SetRecord]:
    records: dict[str, SetRecord] = {}
    for end in range(ends):
        records = after_end(records, {"s1": 100.0 * end}, 100.0 * end + 2.0, f"boom {end}")
    return records


def test_a_lone_suspect_waits_twice_as_long_each_time_and_is_quarantined_at_the_fifth_end() -> None:
    waits = [record.not_before_s - 100.0 * n - 2.0 for n in range(1, 4) for record in alone_after(n + 1).values()]
    assert waits == [1.0, 2.0, 4.0]
    assert alone_after(QUARANTINE_ENDS)["s1"] == SetRecord(
        ends=QUARANTINE_ENDS,
        lived_s=2.0,
        not_before_s=402.0 + RETRY_S,
        ward=("s1",),
        reason="5 copiers in a row ended soon after taking it over, the last one with: boom 4",
    )


def test_waits_are_bounded_however_often_it_ends() -> None:
    company = SetRecord(ends=5000, ward=("s1", "s2"))
    after = after_end({"s1": company, "s2": company}, {"s1": 0.0, "s2": 0.0}, 1.0, "boom")
    assert all(record.not_before_s <= 1.0 + MOST_WAIT_S and not record.reason for record in after.values())
    assert after_end({"s1": SetRecord(ends=5000)}, {"s1": 0.0}, 1.0, "boom")["s1"].not_before_s == 1.0 + RETRY_S


def test_after_ten_minutes_a_quarantined_set_is_tried_alone_and_back_at_its_next_end() -> None:
    records = alone_after(QUARANTINE_ENDS)
    again_s = 402.0 + RETRY_S
    assert wards(records, again_s - 1) == ()
    assert wards(records, again_s) == (("s1",),)
    assert after_end(records, {"s1": again_s}, again_s + 1, "boom")["s1"].reason.startswith("6 copiers in a row")
    assert after_survival(records, {"s1": again_s}, again_s + SURVIVED_S) == {}


def test_an_operator_has_a_quarantined_set_tried_at_once_and_its_count_begins_anew() -> None:
    records = released(alone_after(QUARANTINE_ENDS), "s1")
    assert wards(records, 403.0) == (("s1",),)
    after = after_end(records, {"s1": 403.0}, 404.0, "boom")["s1"]
    assert (after.ends, after.reason) == (2, "")
    assert released(records, "unknown") == records


@pytest.mark.parametrize(
    ("groups", "owners", "copiers", "expected"),
    [
        # The emptiest copiers, and one is left to the others.
        ([["s1"], ["s2"]], {"s3": "a", "s4": "b"}, ["a", "b", "c"], Apart({"s1": "c", "s2": "a"}, frozenset("ac"))),
        # Who is placed stays, even where others have not left yet.
        ([["s1"], ["s2"]], {"s2": "b", "s3": "b"}, ["a", "b", "c"], Apart({"s2": "b", "s1": "a"}, frozenset("ab"))),
        # As many wards as copiers: the one where most others are is shared.
        ([["s1"], ["s2"]], {"s3": "a"}, ["a", "b"], Apart({"s1": "b", "s2": "a"}, frozenset("b"))),
        # Two that were on one copier do not stay together.
        ([["s1"], ["s2"]], {"s1": "a", "s2": "a"}, ["a", "b", "c"], Apart({"s1": "a", "s2": "b"}, frozenset("ab"))),
        # The only copier is shared, and the second ward waits.
        ([["s1", "s2"], ["s3"]], {"s4": "a"}, ["a"], Apart({"s1": "a", "s2": "a"}, frozenset())),
        ([["s1"]], {"s1": "gone"}, [], Apart({}, frozenset())),
        ([], {"s1": "a"}, ["a", "b"], Apart({}, frozenset())),
    ],
)
def test_wards_have_rooms(groups: list[list[str]], owners: dict[str, str], copiers: list[str], expected: Apart) -> None:
    assert place_apart(groups, owners, copiers) == expected


def quarantined(flow: Flow) -> list[str]:
    return sorted(set_id for set_id, record in flow.records.items() if record.reason)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 120), st.integers(1, 12), st.integers(2, 4), st.integers(1, 50), st.data())
def test_one_guilty_set_among_many_is_found_alone_and_the_others_run(
    sets: int, copiers: int, spare: int, fuse_s: int, data: st.DataObject
) -> None:
    guilty = f"s{data.draw(st.integers(0, sets - 1)):03d}"
    flow = Flow(sets, copiers, spare, {guilty: fuse_s})
    flow.run(1200)
    search = math.ceil(math.log2(sets)) + 2
    until_quarantine = max(QUARANTINE_ENDS, search + 1)
    assert quarantined(flow) == [guilty] == list(flow.records)
    # Only who was with it at its second end fell with it later, and from the end of the search on nobody did.
    for held in flow.ends[2:]:
        assert set(held) <= set(flow.ends[1])
    assert all(held == [guilty] for held in flow.ends[search:])
    retries = 1 + (1200 - fuse_s * until_quarantine) // RETRY_S
    assert len(flow.ends) <= until_quarantine + retries
    innocent = [set_id for set_id in flow.sets if set_id != guilty]
    assert all(set_id in flow.owners for set_id in innocent)
    assert max((flow.idle[set_id] for set_id in innocent), default=0) <= 4 * search


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 1), st.integers(1, 20), st.data())
def test_it_is_found_without_spare_copiers_too(
    sets: int, copiers: int, spare: int, fuse_s: int, data: st.DataObject
) -> None:
    guilty = f"s{data.draw(st.integers(0, sets - 1)):03d}"
    flow = Flow(sets, copiers, spare, {guilty: fuse_s})
    flow.run(1500)
    assert quarantined(flow) == [guilty] == list(flow.records)
    assert all(set_id in flow.owners for set_id in flow.sets if set_id != guilty)


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 60), st.integers(1, 6), st.integers(1, 20), st.data())
def test_several_guilty_sets_are_all_found(sets: int, copiers: int, fuse_s: int, data: st.DataObject) -> None:
    numbers = data.draw(st.sets(st.integers(0, sets - 1), min_size=2, max_size=3))
    guilty = {f"s{number:03d}": fuse_s for number in numbers}
    flow = Flow(sets, copiers, 6, guilty)
    flow.run(2000)
    assert quarantined(flow) == sorted(guilty)
    assert all(set_id in flow.owners for set_id in flow.sets if set_id not in guilty)


def test_a_set_that_was_mended_runs_again_at_its_next_try() -> None:
    flow = Flow(9, 2, 2, {"s004": 1})
    flow.run(100)
    assert quarantined(flow) == ["s004"]
    assert "s004" not in flow.owners
    flow.mend("s004")
    flow.run(700)
    assert flow.records == {}
    assert "s004" in flow.owners


def test_an_end_every_two_minutes_suspects_nobody() -> None:
    flow = Flow(9, 2, 2, {"s004": 110})
    flow.run(1500)
    assert len(flow.ends) == 13
    assert {record.ends for record in flow.records.values()} <= {1}
    assert max(flow.idle.values()) == 0
