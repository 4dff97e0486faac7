"""Entries of the quarantine topic: one for each refused record that was left out of the copy; contents, and marks.

    partition 0, an entry   key      ["raymirror-quarantine",{"cluster":A,"offset":n,"partition":p,"topic":t,
                                     "topic_id":i}]
                            value    JSON: the facts (`RefusedRecord`)
    partition 1, a mark     key      the same with "raymirror-quarantine-mark"
                            value    JSON: what became of the record (`RefusedMark`)
    partition 1, a producer key      ["raymirror-quarantine-producer",{"id":n}]: a producer id that replays records
    partition 2, contents   key      as an entry's, with "raymirror-quarantine-contents"
                            headers  "key" and "value" of the record as they are, then its own headers

The topic is on the target and compacted. Contents are written before their entry, and both at least once; their keys
make repeats one. Marks have keys of their own, so an entry that arrives late does not undo a mark. Entries and marks
are small, and read as a whole; contents are read one by one. `core/formats.py` has the version rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

import msgspec

from engine.base.errors import MirrorError
from engine.core.formats import check_format
from engine.wire.record import Headers, Record
from policies.model import TopicPartition

FORMAT_VERSION = 1
ENTRIES, MARKS, CONTENTS = 0, 1, 2
"""The partitions of the topic."""
_ENTRY, _MARK, _CONTENTS = "raymirror-quarantine", "raymirror-quarantine-mark", "raymirror-quarantine-contents"
_PRODUCER = "raymirror-quarantine-producer"
_KEY, _VALUE = b"key", b"value"
_OWN_HEADERS = 2
T = TypeVar("T")
Did = Literal["replayed", "dropped"]


class BadEntry(MirrorError):
    """A record of the quarantine topic has the key of an entry or a mark, and no such contents."""

    exit_code = 2


def quarantine_topic(source: str) -> str:
    """Return the name of the quarantine topic for flows from a source; the topic is on their target."""
    return f"raymirror-quarantine.{source}.internal"


class RefusedName(NamedTuple):
    """The identity of a refused record: its source partition and offset; `topic_id`: empty where topics have no ids."""

    topic: str
    partition: int
    offset: int
    topic_id: str = ""

    @property
    def lane(self) -> TopicPartition:
        """The source partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class RefusedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of one record that was left out. Sizes in bytes, None for null; times in Unix ms.

    `timestamp_ms` is that of the record, which its copy would have. `error_code` and `words` are the target's.
    `contents_at`: the offset of the record's contents on their partition of the topic; -1: nothing holds them.
    """

    topic: str
    partition: int
    offset: int
    topic_id: str = ""
    target_topic: str
    timestamp_ms: int
    error_code: int
    words: str
    at_ms: int
    contents_at: int = -1
    key_bytes: int | None
    value_bytes: int | None
    headers: int
    deployment: str = ""
    format: int = FORMAT_VERSION

    @property
    def held(self) -> bool:
        """Whether the topic holds the record's contents."""
        return self.contents_at >= 0

    @property
    def name(self) -> RefusedName:
        """The identity of the record."""
        return RefusedName(self.topic, self.partition, self.offset, self.topic_id)

    @property
    def target(self) -> TopicPartition:
        """The partition of the copy."""
        return TopicPartition(self.target_topic, self.partition)


class RefusedMark(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a record. `target_offset`: where a replayed record is in the copy's partition; -1: nowhere."""

    did: Did
    at_ms: int
    target_topic: str = ""
    target_offset: int = -1
    format: int = FORMAT_VERSION


class RefusedState(msgspec.Struct, kw_only=True):
    """One record with its last entry; `mark`: None while nothing was done."""

    record: RefusedRecord
    mark: RefusedMark | None = None


class _Name(msgspec.Struct):
    cluster: str
    offset: int
    partition: int
    topic: str
    topic_id: str = ""


class _Producer(msgspec.Struct):
    id: int


def _key(kind: str, source: str, name: RefusedName) -> bytes:
    where = _Name(source, name.offset, name.partition, name.topic, name.topic_id)
    return msgspec.json.encode([kind, where])


def _name(kind: str, key: bytes | None) -> RefusedName | None:
    """Decode a key of some kind; None for any other key."""
    try:
        found, where = msgspec.json.decode(key or b"", type=tuple[str, _Name])
    except msgspec.MsgspecError:
        return None
    return RefusedName(where.topic, where.partition, where.offset, where.topic_id) if found == kind else None


def entry_of(source: str, facts: RefusedRecord) -> Record:
    """Encode an entry."""
    return Record(0, facts.at_ms, _key(_ENTRY, source, facts.name), msgspec.json.encode(facts))


def emptied(facts: RefusedRecord) -> RefusedRecord:
    """Return the facts of a record whose contents are dropped."""
    return msgspec.structs.replace(facts, contents_at=-1)


def placed_at(facts: RefusedRecord, contents_at: int) -> RefusedRecord:
    """Return the facts of a record whose contents are at this offset."""
    return msgspec.structs.replace(facts, contents_at=contents_at)


def read_entry(key: bytes | None, value: bytes | None) -> RefusedRecord | None:
    """Decode the facts of an entry; None for any other record. Raises NewerFormat, BadEntry."""
    if _name(_ENTRY, key) is None or value is None:
        return None
    facts = _decoded(value, RefusedRecord)
    check_format(facts.format, FORMAT_VERSION)
    return facts


def contents_record(source: str, facts: RefusedRecord, record: Record | None) -> Record:
    """Encode the contents of a refused record; `record` None: a tombstone, which removes them."""
    key = _key(_CONTENTS, source, facts.name)
    if record is None:
        return Record(0, facts.at_ms, key, None)
    headers: Headers = ((_KEY, record.key), (_VALUE, record.value), *record.headers)
    return Record(0, facts.at_ms, key, msgspec.json.encode({"format": FORMAT_VERSION}), headers)


def read_contents(found: Record, facts: RefusedRecord) -> Record | None:
    """Return the refused record, with its source offset; None if these are no contents of it. Raises BadEntry."""
    if _name(_CONTENTS, found.key) != facts.name or found.value is None:
        return None
    own = found.headers[:_OWN_HEADERS]
    if tuple(name for name, _ in own) != (_KEY, _VALUE):
        raise BadEntry(f"the contents of {facts.name} have no key and value")
    return Record(facts.offset, facts.timestamp_ms, own[0][1], own[1][1], found.headers[_OWN_HEADERS:])


def mark_of(source: str, name: RefusedName, mark: RefusedMark) -> Record:
    """Encode a mark."""
    return Record(0, mark.at_ms, _key(_MARK, source, name), msgspec.json.encode(mark))


def read_mark(key: bytes | None, value: bytes | None) -> tuple[RefusedName, RefusedMark] | None:
    """Decode a mark; None for any other record. Raises NewerFormat, BadEntry."""
    name = _name(_MARK, key)
    if name is None or value is None:
        return None
    mark = _decoded(value, RefusedMark)
    check_format(mark.format, FORMAT_VERSION)
    return name, mark


def producer_of(producer_id: int, now_ms: int) -> Record:
    """Encode the note that a producer id replays records."""
    return Record(0, now_ms, msgspec.json.encode([_PRODUCER, _Producer(producer_id)]), b"{}")


def read_producer(key: bytes | None) -> int | None:
    """Decode the note of a producer id; None for any other record."""
    try:
        kind, producer = msgspec.json.decode(key or b"", type=tuple[str, _Producer])
    except msgspec.MsgspecError:
        return None
    return producer.id if kind == _PRODUCER else None


def _decoded(value: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.MsgspecError as error:
        raise BadEntry(f"not a record of the quarantine topic: {error}") from error


def fold(entries: Sequence[RefusedRecord], marks: Mapping[RefusedName, RefusedMark]) -> list[RefusedState]:
    """Return the states of all records by name; of repeats the last entry counts."""
    found = {facts.name: RefusedState(record=facts, mark=marks.get(facts.name)) for facts in entries}
    return [found[name] for name in sorted(found)]


def by_lane(states: Iterable[RefusedState]) -> dict[TopicPartition, list[RefusedState]]:
    """Group states by source partition."""
    found: dict[TopicPartition, list[RefusedState]] = {}
    for one in states:
        found.setdefault(one.record.name.lane, []).append(one)
    return found
