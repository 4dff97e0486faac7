"""Decodes committed offsets from a cluster's `__consumer_offsets`: the group, the partition, the offset.

Nothing here raises, because brokers wrote these bytes: a record of an unknown format is not a commit. A caller that
needs every commit also asks the group coordinators from time to time. Formats: OffsetCommitKey v0, v1 and
OffsetCommitValue v0 to v4 (Kafka's message definitions); keys of other versions belong to groups, members and
transactions.
"""

import struct
from typing import NamedTuple

TOPIC = "__consumer_offsets"
NO_OFFSET = -1
"""The offset of a commit whose value has an unknown format; the commit itself is certain."""

_VERSION = struct.Struct(">h")
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_KEY_VERSIONS = (0, 1)
_VALUE_VERSIONS = range(5)
"""The offset comes first in all these versions; they differ only after it."""


class CommittedOffset(NamedTuple):
    """One committed offset; group and topic stay bytes, because callers filter out most commits by them."""

    group: bytes
    topic: bytes
    partition: int
    offset: int


def decode_commit(key: bytes | None, value: bytes | None) -> CommittedOffset | None:
    """Return the commit of a record; None for a deletion, another kind of record, or an unknown format."""
    if key is None or value is None or len(key) < _VERSION.size or _VERSION.unpack_from(key)[0] not in _KEY_VERSIONS:
        return None
    group, at = _text(key, _VERSION.size)
    topic, at = _text(key, at)
    if not group or not topic or len(key) != at + _PARTITION.size:
        return None
    (partition,) = _PARTITION.unpack_from(key, at)
    return CommittedOffset(group, topic, partition, _offset(value)) if partition >= 0 else None


def _text(key: bytes, at: int) -> tuple[bytes, int]:
    """Return a length-prefixed text and its end index; the text is empty if it does not fit into the key."""
    if at + _LENGTH.size > len(key):
        return b"", at
    (size,) = _LENGTH.unpack_from(key, at)
    begin = at + _LENGTH.size
    return (key[begin : begin + size], begin + size) if 0 < size <= len(key) - begin else (b"", begin)


def _offset(value: bytes) -> int:
    if len(value) < _VERSION.size + _OFFSET.size or _VERSION.unpack_from(value)[0] not in _VALUE_VERSIONS:
        return NO_OFFSET
    return max(NO_OFFSET, int(_OFFSET.unpack_from(value, _VERSION.size)[0]))
