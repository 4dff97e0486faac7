"""Compressed batches opened by the native module: LZ4 without Python, the others through it, all as the Python way."""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import native
from engine.wire.codecs import LZ4, SNAPPY, ZSTD
from engine.wire.encode import write_area
from engine.wire.frames.lz4 import compress_lz4, decompress_lz4
from engine.wire.merging import merge as merging
from engine.wire.merging.merge import Merged, merge
from engine.wire.records import Record
from tests.unit.engine.wire.batches import batch, decoded, with_area
from tests.unit.engine.wire.merging.sets import joined, small

pytestmark = pytest.mark.skipif(native.module is None, reason=native.in_use())

NO_LIMIT = 1 << 30
CONTENT = (
    st.binary(max_size=300)
    | st.builds(lambda word, times: word * times, st.binary(min_size=1, max_size=9), st.integers(1, 9000))
    | st.builds(lambda one, gap, other: one + bytes(gap) + other, st.binary(), st.integers(0, 70_000), st.binary())
)


def module() -> Any:
    """The compiled functions, also for arguments of wrong types."""
    assert native.module is not None
    return native.module


def refuse(codec: int, data: bytes, limit: int) -> bytes:
    raise AssertionError(f"Python was asked to open {len(data)} bytes of codec {codec}, {limit} allowed")


def pure(regions: list[bytearray], codec: int = LZ4) -> Merged:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "module", None)
        return merge(regions, codec=codec, max_batch_bytes=NO_LIMIT)


def framed(area: bytes, offset: int, timestamp: int) -> bytearray:
    """Return a batch of one record whose compressed area is `area`, whatever that is."""
    plain = batch([Record(offset, timestamp, None, b"")], 0)
    struct.pack_into(">h", plain, 21, LZ4)
    return with_area(plain, area)


def one_area(value: bytes) -> bytes:
    return write_area([Record(0, 0, b"key", value)], [0], 0)


@given(st.lists(CONTENT, min_size=2, max_size=5), st.booleans())
def test_lz4_frames_of_any_content_are_opened_without_python(values: list[bytes], hard: bool) -> None:
    regions = [framed(compress_lz4(one_area(value), hard), index, 5) for index, value in enumerate(values)]
    found = module().merge_areas(regions, NO_LIMIT, NO_LIMIT, NO_LIMIT, 0, refuse)
    assert found[4] == len(values)
    merged = merge(regions, codec=LZ4, max_batch_bytes=NO_LIMIT)
    assert merged == pure(regions)
    assert merged.encoded is not None
    assert [one.value for one in decoded(merged.encoded.payload)] == values


def test_a_frame_with_content_size_and_block_checksums() -> None:
    area = one_area(b"some words, some words, some words and more words" * 9)
    frame = compress_lz4(area, hard=False)
    (size,) = struct.unpack_from("<I", frame, 7)
    block, end = frame[7 : 11 + size], frame[11 + size :]
    full = frame[:4] + bytes([frame[4] | 0x18, frame[5]]) + struct.pack("<Q", len(area)) + b"h" + block + b"sums" + end
    assert decompress_lz4(full, NO_LIMIT) == area
    regions = [framed(full + b"what lies behind", 0, 5), framed(frame, 1, 5)]
    found = module().merge_areas(regions, NO_LIMIT, NO_LIMIT, NO_LIMIT, 0, refuse)
    assert found[4] == 2
    assert merge(regions, codec=LZ4, max_batch_bytes=NO_LIMIT) == pure(regions)


@given(CONTENT, st.data())
def test_a_broken_frame_is_what_the_python_way_says(value: bytes, data: st.DataObject) -> None:
    frame = bytearray(compress_lz4(one_area(value), hard=data.draw(st.booleans())))
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)), min_size=1, max_size=3)
    ):
        frame[at] = byte
    if data.draw(st.booleans()):
        del frame[data.draw(st.integers(0, len(frame))) :]
    good = compress_lz4(one_area(b"good"), hard=False)
    regions = [framed(good, 0, 5), framed(good, 1, 5), framed(bytes(frame), 2, 5), framed(good, 3, 5)]
    assert merge(regions, codec=LZ4, max_batch_bytes=NO_LIMIT) == pure(regions)


@pytest.mark.parametrize(
    "block",
    [
        b"\x00\x00\x00",  # a match before there is anything
        b"\x10a\x02\x00\x50abcde",  # a match from before the start
        b"\x10a\x00\x00\x50abcde",  # a match with itself
        b"\xf0\xff\xff\xff",  # a length without an end
        b"\x1fa\x01\x00\xff\xff",
        b"\x10a\x01\x00\x10b",  # too few literals behind the last match
        b"\x10a\x01\x00",  # a match at the end
        b"\x20a",  # fewer literals than it says
        b"\x10a\x01",  # half a distance
    ],
)
def test_blocks_that_are_not_as_the_format_says_go_to_python(block: bytes) -> None:
    frame = bytes.fromhex("04224d18604082") + struct.pack("<I", len(block)) + block + bytes(4)
    asked: list[bytes] = []

    def decompress(_codec: int, data: bytes, _limit: int) -> None:
        asked.append(data)

    regions = [framed(frame, 0, 5)]
    found = module().merge_areas(regions, NO_LIMIT, NO_LIMIT, NO_LIMIT, 0, decompress)
    assert (found[4], asked) == (0, [frame])


@pytest.mark.parametrize(("codec", "batches"), [(1, 11), (2, 14), (4, 10)])
def test_batches_that_are_slow_to_open_have_a_limit_in_both_ways(
    codec: int, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_MOST_OPENING", {1: 20, 2: 8, 4: 32}[codec])
    built = [*small(3, codec=codec), *small(3, first=3), *small(3, first=6, codec=LZ4), *small(9, first=9, codec=codec)]
    found = merge([joined(built)], codec=codec, max_batch_bytes=NO_LIMIT)
    assert found.batches == batches, "three of the codec, six others, and what the limit leaves"
    assert found == pure([joined(built)], codec)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_a_batch_that_holds_something_else_ends_a_merge_in_both_ways(codec: int, place: int) -> None:
    built = small(4, codec=codec)
    struct.pack_into(">i", built[place], 57, 9)  # it says that it has nine records
    for regions in ([joined(built)], built):
        found = merge(regions, codec=LZ4, max_batch_bytes=NO_LIMIT)
        assert found.batches == (place if place > 1 else 1)
        assert found == pure(regions)


def test_what_python_raises_is_raised() -> None:
    def decompress(_codec: int, _data: bytes, _limit: int) -> bytes:
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        module().merge_areas(small(2, codec=ZSTD), NO_LIMIT, NO_LIMIT, 9, 9, decompress)
    with pytest.raises(TypeError):
        module().merge_areas(small(2, codec=SNAPPY), NO_LIMIT, NO_LIMIT, 9, 9, lambda *_: "text")


@given(st.binary(max_size=400), st.integers(0, 500), st.integers(0, 500), st.integers(0, 5))
def test_noise(noise: bytes, most: int, inflated: int, batches: int) -> None:
    found = module().merge_areas([noise, bytearray(noise)], most, inflated, batches, batches, merging._decompressed)
    assert found[4] <= batches


@given(st.integers(1, 4), st.integers(60, 3000), st.integers(0, 4000))
def test_the_bounds_hold_in_both_ways(codec: int, max_batch_bytes: int, inflated_bytes: int) -> None:
    regions = [joined(small(9, codec=codec, each=3)), joined(small(9, first=27)), joined(small(9, first=36, codec=LZ4))]
    found = merge(regions, codec=codec, max_batch_bytes=max_batch_bytes, inflated_bytes=inflated_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "module", None)
        again = merge(regions, codec=codec, max_batch_bytes=max_batch_bytes, inflated_bytes=inflated_bytes)
    assert again == found
