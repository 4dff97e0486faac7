"""The five compression codecs of Kafka, by the id in a batch's attributes, in the framings its Java reader takes."""

import zlib
from collections.abc import Callable

import cramjam

from engine.wire.bounded import MAX_INFLATED_BYTES, InflateError
from engine.wire.lz4 import compress_lz4, decompress_lz4
from engine.wire.snappy import compress_snappy, decompress_snappy

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_GZIP_WINDOW = 31  # zlib's way to say: gzip header and trailer, 32 KiB window
_GZIP_LEVEL, _GZIP_HARD = 1, 9  # level 1 is 5 times faster than Kafka's 6 for 3 % more bytes on JSON
_ZSTD_LEVEL, _ZSTD_HARD = 3, 19  # 3 is Kafka's default (KIP-390)
_ZSTD_FIRST_GUESS = 8  # times the compressed size; grows fourfold until it fits


def _decompress_gzip(data: bytes, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    while data:  # Java's GZIPInputStream reads members one behind the other
        inflater = zlib.decompressobj(_GZIP_WINDOW)
        try:
            part = inflater.decompress(data, room + 1)
        except zlib.error as error:
            raise InflateError(f"gzip: {error}") from error
        if len(part) > room:
            raise InflateError(f"gzip: more than {limit_bytes} bytes when inflated")
        if not inflater.eof:
            raise InflateError("gzip: the stream ends early")
        parts.append(part)
        room -= len(part)
        data = inflater.unused_data
    return b"".join(parts)


def _compress_gzip(data: bytes, hard: bool) -> bytes:
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
            raise InflateError(f"zstd: more than {limit_bytes} bytes when inflated")
        size = min(limit_bytes, 4 * size)


def _compress_zstd(data: bytes, hard: bool) -> bytes:
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_HARD if hard else _ZSTD_LEVEL))


def _compress_snappy(data: bytes, hard: bool) -> bytes:
    return compress_snappy(data)  # snappy has no levels


def _plain(data: bytes, _: int | bool) -> bytes:
    return data


_DECOMPRESS: tuple[Callable[[bytes, int], bytes], ...] = (
    _plain,
    _decompress_gzip,
    decompress_snappy,
    decompress_lz4,
    _decompress_zstd,
)
_COMPRESS: tuple[Callable[[bytes, bool], bytes], ...] = (
    _plain,
    _compress_gzip,
    _compress_snappy,
    compress_lz4,
    _compress_zstd,
)


def decompress(codec: int, data: bytes, limit_bytes: int = MAX_INFLATED_BYTES) -> bytes:
    """Return the inflated bytes; `InflateError` for an unknown codec, broken bytes, or more than `limit_bytes`."""
    if codec > ZSTD:
        raise InflateError(f"unknown compression codec {codec}")
    return _DECOMPRESS[codec](data, limit_bytes)


def compress(codec: int, data: bytes, *, hard: bool = False) -> bytes:
    """Return `data` compressed the way Kafka's own producer frames it; `hard` takes its time for fewer bytes."""
    return _COMPRESS[codec](data, hard)
