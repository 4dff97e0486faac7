"""Reads and writes Snappy in the xerial framing of Kafka's Java producer; also reads bare Snappy of other clients.

82 'SNAPPY' 00 | version 4 | compatible 4 | { block size 4 | block } ...
"""

import struct

import cramjam

from engine.wire.bounded import InflatedTooLarge, InflateError

_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_BLOCK_BYTES = 32768  # xerial's default
_I32 = struct.Struct(">i")


def compress_snappy(data: bytes | bytearray) -> bytes:
    """Return a xerial stream of 32 KiB blocks."""
    out = bytearray(_HEADER)
    view = memoryview(data)
    for start in range(0, len(data), _BLOCK_BYTES):
        block = cramjam.snappy.compress_raw(view[start : start + _BLOCK_BYTES])
        out += _I32.pack(len(block))
        out += memoryview(block)
    return bytes(out)


def _inflate_block(block: memoryview, room: int, limit_bytes: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > room:
            raise InflatedTooLarge("snappy", limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise InflateError(f"snappy: {error}") from error


def decompress_snappy(data: bytes, limit_bytes: int) -> bytes:
    """Return the content. Raises `InflateError` for broken bytes or more than `limit_bytes`."""
    view = memoryview(data)
    if data[:8] != _HEADER[:8]:
        return _inflate_block(view, limit_bytes, limit_bytes)
    parts: list[bytes] = []
    room = limit_bytes
    at = 0
    while at < len(data):
        if data[at : at + 8] == _HEADER[:8]:  # streams may follow each other (SnappyInputStream)
            at += len(_HEADER)
            continue
        if at + 4 > len(data):
            raise InflateError("snappy: the stream ends early")
        (size,) = _I32.unpack_from(data, at)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise InflateError(f"snappy: a block of {size} bytes, {len(data) - at} left")
        parts.append(_inflate_block(view[at : at + size], room, limit_bytes))
        room -= len(parts[-1])
        at += size
    return b"".join(parts)
