"""The five codecs: round trips, foreign framings, broken bytes, and the guard against bombs."""

import gzip
import struct
import zlib

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from engine.wire.bounded import InflatedTooLarge, InflateError
from engine.wire.codecs import GZIP, LZ4, NAMES, NONE, SNAPPY, ZSTD, compress, decompress

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"".join(b'{"id":%d,"name":"user-%d"}' % (index, index % 97) for index in range(9000))  # several blocks
NOISE = bytes((index * index * 7919 + (index >> 3)) % 251 for index in range(70_000))
XERIAL = bytes.fromhex("82534e41505059000000000100000001")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, cramjam.zstd.compress(TEXT, level=9)], ids=["0", "1", "text", "dense"]
)
def test_round_trip(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, bytes(data))) == bytes(data)
    assert decompress(codec, compress(codec, bytes(data), hard=True)) == bytes(data)
    assert NAMES[codec]


@given(st.binary(max_size=3000), st.sampled_from(CODECS))
def test_round_trip_of_anything(data: bytes, codec: int) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("data", [TEXT, NOISE])
def test_an_independent_reader_takes_what_we_write(data: bytes) -> None:
    readers = [bytes, aiokafka_codec.gzip_decode, aiokafka_codec.snappy_decode, aiokafka_codec.lz4_decode]
    readers.append(aiokafka_codec.zstd_decode)
    assert [reader(compress(codec, data)) == data for codec, reader in enumerate(readers)] == [True] * 5


@pytest.mark.parametrize("data", [TEXT, NOISE])
def test_we_read_what_an_independent_writer_wrote(data: bytes) -> None:
    assert decompress(GZIP, aiokafka_codec.gzip_encode(data)) == data
    assert decompress(SNAPPY, aiokafka_codec.snappy_encode(data)) == data
    assert decompress(SNAPPY, bytes(aiokafka_codec.snappy_encode(data, xerial_compatible=False))) == data
    assert decompress(LZ4, aiokafka_codec.lz4_encode(data)) == data
    assert decompress(ZSTD, aiokafka_codec.zstd_encode(data)) == data


def test_lz4_header_is_byte_for_byte_the_java_producer_s() -> None:
    assert compress(LZ4, b"x" * 100)[:7].hex() == "04224d18604082"
    assert compress(SNAPPY, b"x" * 100)[:16] == XERIAL


def test_members_and_streams_one_behind_the_other() -> None:
    assert decompress(GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    assert decompress(SNAPPY, compress(SNAPPY, b"one") + compress(SNAPPY, b"two")) == b"onetwo"
    assert decompress(ZSTD, compress(ZSTD, b"one") + compress(ZSTD, b"two")) == b"onetwo"


def _lz4(
    flags: int, *, descriptor: int = 0x40, content_size: bytes = b"", blocks: bytes = b"", end: bytes = b""
) -> bytes:
    """A frame with a wrong header checksum, as Kafka's oldest clients wrote it."""
    return struct.pack("<IBB", 0x184D2204, flags, descriptor) + content_size + b"?" + blocks + bytes(4) + end


def test_lz4_frames_of_other_writers() -> None:
    block = bytes(cramjam.lz4.compress_block(TEXT[:5000], store_size=False))
    sized = struct.pack("<I", len(block)) + block
    assert decompress(LZ4, _lz4(0x60, blocks=sized)) == TEXT[:5000]
    assert decompress(LZ4, _lz4(0x68, content_size=bytes(8), blocks=sized)) == TEXT[:5000]
    assert decompress(LZ4, _lz4(0x64, blocks=sized, end=b"hash")) == TEXT[:5000]
    assert decompress(LZ4, _lz4(0x70, blocks=sized + b"hash")) == TEXT[:5000]
    assert decompress(LZ4, _lz4(0x60, descriptor=0x70, blocks=struct.pack("<I", 0x8000_0003) + b"raw")) == b"raw"


_TAIL = "000000da2e0000000000008aa60000000000002f0200000000000035000000000000002600000000000000"


def test_a_block_of_lz4_is_read_without_the_size_that_its_first_bytes_could_be() -> None:
    """The library also reads blocks behind a size; a frame has none there."""
    block = bytes.fromhex("7000000036b92d94")
    assert decompress(LZ4, _lz4(0x60, blocks=struct.pack("<I", len(block)) + block)) == block[1:]
    numbers = bytes(65536) + bytes.fromhex(_TAIL)
    assert decompress(LZ4, compress(LZ4, numbers)) == numbers
    sized = struct.pack("<I", 0x2000) + bytes(cramjam.lz4.compress_block(TEXT[:5000], store_size=False))
    with pytest.raises(InflateError, match="lz4: "):
        decompress(LZ4, _lz4(0x60, blocks=struct.pack("<I", len(sized)) + sized))


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=60), st.sampled_from(["<q", "<i", ">q"]))
def test_short_blocks_of_numbers_survive_lz4(numbers: list[int], layout: str) -> None:
    data = bytes(65536) + b"".join(struct.pack(layout, one) for one in numbers)
    assert decompress(LZ4, compress(LZ4, data)) == data


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "no frame header"),
        (b"\x00" * 20, "no frame header"),
        (_lz4(0x40), "linked blocks"),
        (_lz4(0x20), "another version"),
        (_lz4(0x61), "dictionary"),
        (_lz4(0x60, descriptor=0x30), "block descriptor 0x30"),
        (_lz4(0x60)[:-1], "ends early"),
        (_lz4(0x60, blocks=struct.pack("<I", 65537) + bytes(65537)), "65537 bytes"),
        (_lz4(0x60, blocks=struct.pack("<I", 99)), "99 bytes"),
        (_lz4(0x60, blocks=struct.pack("<I", 3) + b"\xff\xff\xff"), "lz4: "),
    ],
)
def test_broken_lz4(data: bytes, what: str) -> None:
    with pytest.raises(InflateError, match=what):
        decompress(LZ4, data)


@pytest.mark.parametrize(
    ("codec", "data", "what"),
    [
        (GZIP, b"plain text", "gzip: "),
        (GZIP, gzip.compress(TEXT)[:-9], "ends early"),
        (SNAPPY, b"\xff" * 20, "snappy: "),
        (SNAPPY, XERIAL + b"\x00\x00", "ends early"),
        (SNAPPY, XERIAL + struct.pack(">i", 9) + b"four", "9 bytes, 4 left"),
        (SNAPPY, XERIAL + struct.pack(">i", -9) + b"four", "-9 bytes"),
        (SNAPPY, XERIAL + struct.pack(">i", 4) + b"\x09fou", "snappy: "),
        (ZSTD, b"plain text", "zstd: "),
        (ZSTD, compress(ZSTD, TEXT)[:-5], "zstd: "),
        (5, b"", "unknown compression codec 5"),
        (7, b"", "unknown compression codec 7"),
    ],
)
def test_broken_bytes(codec: int, data: bytes, what: str) -> None:
    with pytest.raises(InflateError, match=what):
        decompress(codec, data)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_stops_at_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(1_000_000))
    assert len(decompress(codec, bomb, 1_000_000)) == 1_000_000
    with pytest.raises(InflateError, match="inflated"):
        decompress(codec, bomb, 999_999)


def test_zstd_that_shrank_a_thousandfold_grows_step_by_step() -> None:
    bomb = compress(ZSTD, bytes(5_000_000))
    assert len(bomb) < 5_000
    assert decompress(ZSTD, bomb) == bytes(5_000_000)


class Counted:
    """An inflater that counts the bytes that are handed to it and that it hands back."""

    bytes_copied = 0

    def __init__(self, window: int) -> None:
        self._inflater = _DECOMPRESSOBJ(window)

    def decompress(self, data: bytes | memoryview, most: int) -> bytes:
        Counted.bytes_copied += len(data)
        return self._inflater.decompress(data, most)

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def unused_data(self) -> bytes:
        Counted.bytes_copied += len(self._inflater.unused_data)
        return self._inflater.unused_data


_DECOMPRESSOBJ = zlib.decompressobj


def _copied(data: bytes, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("engine.wire.codecs.zlib.decompressobj", Counted)
    Counted.bytes_copied = 0
    decompress(GZIP, data)
    monkeypatch.undo()
    return Counted.bytes_copied


def test_the_work_for_many_gzip_members_grows_as_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    member = gzip.compress(b"")
    few, many = (_copied(member * count, monkeypatch) for count in (1000, 8000))
    assert many < 9 * few
    large = gzip.compress(NOISE * 20)
    assert _copied(large, monkeypatch) < 3 * len(large), "a large member is not read again and again"


@pytest.mark.parametrize("size", [1, 250, 5000, 70_000])
def test_gzip_members_of_any_size_and_what_follows_them(size: int) -> None:
    members = [bytes([index]) * (size + index) for index in range(5)]
    assert decompress(GZIP, b"".join(gzip.compress(one) for one in members)) == b"".join(members)
    with pytest.raises(InflateError, match="ends early"):
        decompress(GZIP, gzip.compress(NOISE[:size]) + gzip.compress(NOISE[:size])[:-3])
    with pytest.raises(InflatedTooLarge, match=f"gzip: more than {2 * size - 1} bytes"):
        decompress(GZIP, gzip.compress(NOISE[:size]) * 2, 2 * size - 1)
    assert decompress(GZIP, gzip.compress(NOISE[:size]) * 2, 2 * size) == NOISE[:size] * 2
