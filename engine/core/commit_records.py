"""What a cluster's `__consumer_offsets` says of committed offsets: whose commit, where, how far.

Bytes of somebody else, so nothing here raises: a record that is not understood is no commit, and whoever needs them all
asks the coordinators now and then. Formats: OffsetCommitKey v0, v1 and OffsetCommitValue v0 to v4 (Kafka's message
definitions); keys of other versions are of groups, members and transactions.
"""

import struct
from typing import NamedTuple

TOPIC = "__consumer_offsets"
UNTOLD = -1
"""An offset that the value does not tell in a way that is known here; the commit itself is certain."""

_VERSION = struct.Struct(">h")
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_KEY_VERSIONS = (0, 1)
_VALUE_VERSIONS = range(5)
"""The offset stands first in all of them; what differs comes behind it."""


class Commit(NamedTuple):
    """One committed offset, group and topic as they are on the wire: most are filtered by them."""

    group: bytes
    topic: bytes
    partition: int
    offset: int


def decode_commit(key: bytes | None, value: bytes | None) -> Commit | None:
    """Return what a record commits; None for a deletion, for other records, and for what is not understood."""
    if key is None or value is None or len(key) < _VERSION.size or _VERSION.unpack_from(key)[0] not in _KEY_VERSIONS:
        return None
    group, at = _text(key, _VERSION.size)
    topic, at = _text(key, at)
    if not group or not topic or len(key) != at + _PARTITION.size:
        return None
    (partition,) = _PARTITION.unpack_from(key, at)
    return Commit(group, topic, partition, _offset(value)) if partition >= 0 else None


def _text(key: bytes, at: int) -> tuple[bytes, int]:
    """Return a length-prefixed text and where it ends; empty where it does not fit."""
    if at + _LENGTH.size > len(key):
        return b"", at
    (size,) = _LENGTH.unpack_from(key, at)
    begin = at + _LENGTH.size
    return (key[begin : begin + size], begin + size) if 0 < size <= len(key) - begin else (b"", begin)


def _offset(value: bytes) -> int:
    if len(value) < _VERSION.size + _OFFSET.size or _VERSION.unpack_from(value)[0] not in _VALUE_VERSIONS:
        return UNTOLD
    return max(UNTOLD, int(_OFFSET.unpack_from(value, _VERSION.size)[0]))
