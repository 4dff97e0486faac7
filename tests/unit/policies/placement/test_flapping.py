"""The search for the set that ends its copiers: who waits, is isolated, quarantined, cleared."""

import pytest

from policies.placement.flapping import (
    MOST_WAIT_S,
    QUARANTINE_ENDS,
    RETRY_S,
    SURVIVED_S,
    UNWITNESSED_ROW,
    Apart,
    SetRecord,
    after_end,
    after_survival,
    divided,
    place_apart,
    released,
    remembered,
    to_divide,
    waiting,
    wards,
)


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
        "s1": SetRecord(
            ends=2, lived_s=5.0, not_before_s=11.0, ward=("s1", "s2"), other_half=("s3",), kind="boom", row_since_s=10.0
        ),
        "s2": SetRecord(
            ends=2, lived_s=5.0, not_before_s=11.0, ward=("s1", "s2"), other_half=("s3",), kind="boom", row_since_s=10.0
        ),
        "s3": SetRecord(
            ends=2, lived_s=5.0, not_before_s=11.0, ward=("s3",), other_half=("s1", "s2"), kind="boom", row_since_s=10.0
        ),
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
        reason="5 copiers in a row ended soon after taking it over; cause of the last end: boom 4",
        row=4,
        kind="boom #",
        row_since_s=102.0,
    )


def test_waits_are_bounded_however_often_it_ends() -> None:
    company = SetRecord(ends=5000, ward=("s1", "s2"))
    after = after_end({"s1": company, "s2": company}, {"s1": 0.0, "s2": 0.0}, 1.0, "boom")
    assert all(record.not_before_s <= 1.0 + MOST_WAIT_S and not record.reason for record in after.values())
    assert after_end({"s1": SetRecord(ends=5000)}, {"s1": 0.0}, 1.0, "boom")["s1"].not_before_s == 1.0 + MOST_WAIT_S
    long_known = SetRecord(ends=5000, ward=("s1",), row=5000, kind="boom")
    assert after_end({"s1": long_known}, {"s1": 0.0}, 1.0, "boom")["s1"].not_before_s == 1.0 + RETRY_S


def test_ends_of_another_kind_begin_the_row_anew() -> None:
    records = alone_after(4)
    assert (records["s1"].row, records["s1"].kind) == (3, "boom #")
    after = after_end(records, {"s1": 400.0}, 402.0, "its lease ran out")
    assert (after["s1"].ends, after["s1"].row, after["s1"].reason) == (5, 1, "")
    for end in range(2):
        after = after_end(after, {"s1": 500.0 + 100 * end}, 502.0 + 100 * end, "its lease ran out")
    assert after["s1"].reason.startswith("7 copiers in a row")


def test_an_end_without_a_suspect_begins_every_row_anew_but_lets_nobody_out_of_quarantine() -> None:
    records = {**alone_after(4), "q": SetRecord(ends=7, ward=("q",), row=3, kind="boom", reason="7 copiers")}
    after = after_end(records, {"bystander": 0.0}, 402.0, "killed")
    assert (after["s1"].row, after["s1"].ends) == (0, 4)
    assert after["q"] == records["q"]
    assert after_end(records, {}, 402.0, "killed")["s1"].row == 0, "also when it held nothing"


def test_a_row_that_no_other_copier_has_lived_through_must_be_longer() -> None:
    records = alone_after(4)
    assert not after_end(records, {"s1": 400.0}, 402.0, "boom 4", witness_s=299.0)["s1"].reason
    assert after_end(records, {"s1": 400.0}, 402.0, "boom 4", witness_s=300.0)["s1"].reason
    for end in range(5, UNWITNESSED_ROW + 2):
        assert not records["s1"].reason
        records = after_end(records, {"s1": 100.0 * end}, 100.0 * end + 2, "boom 5", witness_s=0.0)
    assert records["s1"].reason


def test_the_only_suspect_is_divided_and_its_parts_go_apart() -> None:
    assert to_divide({"s1": SetRecord(ends=1)}, {"s1": 0.0}, 5.0) is None, "one end is no evidence"
    pair = {"s1": SetRecord(ends=2), "s2": SetRecord(ends=2)}
    assert to_divide(pair, {"s1": 0.0, "s2": 0.0}, 5.0) is None, "there is a choice left"
    record = SetRecord(ends=3, ward=("s1",), other_half=("s2",))
    records = {"s1": record, "s2": SetRecord(ends=2, ward=("s2",), other_half=("s1",))}
    held = {"s1": 0.0, "bystander": 0.0}
    assert to_divide(records, held, 5.0) == "s1"
    assert to_divide(records, held, SURVIVED_S) is None, "it has outlived the suspicion"
    after = after_end(divided(records, "s1", ("p", "q")), {"p": 0.0, "q": 0.0, "bystander": 0.0}, 5.0, "boom")
    assert (after["p"].ward, after["p"].other_half, after["q"].ward) == (("p",), ("q",), ("q",))
    assert {after["p"].ends, after["q"].ends} == {4}
    assert after["s2"] == SetRecord(ends=2), "the other half is let out"
    assert "s1" not in after


def test_a_quarantine_that_is_remembered_is_tried_as_late_as_a_new_one_and_back_at_its_next_end() -> None:
    records = {"s1": remembered("6 copiers", 6, "s1", 100.0)}
    assert waiting(records, 99.0 + RETRY_S) == {"s1"}
    assert wards(records, 100.0 + RETRY_S) == (("s1",),)
    after = after_end(records, {"s1": 100.0 + RETRY_S}, 103.0 + RETRY_S, "boom")
    assert after["s1"].reason.startswith("7 copiers in a row")


def test_after_ten_minutes_a_quarantined_set_is_tried_alone_and_back_at_its_next_end() -> None:
    records = alone_after(QUARANTINE_ENDS)
    again_s = 402.0 + RETRY_S
    assert wards(records, again_s - 1) == ()
    assert wards(records, again_s) == (("s1",),)
    assert after_end(records, {"s1": again_s}, again_s + 1, "boom 5")["s1"].reason.startswith("6 copiers in a row")
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
