"""Walking a record set, checking and restamping in place."""

import struct

import pytest

from engine.base.errors import CorruptBatch, MalformedBatch, UnknownMagic, WireError
from engine.wire.batch import check_crc, control_type, restamp, split_batches
from tests.unit.engine.wire.batches import (
    CONTROL,
    DELETE_HORIZON,
    PARTITION,
    TOPIC,
    TRANSACTIONAL,
    batch,
    contents,
    control,
    decoded,
    header_of,
    legacy,
    only,
    read_by_aiokafka,
    records,
    with_area,
    with_crc,
)

pytestmark = pytest.mark.usefixtures("way")


def _split(built: bytes | bytearray, start: int = 0) -> list[tuple[int, int, int]]:
    found = split_batches(bytearray(built), start, len(built), TOPIC, PARTITION)
    return [(at, header.base_offset, header.magic) for at, header in found]


def test_splits_batches_and_legacy_entries_in_order() -> None:
    old = [legacy(records(1, first=0), 0), legacy(records(1, first=1), 0)]
    newer = legacy(records(2, first=2), 1, codec=1)
    new = batch(records(3, first=10), 4)
    region = b"".join([*old, newer, new])
    starts = [0, len(old[0]), len(old[0] + old[1]), len(region) - len(new)]
    assert _split(region) == list(zip(starts, [0, 1, 3, 10], [0, 0, 1, 2], strict=True))


def test_an_empty_region_has_no_batches() -> None:
    assert _split(b"") == []
    assert _split(b"1234", start=4) == []


def test_every_truncation_of_the_last_batch_ends_the_walk() -> None:
    first, second = batch(records(2)), batch(records(2, first=2))
    for cut in range(len(second)):
        assert _split(first + second[:cut]) == [(0, 0, 2)]


@pytest.mark.parametrize("built", [batch(records(2)), legacy(records(1), 0), legacy(records(1), 1)])
def test_a_first_batch_that_does_not_fit_is_an_error(built: bytearray) -> None:
    for cut in range(1, len(built)):
        with pytest.raises(MalformedBatch, match=f"{cut} bytes fetched"):
            _split(built[:cut])


@pytest.mark.parametrize("magic", [-1, 3, 127, -128])
def test_unknown_magic(magic: int) -> None:
    good, bad = batch(records(2)), batch(records(2, first=2))
    struct.pack_into(">b", bad, 16, magic)
    walk = split_batches(good + bad, 0, len(good + bad), TOPIC, PARTITION)
    assert next(walk)[0] == 0
    with pytest.raises(UnknownMagic) as caught:
        next(walk)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (TOPIC, PARTITION, 2)


@pytest.mark.parametrize(("magic", "length"), [(2, 48), (2, -1), (1, 21), (0, 13), (0, 0)])
def test_a_length_below_the_format_s_least(magic: int, length: int) -> None:
    bad = batch(records(2, first=4))
    struct.pack_into(">i", bad, 8, length)
    struct.pack_into(">b", bad, 16, magic)
    with pytest.raises(MalformedBatch, match=f"orders-3 at offset 4: length {length}"):
        _split(bad)


@pytest.mark.parametrize(("field_at", "value"), [(23, -1), (57, -1)])
def test_negative_counts(field_at: int, value: int) -> None:
    bad = batch(records(2))
    struct.pack_into(">i", bad, field_at, value)
    with pytest.raises(MalformedBatch, match="are impossible"):
        _split(with_crc(bad))


def test_offsets_that_go_back() -> None:
    with pytest.raises(MalformedBatch, match="base offset 6 after offset 6"):
        _split(batch(records(2, first=5)) + batch(records(2, first=6)))


@pytest.mark.parametrize("built", [batch(records(5), 3), legacy(records(1), 0), legacy(records(1), 1)])
def test_crc_holds_and_one_flipped_bit_breaks_it(built: bytearray) -> None:
    built = bytearray(built)
    header = only(built)
    check_crc(built, 0, header, TOPIC, PARTITION)
    built[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        check_crc(memoryview(built), 0, header, TOPIC, PARTITION)


def test_restamp_writes_ours_and_keeps_the_rest() -> None:
    before = batch(records(8, first=40), 1, bits=TRANSACTIONAL | DELETE_HORIZON)
    after = bytearray(b"??") + before
    restamp(after, 2, header_of(before), 900, 2, 2**31 - 1)
    after = after[2:]
    old, new = header_of(before), header_of(after)
    assert (new.base_offset, new.leader_epoch, new.attributes) == (0, -1, 1)
    assert (new.producer_id, new.producer_epoch, new.base_sequence) == (900, 2, 2**31 - 1)
    same = ("batch_length", "magic", "last_offset_delta", "base_timestamp", "max_timestamp", "record_count")
    assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]
    check_crc(after, 0, new, TOPIC, PARTITION)
    assert after[61:] == before[61:]
    restamp(after, 0, new, 900, 2, 5, transactional=True)
    assert header_of(after).attributes == 1 | TRANSACTIONAL
    check_crc(after, 0, header_of(after), TOPIC, PARTITION)


def test_restamp_keeps_timestamps_of_a_delete_horizon_batch() -> None:
    content = records(6, first=40)
    built = batch(content, bits=DELETE_HORIZON)
    # What the cleaner writes: base timestamp = horizon, deltas to it; here both move by the same amount.
    shifted = batch([content[0], *content[1:]], bits=DELETE_HORIZON)
    struct.pack_into(">q", shifted, 27, header_of(built).base_timestamp + 5000)
    with_crc(shifted)
    wanted = contents(decoded(shifted))
    restamp(shifted, 0, header_of(shifted), 1, 0, 0)
    assert not header_of(shifted).has_delete_horizon
    assert contents(decoded(shifted)) == wanted == contents(read_by_aiokafka(shifted))


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("kind", [0, 1, 2, 6])
def test_control_type(kind: int, codec: int) -> None:
    built = control(kind, 12, codec=codec)
    assert control_type(built, 0, only(built)) == kind


def test_an_emptied_control_batch_is_neither_abort_nor_commit() -> None:
    built = control(0, 12)
    struct.pack_into(">i", built, 57, 0)
    built = with_area(built, b"")
    assert control_type(built, 0, only(built)) == -1


@pytest.mark.parametrize(
    ("area", "attributes"),
    [
        (b"", CONTROL),  # the area ends
        (b"\xff" * 12, CONTROL),  # no varint
        (bytes.fromhex("10000000010000"), CONTROL),  # null key
        (bytes.fromhex("1000000004000000"), CONTROL),  # key of two bytes
        (b"not gzip", CONTROL | 1),
    ],
)
def test_a_control_record_that_is_none(area: bytes, attributes: int) -> None:
    built = control(0, 12)
    struct.pack_into(">h", built, 21, attributes)
    built = with_area(built, area)
    with pytest.raises(MalformedBatch, match="orders-3 at offset 12: control record"):
        control_type(built, 0, only(built), TOPIC, PARTITION)


def test_wire_errors_name_the_place() -> None:
    error = WireError(TOPIC, PARTITION, 9, "what")
    assert str(error) == "orders-3 at offset 9: what"
