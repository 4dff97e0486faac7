"""Every byte of sample batches broken in turn: a typed error or the same records, never anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import CorruptBatch, WireError
from engine.wire.batch import BatchHeader, check_crc, control_type, split_batches
from engine.wire.records import Record, decode_records, reencode
from tests.unit.engine.wire.batches import PARTITION, TOPIC, batch, contents, control, decoded, legacy, records

pytestmark = pytest.mark.usefixtures("way")

CONTENT = records(12, first=70)
SAMPLES = {
    **{f"v2-{codec}": batch(CONTENT, codec) for codec in range(5)},
    "control": control(0, 70),
    **{f"v1-{codec}": legacy(CONTENT, 1, codec) for codec in (1, 2, 3)},
    **{f"v0-{codec}": legacy(CONTENT, 0, codec) for codec in (1, 2)},
    "v1": legacy(CONTENT[:1], 1),
    "v0": legacy(CONTENT[:1], 0),
}
FLIPS = (0x01, 0x80, 0xFF)
# Base offset, batch length, leader epoch and magic lie outside the CRC; v2 keeps the CRC up to byte 21.
_OUTSIDE_CRC = 17


def _broken(sample: bytearray) -> list[tuple[int, bytearray]]:
    made = []
    for at in range(len(sample)):
        for flip in FLIPS:
            copy = bytearray(sample)
            copy[at] ^= flip
            made.append((at, copy))
    return made


def _read_all(built: bytearray, header: BatchHeader, at: int) -> list[Record]:
    if header.is_control:
        control_type(built, at, header, TOPIC, PARTITION)
    found = decode_records(built, at, header, TOPIC, PARTITION)
    reencode(built, at, header, TOPIC, PARTITION, wanted_offset=75, max_batch_bytes=200)
    return found


def _attempt(built: bytearray, check: bool) -> tuple[list[Record], WireError | None]:
    """Read what can be read, as a lane would; anything but a WireError escapes and fails the test."""
    found: list[Record] = []
    try:
        for start, header in split_batches(built, 0, len(built), TOPIC, PARTITION):
            if check:
                check_crc(built, start, header, TOPIC, PARTITION)
            found += _read_all(built, header, start)
    except WireError as error:
        return found, error
    return found, None


@pytest.mark.parametrize("name", SAMPLES)
def test_with_the_crc_checked(name: str) -> None:
    wanted = contents(decoded(SAMPLES[name]))
    for at, built in _broken(SAMPLES[name]):
        found, error = _attempt(built, check=True)
        if error is None:
            assert at < _OUTSIDE_CRC, f"byte {at} is under the CRC"
            assert contents(found) == wanted
        else:
            assert (error.topic, error.partition, found) == (TOPIC, PARTITION, [])
            assert isinstance(error, CorruptBatch) or at < 61


@pytest.mark.parametrize("name", SAMPLES)
def test_without_the_crc_the_decoders_stand_alone(name: str) -> None:
    outcomes = [_attempt(built, check=False)[1] for _, built in _broken(SAMPLES[name])]
    errors = [error for error in outcomes if error is not None]
    assert errors
    assert all(error.what for error in errors)


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_several_bytes_at_once(name: str, data: st.DataObject) -> None:
    built = bytearray(SAMPLES[name])
    places = data.draw(st.lists(st.tuples(st.integers(0, len(built) - 1), st.integers(0, 255)), max_size=6))
    for at, value in places:
        built[at] = value
    _, error = _attempt(built, check=False)
    assert error is None or str(error).startswith("orders-3 at offset ")


@given(st.binary(max_size=300))
def test_arbitrary_bytes(noise: bytes) -> None:
    _, error = _attempt(bytearray(noise), check=False)
    assert error is None or str(error).startswith("orders-3 at offset ")
