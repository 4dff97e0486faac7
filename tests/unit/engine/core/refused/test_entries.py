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
    contents_record,
    emptied,
    entry_of,
    fold,
    mark_of,
    placed_at,
    producer_of,
    quarantine_topic,
    read_contents,
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
    contents_at=5,
    key_bytes=None,
    value_bytes=1,
    headers=0,
)
_BYTES = st.none() | st.binary(max_size=20)


@given(_BYTES, _BYTES, st.lists(st.tuples(st.binary(max_size=5), _BYTES), max_size=4), st.integers(-1, 2**40))
def test_contents_are_the_record_as_it_is(
    key: bytes | None, value: bytes | None, headers: list[tuple[bytes, bytes | None]], at_ms: int
) -> None:
    record = Record(17, at_ms, key, value, tuple(headers))
    facts = msgspec.structs.replace(FACTS, timestamp_ms=at_ms)
    contents = contents_record("A", facts, record)
    assert read_contents(contents, facts) == record
    assert contents.value is not None  # else compaction would take it for a deletion
    assert contents_record("A", facts, None).value is None


def test_an_entry_is_read_back() -> None:
    entry = entry_of("A", FACTS)
    assert read_entry(entry.key, entry.value) == FACTS
    assert FACTS.held
    assert not emptied(FACTS).held
    assert placed_at(emptied(FACTS), 5) == FACTS


def test_the_key_names_the_record_and_nothing_else() -> None:
    key = b'["raymirror-quarantine",{"cluster":"A","offset":17,"partition":3,"topic":"orders","topic_id":"an-id"}]'
    assert entry_of("A", FACTS).key == key
    assert entry_of("A", msgspec.structs.replace(FACTS, words="other", at_ms=9)).key == key
    assert quarantine_topic("A") == "raymirror-quarantine.A.internal"
    assert (FACTS.name.lane, FACTS.target) == (TopicPartition("orders", 3), TopicPartition("A.orders", 3))
    assert str(FACTS.name) == "orders-3@17"


def test_contents_of_another_record_are_not_taken() -> None:
    other = msgspec.structs.replace(FACTS, offset=18)
    record = Record(18, 1, None, None)
    assert read_contents(contents_record("A", other, record), FACTS) is None
    assert read_contents(contents_record("A", FACTS, None), FACTS) is None


def test_contents_without_key_and_value_are_refused() -> None:
    with pytest.raises(BadEntry, match="have no key and value"):
        read_contents(Record(0, 0, contents_record("A", FACTS, None).key, b"{}"), FACTS)


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"{}"), (b"x", b"{}"), (b'["other",{}]', b"{}"), (entry_of("A", FACTS).key, None)]
)
def test_other_records_are_no_entries(key: bytes | None, value: bytes | None) -> None:
    assert read_entry(key, value) is None
    assert read_mark(key, value) is None
    assert read_producer(key) is None


def test_what_cannot_be_read_is_said() -> None:
    key = entry_of("A", FACTS).key
    with pytest.raises(BadEntry, match="quarantine topic"):
        read_entry(key, b"{}")
    newer = msgspec.structs.replace(FACTS, format=FORMAT_VERSION + 2)
    with pytest.raises(NewerFormat):
        read_entry(key, entry_of("A", newer).value)


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
    states = fold([FACTS, other, again], {FACTS.name: mark})
    assert [(state.record.offset, state.mark) for state in states] == [(4, None), (17, mark)]
    assert states[1].record.at_ms == 3_000
    assert fold([], {RefusedName("t", 0, 1): mark}) == []
    assert list(by_lane(states)) == [TopicPartition("orders", 3)]
