"""Entries and marks of the quarantine topic: what is written is read back, and repeats are one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import NewerFormat
from engine.core.refused.entries import (
    FORMAT_VERSION,
    BadEntry,
    RefusedMark,
    RefusedName,
    RefusedRecord,
    by_lane,
    contents_of,
    emptied,
    entry_of,
    fold,
    mark_of,
    producer_of,
    quarantine_topic,
    read_entry,
    read_mark,
    read_producer,
)
from engine.wire.record import Record
from policies.model import TopicPartition

FACTS = RefusedRecord(
    topic="orders",
    partition=3,
    offset=17,
    topic_id="an-id",
    target_topic="A.orders",
    timestamp_ms=1_000,
    error_code=87,
    words="InvalidRecord: no key",
    at_ms=2_000,
    held=True,
    key_bytes=None,
    value_bytes=1,
    headers=0,
)
_BYTES = st.none() | st.binary(max_size=20)


@given(_BYTES, _BYTES, st.lists(st.tuples(st.binary(max_size=5), _BYTES), max_size=4), st.integers(-1, 2**40))
def test_an_entry_holds_the_record_as_it_is(
    key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]], at_ms: int
) -> None:
    record = Record(17, at_ms, key, value, tuple(headers))
    facts = msgspec.structs.replace(FACTS, timestamp_ms=at_ms)
    entry = entry_of("A", facts, record)
    assert read_entry(entry) == facts
    assert contents_of(entry) == record
    assert entry.value is not None  # else compaction would take it for a deletion


def test_the_key_names_the_record_and_nothing_else() -> None:
    key = b'["raymirror-quarantine",{"cluster":"A","offset":17,"partition":3,"topic":"orders","topic_id":"an-id"}]'
    assert entry_of("A", FACTS, None).key == key
    assert entry_of("A", msgspec.structs.replace(FACTS, words="other", at_ms=9), None).key == key
    assert quarantine_topic("A") == "raymirror-quarantine.A.internal"
    assert (FACTS.name.lane, FACTS.target) == (TopicPartition("orders", 3), TopicPartition("A.orders", 3))
    assert str(FACTS.name) == "orders-3@17"


def test_an_entry_without_contents_has_no_record() -> None:
    assert contents_of(entry_of("A", emptied(FACTS), None)) is None


def test_an_entry_that_says_more_than_it_holds_is_refused() -> None:
    with pytest.raises(BadEntry, match="does not hold"):
        contents_of(entry_of("A", FACTS, None))


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"{}"), (b"x", b"{}"), (b'["other",{}]', b"{}"), (entry_of("A", FACTS, None).key, None)]
)
def test_other_records_are_no_entries(key: bytes | None, value: bytes | None) -> None:
    assert read_entry(Record(0, 0, key, value)) is None
    assert read_mark(key, value) is None
    assert read_producer(key) is None


def test_what_cannot_be_read_is_said() -> None:
    key = entry_of("A", FACTS, None).key
    with pytest.raises(BadEntry, match="quarantine topic"):
        read_entry(Record(0, 0, key, b"{}"))
    newer = msgspec.structs.replace(FACTS, format=FORMAT_VERSION + 2)
    with pytest.raises(NewerFormat):
        read_entry(entry_of("A", newer, None))


def test_marks_and_producers_are_read_back() -> None:
    mark = RefusedMark(did="replayed", at_ms=5, target_topic="A.orders", target_offset=99)
    record = mark_of("A", FACTS.name, mark)
    assert read_mark(record.key, record.value) == (FACTS.name, mark)
    assert read_producer(producer_of(41, 5).key) == 41
    assert read_producer(record.key) is None


def test_repeats_are_one_and_marks_stay() -> None:
    other = msgspec.structs.replace(FACTS, offset=4)
    again = msgspec.structs.replace(FACTS, at_ms=3_000)
    mark = RefusedMark(did="dropped", at_ms=5)
    states = fold([(0, FACTS), (1, other), (2, again)], [(FACTS.name, mark)])
    assert [(state.record.offset, state.at, state.mark) for state in states] == [(4, 1, None), (17, 2, mark)]
    assert states[1].record.at_ms == 3_000
    assert fold([], [(RefusedName("t", 0, 1), mark)]) == []
    assert list(by_lane(states)) == [TopicPartition("orders", 3)]
