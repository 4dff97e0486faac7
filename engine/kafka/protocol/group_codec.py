"""Reads the answer to OffsetFetch v8, fast: a mirror of thousands of groups reads many rows often.

throttle | groups: name, topics: name, partitions: (partition, offset, epoch, metadata, error) | error of the group
"""

import struct

import msgspec

from engine.flow.ports.ports import Stored
from policies.model import TopicPartition

_ROW = struct.Struct(">iqi")
_I16 = struct.Struct(">h")
_THROTTLE_BYTES = 4
NO_COMMIT = -1
_SHIFTS = (7, 14, 21, 28)
"""Of the bytes of a varint after the first: lengths and counts have 32 bits (ByteUtils.readUnsignedVarint)."""


class GroupAnswer(msgspec.Struct):
    """The stored offsets of one group, or its error; `faults` has the error codes of single partitions."""

    group: str
    stored: dict[TopicPartition, Stored]
    faults: dict[TopicPartition, int]
    error_code: int


class OffsetFetchReader:
    """Reads answers; equal partitions are the same object, which saves time and memory."""

    def __init__(self) -> None:
        self._met: dict[str, dict[int, TopicPartition]] = {}

    def read(self, body: bytes) -> list[GroupAnswer]:
        """Read the answer after its correlation id. Raises IndexError or struct.error if it is cut short."""
        at = skip_tags(body, 0) + _THROTTLE_BYTES
        count, at = read_uvarint(body, at)
        answers: list[GroupAnswer] = []
        for _ in range(count - 1):
            answer, at = self._group(body, at)
            answers.append(answer)
        return answers

    def _group(self, body: bytes, at: int) -> tuple[GroupAnswer, int]:
        group, at = read_text(body, at)
        answer = GroupAnswer(group, {}, {}, 0)
        topics, at = read_uvarint(body, at)
        for _ in range(topics - 1):
            name, at = read_text(body, at)
            at = self._partitions(body, at, name, answer)
            at = skip_tags(body, at)
        (answer.error_code,) = _I16.unpack_from(body, at)
        return answer, skip_tags(body, at + 2)

    def _partitions(self, body: bytes, at: int, name: str, answer: GroupAnswer) -> int:
        met = self._met.setdefault(name, {})
        stored, row, row_bytes = answer.stored, _ROW.unpack_from, _ROW.size
        count, at = read_uvarint(body, at)
        for _ in range(count - 1):
            partition, offset, _epoch = row(body, at)
            at += row_bytes
            metadata = ""
            if body[at] <= 1:  # null or empty: nearly always
                at += 1
            else:
                metadata, at = read_text(body, at)
            where = met.get(partition)
            if where is None:
                where = met[partition] = TopicPartition(name, partition)
            if body[at] or body[at + 1]:
                (answer.faults[where],) = _I16.unpack_from(body, at)
            elif offset != NO_COMMIT:
                stored[where] = offset, metadata
            at += 2
            at = at + 1 if not body[at] else skip_tags(body, at)
        return at


def read_uvarint(body: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return an unsigned varint, and the index after it. Raises IndexError at the end, ValueError above 35 bits."""
    byte = body[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in _SHIFTS:
        at += 1
        byte = body[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise ValueError("a length of more than five bytes")


def read_text(body: bytes, at: int) -> tuple[str, int]:
    """Return a compact text (empty for null), and the index after it."""
    size, at = read_uvarint(body, at)
    if size <= 1:
        return "", at
    end = at + size - 1
    if end > len(body):
        raise IndexError("a text that is cut short")
    return body[at:end].decode(), end


def skip_tags(body: bytes, at: int) -> int:
    """Return the index after a tag section."""
    count, at = read_uvarint(body, at)
    for _ in range(count):
        _, at = read_uvarint(body, at)
        size, at = read_uvarint(body, at)
        at += size
    return at
