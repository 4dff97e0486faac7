"""Re-encoded batches: nothing lost, nothing added, exact runs, sizes that the target accepts."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import MalformedBatch
from engine.wire.batch import Verdict, check_crc, judge
from engine.wire.records import Coding, Encoded, Record, reencode
from tests.unit.engine.wire.batches import (
    DELETE_HORIZON,
    LOG_APPEND,
    PARTITION,
    TOPIC,
    TRANSACTIONAL,
    batch,
    contents,
    decoded,
    legacy,
    only,
    read_by_aiokafka,
    records,
    with_area,
)
from tests.unit.engine.wire.test_records import CONTENT, as_records

pytestmark = pytest.mark.usefixtures("way")

NO_LIMIT = 1 << 30


def _reencode(built: bytearray, wanted_offset: int = 0, max_batch_bytes: int = NO_LIMIT) -> list[Encoded]:
    return reencode(
        built, 0, only(built), TOPIC, PARTITION, wanted_offset=wanted_offset, max_batch_bytes=max_batch_bytes
    )


def _offsets(piece: Encoded) -> list[int]:
    """The source offset of every record of a piece, from its runs."""
    bounds = [index for index, _ in piece.runs[1:]] + [piece.record_count]
    assert piece.runs[0][0] == 0
    return [
        offset + step
        for (index, offset), bound in zip(piece.runs, bounds, strict=True)
        for step in range(bound - index)
    ]


def _check(pieces: list[Encoded], wanted: list[Record], codec: int, next_offset: int) -> None:
    """Every piece stands alone as a batch a broker takes, and together they are exactly `wanted`."""
    found: list[Record] = []
    for piece in pieces:
        header = only(piece.payload)
        check_crc(piece.payload, 0, header, TOPIC, PARTITION)
        assert judge(header, 0, NO_LIMIT, False) == (Verdict.PASS, None)
        assert (header.attributes, header.leader_epoch, header.producer_id, header.base_sequence) == (codec, -1, -1, -1)
        assert header.record_count == piece.record_count
        ours, theirs = decoded(piece.payload), read_by_aiokafka(piece.payload)
        assert ours == theirs
        assert [record.offset for record in ours] == list(range(piece.record_count))
        assert header.max_timestamp == max(-1, *(record.timestamp for record in ours))
        found += [
            Record(offset, record.timestamp, record.key, record.value, record.headers)
            for offset, record in zip(_offsets(piece), ours, strict=True)
        ]
    assert found == wanted
    for piece, after in itertools.pairwise(pieces):
        assert _offsets(piece)[-1] + 1 == piece.next_offset <= after.runs[0][1]
    assert pieces[-1].next_offset == next_offset


@st.composite
def _sources(draw: st.DrawFn) -> list[Record]:
    content = draw(CONTENT)
    steps = draw(st.lists(st.just(1) | st.integers(1, 9000), min_size=len(content), max_size=len(content)))
    offset, offsets = draw(st.integers(0, 2**50)), []
    for step in steps:
        offset += step
        offsets.append(offset)
    return as_records(content, offsets)


@given(
    _sources(),
    st.integers(0, 4),
    st.sampled_from([0, TRANSACTIONAL, DELETE_HORIZON]),
    st.integers(0, 3),
    st.integers(0, 29),
    st.sampled_from([NO_LIMIT, 2000, 300, 1]),
)
def test_any_records_survive(
    source: list[Record], codec: int, bits: int, tail_gap: int, first_wanted: int, limit: int
) -> None:
    last = source[-1].offset + tail_gap
    built = batch(source, codec, bits=bits, last_offset_delta=last - source[0].offset)
    wanted = source[min(first_wanted, len(source) - 1) :]
    pieces = _reencode(built, wanted[0].offset, limit)
    _check(pieces, wanted, only(built).codec, last + 1)
    assert all(len(piece.payload) <= limit or piece.record_count == 1 for piece in pieces)


@given(_sources(), st.integers(0, 3), st.integers(0, 1))
def test_any_old_format_records_survive(source: list[Record], codec: int, magic: int) -> None:
    codec = codec if source[0].offset > 0 and not (codec == 3 and magic == 0) else 0
    source = source if codec else source[:1]
    built = legacy(source, magic, codec)
    wanted = [Record(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in source]
    _check(_reencode(built), wanted, codec, source[-1].offset + 1)


def test_holes_of_compaction_become_runs() -> None:
    source = [record for record in records(12, first=100) if record.offset not in (103, 104, 108)]
    built = batch(source, 3, last_offset_delta=14)
    (piece,) = _reencode(built)
    assert piece.runs == ((0, 100), (3, 105), (6, 109))
    assert (piece.record_count, piece.next_offset) == (9, 115)


def test_a_fetch_in_mid_batch_starts_at_the_wanted_record() -> None:
    (piece,) = _reencode(batch(records(10, first=100), 4), wanted_offset=107)
    assert (piece.runs, piece.record_count, piece.next_offset) == (((0, 107),), 3, 110)


def test_nothing_remains() -> None:
    assert _reencode(batch(records(3, first=10), last_offset_delta=9), wanted_offset=13) == []


def test_log_append_time_becomes_create_time() -> None:
    source = records(5, first=10)
    wanted = [Record(r.offset, 4242, r.key, r.value, r.headers) for r in source]
    _check(_reencode(batch(source, 2, bits=LOG_APPEND, max_timestamp=4242)), wanted, 2, 15)


@pytest.mark.parametrize("codec", range(5))
def test_a_large_batch_of_small_records_is_split_evenly(codec: int) -> None:
    noise = random.Random(7)
    source = [Record(50 + i, 1000 + i, b"%d" % i, noise.randbytes(40).hex().encode()) for i in range(4000)]
    built = batch(source, codec)
    limit = len(built) // 5
    pieces = _reencode(built, max_batch_bytes=limit)
    _check(pieces, source, codec, 4050)
    assert all(len(piece.payload) <= limit for piece in pieces)
    assert 5 <= len(pieces) <= 12


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_record_above_the_limit_stays_alone(place: int) -> None:
    source = [Record(i, 5, b"k", random.Random(i).randbytes(5000 if i == place else 10)) for i in range(3)]
    pieces = _reencode(batch(source), max_batch_bytes=1000)
    _check(pieces, source, 0, 3)
    assert [p.record_count for p in pieces if len(p.payload) > 1000] == [1]


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_one_record_that_fitted_by_hard_compression_fits_again(codec: int) -> None:
    noise = random.Random(7)
    lines = [b'{"id":%d,"name":"user-%d"}' % (noise.randrange(10**9), noise.randrange(1000)) for _ in range(20_000)]
    source = [Record(9, 5, b"k", b"".join(lines))]
    stamped = batch(source, codec, bits=LOG_APPEND, max_timestamp=4242)
    (easy,) = _reencode(stamped)
    limit = len(easy.payload) - 1
    (hard,) = _reencode(stamped, max_batch_bytes=limit)
    assert len(hard.payload) <= limit
    _check([hard], [Record(9, 4242, b"k", source[0].value)], codec, 10)


def test_a_wrapper_at_offset_0_goes_on_behind_its_last_record() -> None:
    source = [Record(i, 5, b"k", b"v" * 50) for i in range(3)]
    built = legacy(source, 1, 1)
    built[0:8] = bytes(8)
    assert _reencode(built)[-1].next_offset == 3


def test_old_entries_whose_offsets_go_back() -> None:
    source = [Record(i, 5, b"k", b"v" * 50) for i in (7, 6, 8)]
    with pytest.raises(MalformedBatch, match="offset delta -1"):
        _reencode(legacy(source, 0, 1))


def test_contents_that_lie() -> None:
    built = batch(records(4, first=9), 4)
    with pytest.raises(MalformedBatch, match="orders-3 at offset 9: zstd"):
        _reencode(with_area(built, b"broken"))


def test_timestamps_beyond_64_bits() -> None:
    built = batch([Record(0, 2**62, None, b"a"), Record(1, 2**62 + 5, None, b"b")])
    built[27:35] = (2**63 - 2).to_bytes(8, "big")
    with pytest.raises(MalformedBatch, match="64 bits"):
        _reencode(built)


def test_contents_helper_sees_a_difference() -> None:
    one, other = records(2), records(2)
    assert contents(one) == contents(other) != contents(records(2, size=3))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("wished", range(1, 5))
def test_the_records_of_a_batch_get_another_codec(codec: int, wished: int) -> None:
    source = records(20)
    built = batch(source, codec)
    coding = Coding(codec=wished)
    pieces = reencode(built, 0, only(built), TOPIC, PARTITION, wanted_offset=0, max_batch_bytes=200, coding=coding)
    assert len(pieces) > 1
    _check(pieces, source, wished, source[-1].offset + 1)
