"""Encodes and decodes Fetch and Produce, the two requests of the data path, without copying records.

Versions (Kafka protocol guide): Fetch 10 (names; Kafka 2.1), 11 (racks and followers; 2.3), 12 (flexible, diverging
epoch; 2.7), 13 (topic ids instead of names; 3.1); Produce 7 (names; 2.1), 8 (record errors; 2.4), 13 (flexible, topic
ids; 4.0). Flexible versions count lengths plus one as unsigned varints and end every struct with a tag section.
Transactional batches use Produce 8 or 7: from 12 on (KIP-890) Produce adds partitions to a transaction by itself, and
requires an EndTxn that raises the epoch.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

import msgspec

from engine.kafka.protocol.group_codec import read_uvarint

FETCH_KEY, FETCH_VERSIONS = 1, (13, 12, 11, 10)
PRODUCE_KEY, PRODUCE_VERSIONS = 0, (13, 8, 7)
TRANSACTIONAL_VERSIONS = (8, 7)
_RACKS_FROM, _RECORD_ERRORS_FROM = 11, 8
"""Fetch names racks and followers from this version on (KIP-392); Produce says which record is refused (KIP-467)."""

_FETCH_HEAD = struct.Struct(">iiiibii")
_FETCH_PARTITION_V11 = struct.Struct(">iiqqi")
_FETCH_PARTITION_V12 = struct.Struct(">iiqiqib")
_FETCHED_HEAD = struct.Struct(">ihi")
_FETCHED_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_PRODUCED_PARTITION = struct.Struct(">ihqqq")
_PLAIN_PARTITION = struct.Struct(">ihqqq3s")
_NOTHING_REFUSED = b"\1\0\0"
"""The end of a partition in a flexible Produce answer: no refused records, no message, no tags. Nearly every one."""
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_EPOCH_END = struct.Struct(">iq")
_DIVERGING_TAG = 0


class Want(msgspec.Struct, frozen=True, gc=False):
    """One partition of a Fetch: the offset, and the epochs that fence an old view (KIP-320, KIP-595)."""

    topic: str
    topic_id: UUID
    partition: int
    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int


class Fetched(msgspec.Struct, frozen=True):
    """One partition of a Fetch answer; its record set is `body[start:end]`."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: list[tuple[int, int]]
    preferred_replica: int
    start: int
    end: int
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the source's history diverges from the fetched one."""


class Produced(msgspec.Struct, frozen=True, gc=False):
    """One partition of a Produce answer; `record_index`: of the first refused record, -1 if the answer names none.

    `record_indexes`: of all refused records that the answer names, as it names them.
    """

    error_code: int
    base_offset: int
    log_start: int
    record_index: int
    message: str
    record_indexes: tuple[int, ...] = ()


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(value: str, flexible: bool) -> bytes:
    encoded = value.encode()
    return (uvarint(len(encoded) + 1) if flexible else _I16.pack(len(encoded))) + encoded


Place = tuple[str, UUID, int]
"""A partition that a session forgets: topic, topic id, partition."""


def encode_fetch(
    version: int,
    wants: Sequence[Want],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
    rack: str,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[Place] = (),
) -> bytes:
    """Encode a Fetch for the wanted partitions, in their order; `session` is (id, epoch); (0, -1) means none.

    A version below 11 has no rack: the leader answers.
    """
    flexible = version >= 12
    out = [_FETCH_HEAD.pack(-1, max_wait_ms, min_bytes, max_bytes, int(read_committed), *session)]
    topics = _by_topic(wants)
    out.append(uvarint(len(topics) + 1) if flexible else _I32.pack(len(topics)))
    for topic, partitions in topics:
        out.append(partitions[0].topic_id.bytes if version >= 13 else _text(topic, flexible))
        out.append(uvarint(len(partitions) + 1) if flexible else _I32.pack(len(partitions)))
        for want in partitions:
            if flexible:
                out.append(
                    _FETCH_PARTITION_V12.pack(
                        want.partition, want.leader_epoch, want.offset, want.last_epoch, -1, want.max_bytes, 0
                    )
                )
            else:
                out.append(
                    _FETCH_PARTITION_V11.pack(want.partition, want.leader_epoch, want.offset, -1, want.max_bytes)
                )
        if flexible:
            out.append(b"\0")
    out.append(_forget(version, forgotten))
    if version >= _RACKS_FROM:
        out.append(_text(rack, flexible))
    if flexible:
        out.append(b"\0")
    return b"".join(out)


def _forget(version: int, places: Sequence[Place]) -> bytes:
    flexible = version >= 12
    if not places:
        return b"\1" if flexible else _I32.pack(0)
    topics: dict[tuple[str, UUID], list[int]] = {}
    for topic, topic_id, partition in places:
        topics.setdefault((topic, topic_id), []).append(partition)
    out = bytearray(uvarint(len(topics) + 1) if flexible else _I32.pack(len(topics)))
    for (topic, topic_id), partitions in topics.items():
        out += topic_id.bytes if version >= 13 else _text(topic, flexible)
        out += uvarint(len(partitions) + 1) if flexible else _I32.pack(len(partitions))
        out += struct.pack(f">{len(partitions)}i", *partitions)
        out += b"\0" if flexible else b""
    return bytes(out)


def _by_topic(wants: Iterable[Want]) -> list[tuple[str, list[Want]]]:
    topics: dict[str, list[Want]] = {}
    for want in wants:
        topics.setdefault(want.topic, []).append(want)
    return list(topics.items())


class _Cursor:
    """Reads an answer from a position on."""

    __slots__ = ("at", "body", "flexible")

    def __init__(self, body: memoryview, flexible: bool) -> None:
        self.body, self.flexible = body, flexible
        self.at = 0

    def uvarint(self) -> int:
        byte = self.body[self.at]
        if byte < 0x80:
            self.at += 1
            return byte
        value, self.at = read_uvarint(self.body, self.at)
        return value

    def take(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self.body, self.at)
        self.at += layout.size
        return values

    def count(self) -> int:
        """Read an array's length; -1 (null) becomes 0."""
        return max(0, self.uvarint() - 1 if self.flexible else self.take(_I32)[0])

    def text(self) -> str | None:
        size = self.uvarint() - 1 if self.flexible else self.take(_I16)[0]
        if size < 0:
            return None
        return bytes(self.body[self.skip(size) : self.at]).decode()

    def id_bytes(self) -> bytes:
        return bytes(self.body[self.skip(16) : self.at])

    def skip(self, size: int) -> int:
        """Pass over bytes, and return where they begin. Raises IndexError if the answer ends before them."""
        start, self.at = self.at, self.at + size
        if self.at > len(self.body):
            raise IndexError("an answer that is cut short")
        return start

    def tags(self) -> dict[int, tuple[int, int]]:
        """Read a tag section: tag -> (start, end) of its bytes; empty if the version has no tags."""
        found: dict[int, tuple[int, int]] = {}
        if self.flexible:
            for _ in range(self.uvarint()):
                tag, size = self.uvarint(), self.uvarint()
                found[tag] = (self.skip(size), self.at)
        return found


class FetchedAll(msgspec.Struct, frozen=True):
    """A Fetch answer; the session id is 0 if the broker has no session."""

    throttle_ms: int
    error_code: int
    session_id: int
    partitions: list[Fetched]


def decode_fetch(version: int, body: memoryview, names: Mapping[bytes, str]) -> FetchedAll:
    """Decode a Fetch answer; `names` maps requested topic ids (16 bytes) to names; other ids get an empty name."""
    reader = _Cursor(body, version >= 12)
    reader.tags()
    throttle_ms, error_code, session_id = reader.take(_FETCHED_HEAD)
    found: list[Fetched] = []
    for _ in range(reader.count()):
        topic = names.get(reader.id_bytes(), "") if version >= 13 else reader.text() or ""
        found.extend([_fetched(reader, topic, version >= _RACKS_FROM) for _ in range(reader.count())])
        reader.tags()
    return FetchedAll(throttle_ms, error_code, session_id, found)


def _fetched(reader: _Cursor, topic: str, names_replica: bool) -> Fetched:
    partition, error_code, high_watermark, last_stable, log_start = reader.take(_FETCHED_PARTITION)
    aborted: list[tuple[int, int]] = []
    for _ in range(reader.count()):
        producer_id, first = reader.take(_ABORTED)
        aborted.append((producer_id, first))
        reader.tags()
    (preferred,) = reader.take(_I32) if names_replica else (-1,)
    size = reader.count()
    start = reader.skip(size)
    diverging = None
    for tag, (at, _end) in reader.tags().items():
        if tag == _DIVERGING_TAG:
            diverging = _EPOCH_END.unpack_from(reader.body, at)
    return Fetched(
        topic,
        partition,
        error_code,
        high_watermark,
        last_stable,
        log_start,
        aborted,
        preferred,
        start,
        start + size,
        diverging if diverging is None or diverging[1] >= 0 else None,
    )


Batch = tuple[str, UUID, int, bytes | bytearray | memoryview]
"""One batch of a Produce: topic, topic id, partition, bytes."""


def encode_produce(
    version: int, batches: Sequence[Batch], *, timeout_ms: int, transactional_id: str = ""
) -> list[bytes | bytearray | memoryview]:
    """Encode a Produce with acks=all as parts: small headers between the batches, which are not copied.

    An empty `transactional_id` means none.
    """
    topics: dict[str, list[Batch]] = {}
    for batch in batches:
        topics.setdefault(batch[0], []).append(batch)
    flexible = version >= 9
    nobody = b"\0" if flexible else b"\xff\xff"
    glue = bytearray(_text(transactional_id, flexible) if transactional_id else nobody)
    glue += struct.pack(">hi", -1, timeout_ms)
    glue += uvarint(len(topics) + 1) if flexible else _I32.pack(len(topics))
    parts: list[bytes | bytearray | memoryview] = []
    for topic, of_topic in topics.items():
        glue += of_topic[0][1].bytes if version >= 13 else _text(topic, flexible)
        glue += uvarint(len(of_topic) + 1) if flexible else _I32.pack(len(of_topic))
        for _, _, partition, payload in of_topic:
            size = len(payload)
            glue += _I32.pack(partition) + (uvarint(size + 1) if flexible else _I32.pack(size))
            parts += (glue, payload)
            glue = bytearray(b"\0" if flexible else b"")
        if flexible:
            glue += b"\0"
    if flexible:
        glue += b"\0"
    if glue:
        parts.append(glue)
    return parts


def decode_produce(
    version: int, body: memoryview, names: Mapping[bytes, str]
) -> tuple[int, dict[tuple[str, int], Produced]]:
    """Decode a Produce answer into (throttle ms, (topic, partition) -> answer); `names` as in `decode_fetch`."""
    reader = _Cursor(body, version >= 9)
    reader.tags()
    found: dict[tuple[str, int], Produced] = {}
    for _ in range(reader.count()):
        topic = names[reader.id_bytes()] if version >= 13 else reader.text() or ""
        for _ in range(reader.count()):
            partition, produced = _plain(reader) or _produced(reader, version >= _RECORD_ERRORS_FROM)
            found[topic, partition] = produced
        reader.tags()
    (throttle_ms,) = reader.take(_I32)
    return throttle_ms, found


def _plain(reader: _Cursor) -> tuple[int, Produced] | None:
    """Read a partition of a flexible answer whose last fields are empty; None if this one differs."""
    at, body = reader.at, reader.body
    if not reader.flexible or at + _PLAIN_PARTITION.size > len(body):
        return None
    partition, error_code, base_offset, _append_time, log_start, rest = _PLAIN_PARTITION.unpack_from(body, at)
    if rest != _NOTHING_REFUSED:
        return None
    reader.at = at + _PLAIN_PARTITION.size
    return partition, Produced(error_code, base_offset, log_start, -1, "")


def _produced(reader: _Cursor, names_records: bool) -> tuple[int, Produced]:
    partition, error_code, base_offset, _append_time, log_start = reader.take(_PRODUCED_PARTITION)
    if not names_records:
        return partition, Produced(error_code, base_offset, log_start, -1, "")
    indexes, message = list[int](), ""
    for at in range(reader.count()):
        (index,) = reader.take(_I32)
        reason = reader.text()
        reader.tags()
        indexes.append(index)
        if at == 0:
            message = reason or ""
    whole = reader.text() or ""
    reader.tags()
    first = indexes[0] if indexes else -1
    return partition, Produced(error_code, base_offset, log_start, first, message or whole, tuple(indexes))
