"""Measures fetched bytes without opening them: how far the whole batches reach, and how large they are."""

import struct

import msgspec

from engine.wire.header import HEADER_BYTES, LOG_OVERHEAD_BYTES, Buffer

_PREFIX = struct.Struct(">qi")
_LAST_DELTA = struct.Struct(">i")
_MAGIC_AT, _LAST_DELTA_AT = 16, 23


class Extent(msgspec.Struct, frozen=True, gc=False):
    """The whole batches of `buffer[start:end]` that begin below an offset.

    `end`: the index behind the last one. `first_offset`: of the first one. `next_offset`: behind the last one; both -1
    without a batch. `alike`: the offsets in each batch; 0 if they differ, or if offsets between them are missing.
    `spread_bytes`: the size of the largest batch less that of the smallest. `beyond`: where the batch begins that
    follows at or above the offset, so that everything below it is here; -1 if none follows.
    """

    end: int
    first_offset: int
    next_offset: int
    batches: int
    alike: int
    spread_bytes: int
    beyond: int


def extent(buffer: Buffer, start: int, end: int, below: int) -> Extent | None:
    """Measure the whole batches that begin below an offset; None if something in front is not format v2 or malformed.

    A truncated batch at the end does not count. Whoever takes the bytes in finds what is wrong with them.
    """
    at, batches, alike, first, following = start, 0, 0, -1, -1
    least, most = end, 0
    while at + HEADER_BYTES <= end:
        offset, length = _PREFIX.unpack_from(buffer, at)
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES or buffer[at + _MAGIC_AT] != 2 or offset < following:
            return None
        if offset >= below:
            return Extent(at, first, following, batches, max(alike, 0), max(0, most - least), offset)
        size = LOG_OVERHEAD_BYTES + length
        if at + size > end:
            break
        (last_delta,) = _LAST_DELTA.unpack_from(buffer, at + _LAST_DELTA_AT)
        if last_delta < 0:
            return None
        count = last_delta + 1
        alike = count if not batches or (alike == count and offset == following) else -1
        least, most = min(least, size), max(most, size)
        first = offset if not batches else first
        at, batches, following = at + size, batches + 1, offset + count
    return Extent(at, first, following, batches, max(alike, 0), max(0, most - least), -1)


def first_behind(buffer: Buffer, start: int, end: int, offset: int) -> int:
    """Return the index of the first whole batch of `buffer[start:end]` that ends behind an offset; `end` without one.

    `extent` has measured these bytes.
    """
    at = start
    while at + HEADER_BYTES <= end:
        base, length = _PREFIX.unpack_from(buffer, at)
        (last_delta,) = _LAST_DELTA.unpack_from(buffer, at + _LAST_DELTA_AT)
        if base + last_delta >= offset:
            return at
        at += LOG_OVERHEAD_BYTES + length
    return end
