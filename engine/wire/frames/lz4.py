"""Reads and writes LZ4 frames as Kafka's `Lz4BlockInputStream` and `Lz4BlockOutputStream` do.

    magic 4 | FLG 1 | BD 1 | [content size 8] | HC 1 | { block size 4 | block | [checksum 4] } ... | 0 4 | [checksum 4]

Only independent blocks: Kafka's reader refuses linked blocks, so no broker has any. Checksums are skipped, because the
batch CRC covers the same bytes. So this also reads frames of Kafka's oldest clients, which computed the HC byte
(magic 0) over the wrong bytes (KIP-57).
"""

import struct

import cramjam

from engine.wire.bounded import InflatedTooLarge, InflateError

_MAGIC = 0x184D2204
# Version 01, independent blocks, no checksums, 64 KiB blocks: the same bytes as the header of Kafka's producer.
_HEADER = bytes.fromhex("04224d18604082")
_BLOCK_BYTES = 65536
_HARD_LEVEL = 12  # the highest level of LZ4-HC
_RAW_BLOCK = 0x8000_0000
_U32 = struct.Struct("<I")
_MOST_EXPANSION = 256  # a compressed byte stands for at most 255
_MAX_BLOCK_BYTES = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}  # by the BD byte


def compress_lz4(data: bytes | bytearray, hard: bool) -> bytes:
    """Return one frame of 64 KiB blocks; with `hard`, LZ4-HC in blocks of 4 MiB."""
    if hard:
        compressor = cramjam.lz4.Compressor(level=_HARD_LEVEL, content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))  # it accepts only bytes
        return bytes(compressor.finish())
    out = bytearray(_HEADER)
    view = memoryview(data)
    for start in range(0, len(data), _BLOCK_BYTES):
        _write_block(out, view[start : start + _BLOCK_BYTES])
    out += _U32.pack(0)
    return bytes(out)


def _write_block(out: bytearray, chunk: memoryview) -> None:
    """Append a block; a block that would not shrink is stored uncompressed."""
    block = cramjam.lz4.compress_block(chunk, store_size=False)
    if len(block) < len(chunk):
        out += _U32.pack(len(block))
        out += memoryview(block)
    else:
        out += _U32.pack(len(chunk) | _RAW_BLOCK)
        out += chunk


def _frame_header(data: bytes) -> tuple[int, int, bool]:
    """Return the index of the first block, the largest block size in bytes, and whether blocks have a checksum."""
    if len(data) < 7 or _U32.unpack_from(data)[0] != _MAGIC:
        raise InflateError("lz4: no frame header")
    flags, block_descriptor = data[4], data[5]
    if flags & 0xE3 != 0x60:
        raise InflateError(f"lz4: frame flags {flags:#04x} say another version, linked blocks or a dictionary")
    largest = _MAX_BLOCK_BYTES.get(block_descriptor)
    if largest is None:
        raise InflateError(f"lz4: block descriptor {block_descriptor:#04x} is none of 64 KiB, 256 KiB, 1 MiB, 4 MiB")
    return (15 if flags & 0x08 else 7), largest, bool(flags & 0x10)


def decompress_lz4(data: bytes, limit_bytes: int) -> bytes:
    """Return the content of one frame. Raises `InflateError` for broken bytes or more than `limit_bytes`."""
    at, largest, has_checksums = _frame_header(data)
    out = bytearray()
    block = bytearray(min(largest, _MOST_EXPANSION * len(data)))
    view = memoryview(data)
    while True:
        if at + 4 > len(data):
            raise InflateError("lz4: the frame ends early")
        (size,) = _U32.unpack_from(data, at)
        at += 4
        stored, size = bool(size & _RAW_BLOCK), size & ~_RAW_BLOCK
        if size == 0:
            return bytes(out)
        if size > largest or at + size > len(data):
            raise InflateError(f"lz4: a block of {size} bytes, {len(data) - at} left, {largest} allowed")
        if stored:
            out += view[at : at + size]
        else:
            out += memoryview(block)[: _inflate_block(view[at : at + size], block)]
        if len(out) > limit_bytes:
            raise InflatedTooLarge("lz4", limit_bytes)
        at += size + 4 * has_checksums


def _inflate_block(source: memoryview, block: bytearray) -> int:
    """Return how many bytes of `block` were written; its size is a multiple of 256, and at most 4 MiB.

    The library wants the size before a block. If it cannot read the block, it takes the size for a part of it: that is
    never a block, because it begins with a match (a zero byte), for which nothing is there yet.
    """
    try:
        return cramjam.lz4.decompress_block_into(_U32.pack(len(block)) + source, block)
    except cramjam.DecompressionError as error:
        raise InflateError(f"lz4: {error}") from error
