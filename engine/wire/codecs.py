"""Kafka's five compression codecs, by the id in a batch's attributes, in the framings that its Java reader accepts."""

import zlib
from collections.abc import Callable

import cramjam

from engine.wire.bounded import MAX_INFLATED_BYTES, InflatedTooLarge, InflateError
from engine.wire.frames.lz4 import compress_lz4, decompress_lz4
from engine.wire.frames.snappy import compress_snappy, decompress_snappy

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_GZIP_WINDOW = 31  # for zlib: gzip header and trailer, 32 KiB window
_GZIP_FIRST_STEP, _GZIP_MOST_STEP = 256, 64 * 1024  # bytes; after a member, at most one step is copied
_GZIP_LEVEL, _GZIP_HARD = 1, 9  # level 1 is 5 times faster than Kafka's 6 for 3 % more bytes on JSON
_ZSTD_LEVEL, _ZSTD_HARD = 3, 19  # 3 is Kafka's default (KIP-390)
_ZSTD_FIRST_GUESS = 8  # times the compressed size; grows fourfold until it fits


def _decompress_gzip(data: bytes, limit_bytes: int) -> bytes:
    """Inflate all members, as Java's GZIPInputStream does; each is fed in steps, so that none is copied twice."""
    view, parts, at, room = memoryview(data), [b""], 0, limit_bytes
    while at < len(data):
        at, room = _inflate_member(view, at, parts, room, limit_bytes)
    return b"".join(parts)


def _inflate_member(view: memoryview, at: int, parts: list[bytes], room: int, limit_bytes: int) -> tuple[int, int]:
    """Inflate the gzip member at `at`; return the index after it and how many bytes still fit into the limit."""
    inflater, step = zlib.decompressobj(_GZIP_WINDOW), _GZIP_FIRST_STEP
    while not inflater.eof:
        if at >= len(view):
            raise InflateError("gzip: the stream ends early")
        fed = view[at : at + step]
        try:
            part = inflater.decompress(fed, room + 1)
        except zlib.error as error:
            raise InflateError(f"gzip: {error}") from error
        if len(part) > room:
            raise InflatedTooLarge("gzip", limit_bytes)
        parts.append(part)
        room -= len(part)
        at += len(fed)
        step = min(2 * step, _GZIP_MOST_STEP)
    return at - len(inflater.unused_data), room


def _compress_gzip(data: bytes | bytearray, hard: bool) -> bytes:
    deflater = zlib.compressobj(_GZIP_HARD if hard else _GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    return deflater.compress(data) + deflater.flush()


def _decompress_zstd(data: bytes, limit_bytes: int) -> bytes:
    size = min(limit_bytes, max(4096, _ZSTD_FIRST_GUESS * len(data)))
    while True:
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: cramjam.zstd.decompress_into(data, out)])
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise InflateError(f"zstd: {error}") from error
        if size >= limit_bytes:
            raise InflatedTooLarge("zstd", limit_bytes)
        size = min(limit_bytes, 4 * size)


def _compress_zstd(data: bytes | bytearray, hard: bool) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_HARD if hard else _ZSTD_LEVEL))


def _compress_snappy(data: bytes | bytearray, hard: bool) -> bytes:
    return compress_snappy(data)  # snappy has no levels


def _stay(data: bytes, _: int) -> bytes:
    return data


def _leave(data: bytes | bytearray, _: bool) -> bytes:
    return bytes(data)


_DECOMPRESS: tuple[Callable[[bytes, int], bytes], ...] = (
    _stay,
    _decompress_gzip,
    decompress_snappy,
    decompress_lz4,
    _decompress_zstd,
)
_COMPRESS: tuple[Callable[[bytes | bytearray, bool], bytes], ...] = (
    _leave,
    _compress_gzip,
    _compress_snappy,
    compress_lz4,
    _compress_zstd,
)


def decompress(codec: int, data: bytes, limit_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Return the inflated bytes. Raises `InflateError` for an unknown codec or broken bytes.

    Raises `InflatedTooLarge` for more than `limit_bytes`, except for uncompressed bytes.
    """
    if codec > ZSTD:
        raise InflateError(f"unknown compression codec {codec}")
    return _DECOMPRESS[codec](data, limit_bytes)


def compress(codec: int, data: bytes | bytearray, *, hard: bool = False) -> bytes:
    """Return `data` compressed and framed as by Kafka's own producer; `hard` is slower and gives fewer bytes."""
    return _COMPRESS[codec](data, hard)
