"""What a failback may do: the table of reasons, and both logs after it, of plain and of compacted topics."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.failback import FailbackChoice, FailbackRefusal, certain, plan_failback
from policies.dr.separation import LogBounds, LogPart, Separation
from tests.unit.policies.dr.separated import Entry, Logs, changed, compacted, names, planned, separation, values

KEEP, APPEND, DISCARD = FailbackChoice
ALL = tuple(FailbackChoice)
DAY_MS = 86_400_000
KEYS = "abcd"

Rows = list[tuple[str, int | None]]
Flag = bool
parts = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 99))), max_size=7)


def entries(rows: Rows, first: int) -> list[Entry]:
    return [Entry(first + at, key, value) for at, (key, value) in enumerate(rows)]


def of_keys(diverged: int, new: int, **changes: Any) -> Separation:
    return separation(5, diverged, new, is_compacted=True, **changes)


# --- who is refused, and why -----------------------------------------------------------------------------------------

REASONS: list[tuple[str, dict[str, Any], tuple[FailbackChoice, ...]]] = [
    ("source-transaction-open", {"source": LogBounds(start=0, end=9, stable_end=7)}, ALL),
    ("target-transaction-open", {"target": LogBounds(start=0, end=8, stable_end=6)}, ALL),
    ("target-lost-records", {"target": LogBounds(start=0, end=4, stable_end=4), "new": 0}, ALL),
    ("source-lost-records", {"source": LogBounds(start=0, end=4, stable_end=4), "diverged": 0}, (KEEP, APPEND)),
    ("source-lost-records", {"epoch_end": 3}, (KEEP, APPEND)),
    ("source-epoch-unknown", {"epoch_end": -1}, (KEEP, APPEND)),
    ("new-records-expired", {"target": LogBounds(start=6, end=8, stable_end=8)}, (KEEP,)),
    ("partition-counts-differ", {"target_partitions": 2}, (KEEP, APPEND)),
    ("source-feeds-another-cluster", {"feeds": ("C",)}, ALL),
    ("tombstones-gone", {"is_compacted": True, "apart_ms": DAY_MS}, (KEEP, APPEND)),
    ("tombstones-gone", {"is_compacted": True, "erased": True}, (KEEP, APPEND)),
    ("left-out-records", {"left_out": 2}, (APPEND, FailbackChoice.DISCARD)),
    ("replayed-records", {"replayed": 1}, (KEEP,)),
    ("other-records-between", {"between": 2}, (KEEP,)),
]


@pytest.mark.parametrize(("name", "changes", "refused"), REASONS)
def test_a_reason_refuses_the_choices_that_it_spoils(
    name: str, changes: dict[str, Any], refused: tuple[FailbackChoice, ...]
) -> None:
    found = changed(separation(5, 4, 3), **changes)
    assert [choice for choice in ALL if name in names(plan_failback(found, choice))] == list(refused)
    for choice in refused:
        (one,) = plan_failback(found, choice).refused
        assert len(one.why) > 20


def test_the_key_of_a_record_that_was_left_out_is_not_taken_for_deleted() -> None:
    """Without D, a key that the target lacks gets a tombstone on the source where tombstones may be gone."""
    found = of_keys(0, 3, left_out=1, apart_ms=DAY_MS)
    for choice in ALL:
        plan = plan_failback(found, choice)
        assert (plan.compares_keys, names(plan)) == (True, ["left-out-records"])
    assert [names(plan_failback(of_keys(0, 3, left_out=1), choice)) for choice in ALL] == [[]] * 3


def test_every_reason_has_a_case() -> None:
    assert {name for name, _, _ in REASONS} | {"not-judged"} == {one.value for one in FailbackRefusal}


@pytest.mark.parametrize("choice", ALL)
def test_what_is_not_known_is_not_judged(choice: FailbackChoice) -> None:
    plan = plan_failback(Separation(lane=separation(0, 0, 0).lane, unknown="broker 1 is silent"), choice)
    assert (names(plan), plan.refused[0].why, plan.to_source) == (["not-judged"], "broker 1 is silent", 0)


def test_bounds_are_known_if_the_leader_has_answered_everything() -> None:
    assert separation(1, 0, 0).source.is_known
    assert not LogBounds(start=0, end=3).is_known
    assert separation(1, 2, 3).size(LogPart.END) == 0


def test_all_reasons_are_named_at_once() -> None:
    found = separation(5, 4, 3, target_partitions=2, feeds=("C", "D"))
    assert names(plan_failback(found, KEEP)) == ["partition-counts-differ", "source-feeds-another-cluster"]
    assert "C and D" in plan_failback(found, KEEP).refused[1].why


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "written"), [(KEEP, (False, 3, 4)), (APPEND, (True, 12, 4)), (DISCARD, (True, 8, 0))]
)
def test_divergence_decides_what_is_written(choice: FailbackChoice, written: tuple[bool, int, int]) -> None:
    plan = planned(separation(5, 4, 3), choice)
    assert (plan.makes_anew, plan.to_source, plan.to_target) == written
    same = planned(separation(5, 0, 3), choice)
    assert (same.makes_anew, same.to_source, same.to_target, same.compares_keys) == (False, 3, 0, False)


@pytest.mark.parametrize("changes", [{"epoch_end": 3}, {"epoch_end": -1}, {"target_partitions": 2}])
def test_discard_repairs_a_source_that_nothing_else_repairs(changes: dict[str, Any]) -> None:
    plan = planned(separation(5, 0, 3, **changes), DISCARD)
    assert (plan.makes_anew, plan.to_source) == (True, 8)


def test_what_the_target_has_deleted_is_lost_with_a_source_made_anew() -> None:
    found = separation(5, 4, 3, oldest_kept=2)
    assert [plan_failback(found, choice).expired for choice in ALL] == [0, 2, 2]
    unknown = msgspec.structs.replace(found, oldest_kept=-1)
    assert [plan_failback(unknown, choice).expired for choice in ALL] == [0, -1, -1]


def test_a_log_without_a_shared_record_needs_no_leader_epoch() -> None:
    found = separation(5, 0, 3, epoch_end=-1)
    (one,) = plan_failback(found, KEEP).refused
    assert "topics.exclude" in one.why, "it names what to do"
    assert not plan_failback(msgspec.structs.replace(found, is_unshared=True), KEEP).refused


def test_a_last_position_refuses_only_what_stays_so() -> None:
    loose = changed(separation(5, 4, 3), target=LogBounds(start=6, end=8, stable_end=8), replayed=1, left_out=1)
    assert set(names(plan_failback(loose, KEEP))) == {"new-records-expired", "replayed-records"}
    assert not plan_failback(certain(loose), KEEP).refused
    firm = changed(separation(5, 4, 3, epoch_end=-1), target_partitions=2, feeds=("C",))
    wanted = {"source-epoch-unknown", "partition-counts-differ", "source-feeds-another-cluster"}
    assert set(names(plan_failback(certain(firm), KEEP))) == wanted
    unread = separation(5, 4, 3, unknown="nobody answers")
    assert set(names(plan_failback(certain(unread), KEEP))) == {"not-judged"}


@given(*[st.integers(0, 6)] * 3, st.sampled_from(ALL))
def test_plain_logs_hold_every_record_once(shared: int, diverged: int, new: int, choice: FailbackChoice) -> None:
    plan = planned(separation(shared, diverged, new), choice)
    numbers = [list(range(first, first + count)) for first, count in ((0, shared), (100, diverged), (200, new))]
    logs = Logs(*([Entry(number) for number in one] for one in numbers))
    before = [*numbers[0], *numbers[1]]
    source, target = ([one.number for one in log] for log in logs.after(plan))
    wanted = {*numbers[0], *numbers[2], *(numbers[1] if choice is not DISCARD else ())}
    assert sorted(source) == sorted(target) == sorted(wanted)
    assert source == target or choice is KEEP
    if not plan.makes_anew:
        assert source[: len(before)] == before, "a client cannot cut a log"
        assert len(source) - len(before) == plan.to_source
    assert target[: shared + new] == [*numbers[0], *numbers[2]]
    assert len(target) - shared - new == plan.to_target


# --- compacted topics ------------------------------------------------------------------------------------------------


@given(*[parts] * 3, st.sampled_from(ALL), *[st.booleans()] * 3)
def test_both_sides_have_the_newest_value_of_every_key(
    shared: Rows, diverged: Rows, new: Rows, choice: FailbackChoice, is_late: Flag, is_expiring: Flag, is_cleaned: Flag
) -> None:
    """N is newer than D, and D is newer than P, whatever the cleaner has taken of N by then."""
    p, d, n = entries(shared, 0), entries(diverged, 100), entries(new, 200)
    found = separation(
        *map(len, (p, d, n)),
        is_compacted=True,
        is_expiring=is_expiring,
        apart_ms=(DAY_MS if is_late else DAY_MS - 1) if n else 0,
    )
    plan = plan_failback(found, choice)
    if plan.refused:
        assert (is_late, names(plan)) == (True, ["tombstones-gone"])
        return
    logs = Logs(p, d, n)
    if is_cleaned:
        logs.clean(drops_tombstones=is_late)
    source, target = logs.after(plan)
    truth = values([*p, *(d if choice is not DISCARD else ()), *n])
    assert (values(source), values(target)) == (truth, truth)


def test_without_comparing_keys_old_values_would_come_back() -> None:
    p, d, n = [Entry(0, "a", 1)], [Entry(100, "a", 2)], [Entry(200, "a", 3)]
    blind = msgspec.structs.replace(planned(of_keys(1, 1), KEEP), compares_keys=False)
    _, target = Logs(p, d, n).after(blind)
    assert values(target) == {"a": 2}, "D behind N revives what N replaced"
    _, target = Logs(p, d, n).after(planned(of_keys(1, 1), KEEP))
    assert values(target) == {"a": 3}


def test_a_dropped_tombstone_leaves_no_trace_once_there_is_divergence() -> None:
    """Two histories that end in the same logs and must end differently: so no rule can be right, and both are refused.

    In one the target deleted key d after a record of it, in the other it never had the key.
    """
    p, d = [Entry(0, "a", 1)], [Entry(100, "d", 2)]
    deleted, never = [Entry(200, "d", 3), Entry(201, "d", None)], list[Entry]()
    left = [compacted([*p, *n], drops_tombstones=True) for n in (deleted, never)]
    assert left[0] == left[1]
    assert values([*p, *d, *deleted]) != values([*p, *d, *never])
    late = of_keys(1, 0, apart_ms=DAY_MS)
    assert [names(plan_failback(late, choice)) for choice in ALL] == [["tombstones-gone"], ["tombstones-gone"], []]


def test_a_key_that_is_gone_may_have_expired_where_the_target_deletes_by_time() -> None:
    late = of_keys(0, 1, apart_ms=DAY_MS, is_expiring=True)
    assert [names(plan_failback(late, choice)) for choice in ALL] == [["tombstones-gone"]] * 3
    assert planned(of_keys(0, 1, apart_ms=DAY_MS), KEEP).compares_keys
    assert not planned(of_keys(0, 1, apart_ms=DAY_MS - 1, is_expiring=True), KEEP).compares_keys


def test_a_deletion_that_was_never_copied_leaves_no_trace_and_only_a_source_made_anew_is_equal() -> None:
    """The source deleted key a, nothing was copied any more, and its cleaner has removed the tombstone with the key."""
    p, tombstone = [Entry(0, "a", 1)], [Entry(100, "a", None)]
    assert compacted([*p, *tombstone], drops_tombstones=True) == []
    found = of_keys(0, 0, erased=True)
    assert [names(plan_failback(found, choice)) for choice in ALL] == [["tombstones-gone"], ["tombstones-gone"], []]
    assert planned(found, DISCARD).makes_anew
    source, target = Logs(p, [], []).after(planned(found, DISCARD))
    assert values(source) == values(target) == {"a": 1}
