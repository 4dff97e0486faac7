"""Digests that the demo's proof compares: 16 bytes per record, in order, per partition. Pure.

A digest covers everything that a consumer sees of a record, except its offset and the name of its topic, which a mirror
may change: key, value, headers, timestamp, timestamp type. It covers lengths as well, so no two different records give
the same input. Number and order of the digests are those of the records. The first difference is found exactly, not by
block.
"""

import struct
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

DIGEST_BYTES = 16
_HEAD = struct.Struct(">qbii")
_LENGTH = struct.Struct(">i")


class PartitionDigest(msgspec.Struct, frozen=True, kw_only=True):
    """All records of one partition: their digests end to end, and the sum of key, value and header bytes."""

    digests: bytes
    payload_bytes: int

    @property
    def records(self) -> int:
        return len(self.digests) // DIGEST_BYTES


class PartitionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of comparing one partition. `difference` is empty when source and target are identical."""

    topic: str
    partition: int
    records: int
    payload_bytes: int
    difference: str


def record_digest(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    timestamp_ms: int,
    timestamp_type: int,
) -> bytes:
    """Digest one record; null and empty differ."""
    hasher = blake2b(
        _HEAD.pack(timestamp_ms, timestamp_type, -1 if key is None else len(key), -1 if value is None else len(value)),
        digest_size=DIGEST_BYTES,
    )
    if key:
        hasher.update(key)
    if value:
        hasher.update(value)
    for name, content in headers:
        encoded = name.encode()
        hasher.update(_LENGTH.pack(len(encoded)) + encoded)
        hasher.update(_LENGTH.pack(-1 if content is None else len(content)) + (content or b""))
    return hasher.digest()


def compare(topic: str, partition: int, source: PartitionDigest, target: PartitionDigest) -> PartitionVerdict:
    return PartitionVerdict(
        topic=topic,
        partition=partition,
        records=source.records,
        payload_bytes=source.payload_bytes,
        difference=_difference(source.digests, target.digests),
    )


def _difference(source: bytes, target: bytes) -> str:
    if source == target:
        return ""
    at = first_difference(source, target)
    source_count, target_count = len(source) // DIGEST_BYTES, len(target) // DIGEST_BYTES
    counts = (
        "" if source_count == target_count else f" ({source_count} records in the source, {target_count} in the target)"
    )
    if at == target_count:
        return f"the target ends after record {at}{counts}"
    if at == source_count:
        return f"the target has records after the source's last, number {at}{counts}"
    return f"record {at} {_guess(source, target, at)}{counts}"


def _guess(source: bytes, target: bytes, at: int) -> str:
    """Guess the kind of a difference from the records around it."""
    ours, theirs = _digest(source, at), _digest(target, at)
    if _digest(source, at + 1) == theirs:
        return "is in another place" if _digest(target, at + 1) == ours else "is missing in the target"
    if at > 0 and theirs == _digest(source, at - 1) and _digest(target, at + 1) == ours:
        return "comes after a duplicate"
    return "differs"


def _digest(digests: bytes, number: int) -> bytes:
    return digests[number * DIGEST_BYTES : (number + 1) * DIGEST_BYTES]


def first_difference(source: bytes, target: bytes) -> int:
    """Return the number of the first record that differs, by halving; the shorter side's record count if a prefix."""
    low, high = 0, min(len(source), len(target)) // DIGEST_BYTES
    while low < high:
        middle = (low + high + 1) // 2
        if source[: middle * DIGEST_BYTES] == target[: middle * DIGEST_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low
