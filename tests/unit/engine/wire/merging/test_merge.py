"""Merged batches: every record as it was, in order, with the runs of their source offsets; both ways byte for byte."""

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire import native
from engine.wire.batch import Verdict, check_crc, judge
from engine.wire.encode import write_area
from engine.wire.merging.merge import Merged, merge
from engine.wire.records import Encoded, Record, encode_batch
from tests.unit.engine.wire.batches import (
    DELETE_HORIZON,
    LOG_APPEND,
    PARTITION,
    TOPIC,
    TRANSACTIONAL,
    batch,
    control,
    decoded,
    legacy,
    only,
    read_by_aiokafka,
    records,
    with_area,
)
from tests.unit.engine.wire.merging.sets import joined, small, sources

pytestmark = pytest.mark.usefixtures("way")

NO_LIMIT = 1 << 30


def offsets_of(piece: Encoded) -> list[int]:
    """The source offset of every record of a piece, from its runs."""
    assert piece.runs[0][0] == 0
    bounds = [index for index, _ in piece.runs[1:]] + [piece.record_count]
    return [
        offset + step
        for (index, offset), bound in zip(piece.runs, bounds, strict=True)
        for step in range(bound - index)
    ]


def source_records(piece: Encoded, codec: int) -> list[Record]:
    """Check that a broker takes a merged batch, and return its records with their source offsets."""
    header = only(piece.payload)
    check_crc(piece.payload, 0, header, TOPIC, PARTITION)
    assert judge(header, 0, NO_LIMIT, False) == (Verdict.PASS, None)
    assert (header.attributes, header.leader_epoch, header.producer_id, header.base_sequence) == (codec, -1, -1, -1)
    found = decoded(piece.payload)
    assert found == read_by_aiokafka(piece.payload)
    assert [record.offset for record in found] == list(range(piece.record_count))
    assert header.max_timestamp == max(-1, *(record.timestamp for record in found))
    return [
        Record(offset, record.timestamp, record.key, record.value, record.headers)
        for offset, record in zip(offsets_of(piece), found, strict=True)
    ]


def whole(found: Merged) -> Encoded:
    assert found.encoded is not None
    return found.encoded


@given(sources(codecs=st.just(0)), st.lists(st.integers(1, 6), max_size=4))
def test_any_plain_batches_survive(made: list[tuple[bytearray, list[Record]]], cuts: list[int]) -> None:
    bounds = sorted({0, len(made), *(cut for cut in cuts if cut < len(made))})
    regions = [joined([built for built, _ in made[at:until]]) for at, until in itertools.pairwise(bounds)]
    found = merge(regions, codec=0, max_batch_bytes=NO_LIMIT)
    assert (found.batches, found.region, found.at) == (len(made), len(regions), 0) or len(made) == 1
    if len(made) > 1:
        assert source_records(whole(found), 0) == [record for _, some in made for record in some]
        assert whole(found).next_offset == made[-1][1][-1].offset + 1


@given(sources(codecs=st.integers(0, 4)), st.integers(1, 4), st.sampled_from([NO_LIMIT, 3000, 800]))
def test_any_compressed_batches_survive(
    made: list[tuple[bytearray, list[Record]]], codec: int, max_batch_bytes: int
) -> None:
    region = joined([built for built, _ in made])
    wanted = [record for _, some in made for record in some]
    got: list[Record] = []
    rest: memoryview = memoryview(region)
    while rest:
        found = merge([rest], codec=codec, max_batch_bytes=max_batch_bytes)
        if found.encoded is None:
            size = only(bytearray(rest)[: found.at or len(rest)]).size_bytes
            got += decoded(bytearray(rest[:size]))
        else:
            assert len(found.encoded.payload) <= max_batch_bytes
            got += source_records(found.encoded, codec)
        rest = rest[found.at :] if found.region == 0 else rest[len(rest) :]
    assert got == wanted


def test_the_merged_batch_is_what_one_producer_would_have_written() -> None:
    built = small(100, first=7)
    found = whole(merge([joined(built)], codec=0, max_batch_bytes=NO_LIMIT))
    assert found.payload == encode_batch([record for one in built for record in decoded(one)], 0)
    assert (found.runs, found.record_count, found.next_offset) == (((0, 7),), 100, 107)


@pytest.mark.parametrize("codec", range(5))
def test_as_many_whole_batches_as_fit(codec: int) -> None:
    built = [*small(40, codec=codec, each=5), *small(1, first=300, codec=codec)]
    region, at, batches, seen = memoryview(joined(built)), 0, 0, 0
    while at < len(region):
        found = merge([region[at:]], codec=codec, max_batch_bytes=1200)
        assert found.batches > 1 or at + len(built[-1]) == len(region)
        if found.encoded is not None:
            assert len(found.encoded.payload) <= 1200
            source_records(found.encoded, codec)
            seen += found.encoded.record_count
        batches += found.batches
        at = at + found.at if found.region == 0 else len(region)
    assert batches == 41
    assert seen in (200, 201)


def test_a_single_batch_is_left_as_it_is() -> None:
    built = small(2)
    assert merge([built[0]], codec=0, max_batch_bytes=NO_LIMIT) == Merged(None, 1, 1, 0)
    assert merge([joined(built)], codec=0, max_batch_bytes=len(built[0])) == Merged(None, 1, 0, len(built[0]))
    assert merge([built[0], built[1]], codec=0, max_batch_bytes=10) == Merged(None, 1, 1, 0)


def test_holes_between_batches_become_runs() -> None:
    built = [*small(2, first=10), *small(1, first=15), *small(1, first=16), *small(1, first=20)]
    assert whole(merge(built, codec=0, max_batch_bytes=NO_LIMIT)).runs == ((0, 10), (2, 15), (4, 20))


def test_a_plain_merge_ends_before_a_compressed_batch_but_not_the_other_way_round() -> None:
    built = [*small(2), *small(2, first=2, codec=3), *small(2, first=4)]
    assert merge(built, codec=0, max_batch_bytes=NO_LIMIT).batches == 2
    found = merge(built, codec=3, max_batch_bytes=NO_LIMIT)
    assert found.batches == 6
    assert [record.offset for record in source_records(whole(found), 3)] == list(range(6))


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("other", [control(1, 2), legacy(records(1, first=2), 1), bytearray(70), bytearray(5)])
def test_what_is_no_batch_of_records_ends_a_merge(codec: int, other: bytearray) -> None:
    built = small(2, codec=codec)
    for regions in ([joined([*built, other])], [*built, other]):
        found = merge(regions, codec=codec, max_batch_bytes=NO_LIMIT)
        assert found.batches == 2
        assert whole(found).next_offset == 2
    if len(other) > 61 and any(other):
        assert merge([control(1, 2), built[0]], codec=codec, max_batch_bytes=NO_LIMIT) == Merged(None, 1, 1, 0)


def test_without_a_whole_batch_there_is_nothing_to_merge() -> None:
    for region in (b"", bytes(61), small(1)[0][:-1]):
        for codec in (0, 3):
            with pytest.raises(ValueError, match="no whole batch"):
                merge([bytearray(region)], codec=codec, max_batch_bytes=NO_LIMIT)


@pytest.mark.parametrize("codec", [0, 4])
def test_a_batch_that_lies_about_its_records_is_left_out(codec: int) -> None:
    built = small(4)
    lying = with_area(built[2], bytes(built[2][61:-1]))
    good = merge([*built[:2], lying, built[3]], codec=codec, max_batch_bytes=NO_LIMIT)
    assert good.batches == 2
    assert merge([lying, built[3]], codec=codec, max_batch_bytes=NO_LIMIT) == Merged(None, 1, 1, 0)


def test_compressed_bytes_that_do_not_inflate_are_left_out() -> None:
    built = small(3, codec=3)
    built[1] = with_area(built[1], b"no frame at all")
    assert merge(built, codec=3, max_batch_bytes=NO_LIMIT) == Merged(None, 1, 1, 0)


def test_inflated_batches_have_a_limit_together() -> None:
    built = small(10, codec=3, each=10)
    one = sum(len(record) for record in map(bytes, [encode_batch(decoded(built[0]), 0)[61:]]))
    found = merge(built, codec=3, max_batch_bytes=NO_LIMIT, inflated_bytes=3 * one + 20)
    assert found.batches == 3
    plain = [built[0], *small(1, first=10, each=10)]
    assert merge(plain, codec=3, max_batch_bytes=NO_LIMIT, inflated_bytes=one + 20).encoded is None


def test_a_batch_that_compresses_worse_together_is_made_of_fewer_batches() -> None:
    built = [batch([Record(index, 0, None, b"x" * 3000)], 1) for index in range(4)]
    plain = [batch([Record(4 + index, 0, None, bytes(range(256)))], 0) for index in range(4)]
    limit = sum(len(one) - 61 for one in built[:2]) + 61 + 40
    found = merge([*built, *plain], codec=2, max_batch_bytes=limit)  # snappy shrinks less than gzip did
    assert found.encoded is None or len(found.encoded.payload) <= limit


def horizon_batch(first: int, horizon_ms: int) -> bytearray:
    """Return a batch whose base timestamp is a delete horizon, with deltas to it (KIP-534)."""
    content = [Record(first + index, 1000 + index, b"k%d" % index, None) for index in range(3)]
    built = batch(content, 0, bits=DELETE_HORIZON)
    struct.pack_into(">q", built, 27, horizon_ms)
    return with_area(built, write_area(content, range(3), horizon_ms))


@pytest.mark.parametrize("codec", [0, 2])
@pytest.mark.parametrize("horizon_ms", [1_800_000_000_000, 0, 1000])
def test_a_delete_horizon_moves_no_timestamp(codec: int, horizon_ms: int) -> None:
    built = [horizon_batch(0, horizon_ms), horizon_batch(3, horizon_ms + 5), *small(1, first=6)]
    found = source_records(whole(merge(built, codec=codec, max_batch_bytes=NO_LIMIT)), codec)
    assert found == [record for one in built for record in decoded(one)]
    header = only(whole(merge(built, codec=codec, max_batch_bytes=NO_LIMIT)).payload)
    assert (header.base_timestamp, header.first_timestamp) == (1000, 1000)


def test_transactions_and_log_append_time_end_with_the_copy() -> None:
    built = [
        batch(records(2), bits=TRANSACTIONAL),
        batch(records(2, first=2), bits=LOG_APPEND, max_timestamp=99),
        batch(records(2, first=4)),
    ]
    found = source_records(whole(merge(built, codec=0, max_batch_bytes=NO_LIMIT)), 0)
    assert [record.timestamp for record in found] == [
        *[record.timestamp for record in records(2)],
        99,
        99,
        *[record.timestamp for record in records(2, first=4)],
    ]


@pytest.mark.parametrize("base_ms", [2**63 - 1, -(2**63)])
@pytest.mark.parametrize("bits", [0, DELETE_HORIZON, LOG_APPEND])
@pytest.mark.parametrize("codec", [0, 3])
def test_timestamps_beyond_64_bits_are_left_alone(base_ms: int, bits: int, codec: int) -> None:
    odd = batch(records(2), bits=bits, max_timestamp=base_ms)
    struct.pack_into(">q", odd, 27, base_ms)
    odd = with_area(odd, bytes(odd[61:]))
    other = batch([Record(2, -5, b"k", b"v"), Record(3, 2**62, b"k", b"v")])
    for regions in ([odd, other], [other, odd]):
        found = merge(regions, codec=codec, max_batch_bytes=NO_LIMIT)
        if found.encoded is not None:
            assert decoded(found.encoded.payload)[0].timestamp == decoded(regions[0])[0].timestamp


@given(sources(codecs=st.sampled_from([0, 0, 0, 3])), st.sampled_from([0, 3]), st.integers(50, 3000), st.data())
def test_both_ways_merge_alike(
    made: list[tuple[bytearray, list[Record]]], codec: int, max_batch_bytes: int, data: st.DataObject
) -> None:
    region = joined([built for built, _ in made])
    places = data.draw(st.lists(st.tuples(st.integers(0, len(region) - 1), st.integers(0, 255)), max_size=4))
    for at, value in places:
        region[at] = value
    found = _attempt(region, codec, max_batch_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "module", None)
        assert found == _attempt(region, codec, max_batch_bytes)


def _attempt(region: bytearray, codec: int, max_batch_bytes: int) -> Merged | str:
    try:
        return merge([region], codec=codec, max_batch_bytes=max_batch_bytes)
    except ValueError as error:
        return str(error)
