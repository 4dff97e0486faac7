"""Encodes and decodes the three records of MM2, byte for byte: heartbeat, checkpoint, offset sync.

Numbers are big-endian. A string is its length in UTF-8 bytes (16 bits, signed) and the bytes. There are no tagged
fields (Kafka: Heartbeat, Checkpoint, OffsetSync in connect/mirror; `protocol.types.Type`). Readers ignore bytes after
the last field; raymirror's offset syncs have more data there. A version other than 0 is read as 0, as MM2 does. All
three topics have one partition. MM2's readers fail on a record without a value, so raymirror writes no tombstones here.
"""

import struct

import msgspec

from engine.base.errors import MirrorError

VERSION = 0
_MOST_STRING = 32767
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")
_HEARTBEAT = struct.Struct(">hq")
_CHECKPOINT = struct.Struct(">hqq")
_SYNC = struct.Struct(">qq")


class MalformedRecord(MirrorError, ValueError):
    """Bytes or fields that are not a valid record of MM2; names the kind of record and the fault."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(kind, what)
        self.kind, self.what = kind, what

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}; expected are bytes as MM2's {self.kind} class writes them"


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """A heartbeat of a flow, named by cluster aliases; `timestamp_ms` is Unix time, the same as the record's."""

    source: str
    target: str
    timestamp_ms: int


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A group's committed offset on both sides; `topic`: its name on the target; `metadata`: of the commit."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str = ""


class OffsetSync(msgspec.Struct, frozen=True, gc=False):
    """One record's offset on both sides; `topic`: its name on the source; `tail`: raymirror's bytes after MM2's 16."""

    topic: str
    partition: int
    source_offset: int
    target_offset: int
    tail: bytes = b""


class _FieldReader:
    """Fields of one record in their order; every method raises MalformedRecord."""

    def __init__(self, kind: str, part: str, data: bytes | None) -> None:
        self._kind, self._part = kind, part
        if data is None:
            raise MalformedRecord(kind, f"the {part} is null")
        self._data = data
        self._at = 0

    def string(self) -> str:
        (size,) = self.numbers(_I16)
        end = self._at + size
        if size < 0 or end > len(self._data):
            left = len(self._data) - self._at
            raise self._error(f"a string of {size} bytes, but only {left} bytes are left")
        raw, self._at = self._data[self._at : end], end
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._error(f"a string that is not UTF-8 ({error.reason})") from None

    def numbers(self, layout: struct.Struct) -> tuple[int, ...]:
        if self._at + layout.size > len(self._data):
            raise self._error(f"{len(self._data)} bytes are too few")
        found = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return found

    def rest(self) -> bytes:
        return self._data[self._at :]

    def _error(self, what: str) -> MalformedRecord:
        return MalformedRecord(self._kind, f"{self._part}: {what}")


def _string(kind: str, text: str) -> bytes:
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise MalformedRecord(kind, f"{text[:40]!r} has no UTF-8 ({error.reason})") from None
    if len(raw) > _MOST_STRING:
        raise MalformedRecord(kind, f"{text[:40]!r}... has {len(raw)} bytes, the limit is {_MOST_STRING} bytes")
    return _I16.pack(len(raw)) + raw


def _packed(kind: str, layout: struct.Struct, *numbers: int) -> bytes:
    try:
        return layout.pack(*numbers)
    except struct.error as error:
        raise MalformedRecord(kind, f"{numbers} do not fit ({error})") from None


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """Return key and value. Raises MalformedRecord for what does not fit the format."""
    kind = "Heartbeat"
    key = _string(kind, heartbeat.source) + _string(kind, heartbeat.target)
    return key, _packed(kind, _HEARTBEAT, VERSION, heartbeat.timestamp_ms)


def decode_heartbeat(key: bytes | None, value: bytes | None) -> Heartbeat:
    """Read a heartbeat. Raises MalformedRecord."""
    names, times = _FieldReader("Heartbeat", "key", key), _FieldReader("Heartbeat", "value", value)
    source, target = names.string(), names.string()
    _, timestamp_ms = times.numbers(_HEARTBEAT)
    return Heartbeat(source, target, timestamp_ms)


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Return key and value. Raises MalformedRecord for what does not fit the format."""
    kind = "Checkpoint"
    key = _string(kind, checkpoint.group) + _string(kind, checkpoint.topic)
    offsets = _packed(kind, _CHECKPOINT, VERSION, checkpoint.source_offset, checkpoint.target_offset)
    return key + _packed(kind, _I32, checkpoint.partition), offsets + _string(kind, checkpoint.metadata)


def decode_checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint:
    """Read a checkpoint. Raises MalformedRecord."""
    names, offsets = _FieldReader("Checkpoint", "key", key), _FieldReader("Checkpoint", "value", value)
    group, topic = names.string(), names.string()
    (partition,) = names.numbers(_I32)
    _, source_offset, target_offset = offsets.numbers(_CHECKPOINT)
    return Checkpoint(group, topic, partition, source_offset, target_offset, offsets.string())


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Return key and value, with the tail after MM2's bytes. Raises MalformedRecord for fields that do not fit."""
    kind = "OffsetSync"
    key = _string(kind, sync.topic) + _packed(kind, _I32, sync.partition)
    return key, _packed(kind, _SYNC, sync.source_offset, sync.target_offset) + sync.tail


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    """Read an offset sync; the bytes after MM2's fields are the tail. Raises MalformedRecord."""
    names, offsets = _FieldReader("OffsetSync", "key", key), _FieldReader("OffsetSync", "value", value)
    topic = names.string()
    (partition,) = names.numbers(_I32)
    source_offset, target_offset = offsets.numbers(_SYNC)
    return OffsetSync(topic, partition, source_offset, target_offset, offsets.rest())
