"""The judge of the matrix finds every fault, and finds none in what is right."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.dr.judge import (
    GroupFault,
    Log,
    Sent,
    SideFault,
    diverged,
    grown,
    judge_group,
    judge_side,
    unlike,
    wanted_of,
)
from bench.dr.records import KEYS, RecordId, id_of, key_of, value_of


def ids(*numbers: int, stint: str = "w", topic: str = "t", partition: int = 0) -> list[RecordId]:
    return [RecordId(stint, topic, partition, number) for number in numbers]


def side(sent: Sequence[RecordId], log: Sequence[RecordId], **more: object) -> SideFault:
    return judge_side(Sent(frozenset(sent)), {("t", 0): log}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (ids(0, 1, 2), SideFault()),
        (ids(0, 2), SideFault(lost=1, example="lost: w t-0 number 1")),
        (ids(), SideFault(lost=3, example="lost: w t-0 number 0")),
        (ids(0, 1, 2, 2, 2), SideFault(doubled=2, example="doubled: w t-0 number 2")),
        (ids(0, 2, 1), SideFault(reordered=1, example="reordered: w t-0 number 1")),
        (ids(0, 1, 2, 3), SideFault(foreign=1, example="foreign: w t-0 number 3")),
        ([*ids(0, 1, 2), *ids(0, stint="earlier")], SideFault(foreign=1, example="foreign: earlier t-0 number 0")),
    ],
)
def test_every_fault_of_a_side_is_found(log: list[RecordId], found: SideFault) -> None:
    assert side(ids(0, 1, 2), log) == found
    assert side(ids(0, 1, 2), log).is_clean is (found == SideFault())


def test_a_record_of_another_partition_is_misplaced() -> None:
    found = judge_side(Sent(frozenset(ids(0))), {("a.t", 1): ids(0)})
    assert (found.misplaced, found.is_clean) == (1, False)


def test_only_what_was_reported_as_lost_may_be_missing() -> None:
    assert side(ids(0, 1, 2), ids(0), excused=ids(1, 2)).is_clean
    assert side(ids(0, 1, 2), ids(0), excused=ids(2)).lost == 1


def test_a_record_whose_fate_is_unknown_may_be_there_once() -> None:
    sent = Sent(frozenset(ids(0)), frozenset(ids(1)))
    assert judge_side(sent, {("t", 0): ids(0)}).is_clean
    assert judge_side(sent, {("t", 0): ids(0, 1)}).is_clean
    assert judge_side(sent, {("t", 0): ids(0, 1, 1)}).doubled == 1


def test_writers_may_lie_among_each_other() -> None:
    other = ids(0, 1, stint="v")
    assert side([*ids(0, 1), *other], [*other, *ids(0, 1)]).is_clean
    assert side([*ids(0, 1), *other], [other[0], *ids(0, 1), other[1]]).is_clean


def test_one_record_on_two_topics_of_a_side_is_doubled() -> None:
    assert judge_side(Sent(frozenset(ids(0))), {("t", 0): ids(0), ("a.t", 0): ids(0)}).doubled == 1


def test_a_compacted_topic_needs_the_last_record_of_each_key() -> None:
    sent = ids(0, 1, KEYS, 2 * KEYS)
    assert side(sent, ids(1, 2 * KEYS), compacted=("t",)).is_clean
    assert side(sent, ids(1, KEYS), compacted=("t",)) == SideFault(lost=1, example=f"lost: w t-0 number {2 * KEYS}")
    assert side(sent, ids(2 * KEYS), compacted=("t",)).lost == 1
    assert side(sent, ids(1, 2 * KEYS), compacted=("u",)).lost == 2


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (ids(0, 1, 2), GroupFault()),
        (ids(0, 2), GroupFault(skipped=1, example="skipped: w t-0 number 1")),
        (ids(0, 1, 1, 2), GroupFault(repeated=1, example="repeated: w t-0 number 1")),
        (ids(0, 1, 2, 0, 1, 2), GroupFault(repeated=3, example="repeated: w t-0 number 0")),
        (ids(0, 2, 1), GroupFault(reordered=1, example="reordered: w t-0 number 1")),
        (ids(0, 1, 2, 9), GroupFault(foreign=1, example="foreign: w t-0 number 9")),
    ],
)
def test_every_fault_of_a_group_is_found(read: list[RecordId], found: GroupFault) -> None:
    assert judge_group(ids(0, 1, 2), {("t", 0): read}) == found
    assert found.is_clean(may_repeat=False) is (found == GroupFault())
    assert found.is_clean(may_repeat=True) is not (found.skipped or found.reordered or found.foreign)


@given(st.lists(st.integers(0, 11)))
def test_a_side_is_clean_exactly_when_its_log_is_what_was_sent(log: list[int]) -> None:
    whole = list(range(4))
    assert side(ids(*whole), ids(*log)).is_clean == (log == whole)
    logs: dict[Log, list[RecordId]] = {("t", 0): ids(*log)}
    assert judge_group(ids(*whole), logs).is_clean(may_repeat=False) == (log == whole)


def test_a_value_names_its_record() -> None:
    assert id_of(value_of("w-1", 3, 17), "t") == RecordId("w-1", "t", 3, 17)
    assert key_of("w-1", 3, KEYS + 2) == b"w-1-3-2"
    assert len(value_of("w", 0, 0)) == 100
    for other in (None, b"", b"drill", b"a:b|"):
        with pytest.raises(ValueError, match=r"."):
            id_of(other, "t")


def test_what_was_thrown_away_must_not_be_seen() -> None:
    sent = Sent(frozenset(ids(0, 1, 2)), frozenset(ids(3)))
    rest = sent.without(ids(2, 3))
    assert judge_side(rest, {("t", 0): ids(0, 1)}, excused=ids(2, 3)).is_clean
    for one in (2, 3):
        assert judge_side(rest, {("t", 0): ids(0, 1, one)}, excused=ids(2, 3)).foreign == 1


def test_what_only_the_old_source_has_is_the_end_of_its_logs() -> None:
    log: Log = ("t", 0)
    assert diverged({log: ids(0, 1, 2)}, {("a.t", 0): ids(0)}).records == tuple(ids(1, 2))
    assert diverged({log: ids(0, 1, 2)}, {log: ids(0, 1, 2, 3)}).records == ()
    found = diverged({log: ids(0, 1, 2)}, {log: ids(0, 2)})
    assert (found.records, found.holes) == (tuple(ids(1)), ("t-0",))


def test_a_cleaner_makes_no_hole() -> None:
    log: Log = ("t", 0)
    found = diverged({log: ids(0, KEYS)}, {log: ids(KEYS)}, compacted=("t",))
    assert (found.records, found.holes) == ((), ())


def test_only_what_came_has_grown() -> None:
    log: Log = ("t", 0)
    assert grown({log: ids(0, 1)}, {log: ids(1)}) == []
    assert grown({log: ids(0, 1)}, {log: ids(0, 1, 2)}) == ids(2)
    assert grown({log: ids(0, 1)}, {log: ids(0, 1, 1)}) == ids(1), "a second copy of a record has come, too"


def test_two_sides_are_alike_only_in_the_same_order() -> None:
    log: Log = ("t", 0)
    assert unlike({log: ids(0, 1)}, {log: ids(0, 1)}, ["t"]) == []
    assert unlike({log: ids(0, 1)}, {log: ids(1, 0)}, ["t"]) == ["t-0"]
    assert unlike({log: ids(0, 1)}, {log: ids(0, 1, 2)}, ["t"]) == ["t-0"]
    assert unlike({}, {log: ids(0)}, ["t"]) == ["t-0"]
    assert unlike({}, {log: ids(0)}, ["u"]) == []


def test_a_group_may_have_read_what_is_lost_or_compacted_but_nothing_else() -> None:
    log: Log = ("t", 0)
    sent = Sent(frozenset(ids(0, 1, 2, 3)))
    read = {log: ids(0, 1, 3)}
    assert judge_group(wanted_of(read, [{log: ids(0, 1, 2)}], sent), read).foreign == 1
    assert judge_group(wanted_of(read, [{log: ids(0, 1, 2)}], sent), read).skipped == 1
    assert judge_group(wanted_of(read, [{log: ids(0, 1)}], sent, excused=ids(3)), read) == GroupFault()
    assert judge_group(wanted_of(read, [{log: ids(0, 1)}], sent, compacted=("t",)), read) == GroupFault()
    assert wanted_of(read, [{log: ids(0)}], Sent(), compacted=("t",)) == frozenset(ids(0))


def test_what_lies_on_any_side_must_be_read_unless_it_was_thrown_away() -> None:
    log: Log = ("t", 0)
    sides = [{log: ids(0, 1)}, {log: ids(0, 2)}]
    assert wanted_of({}, sides, Sent()) == frozenset(ids(0, 1, 2))
    assert wanted_of({}, sides, Sent(), excused=ids(2)) == frozenset(ids(0, 1))
