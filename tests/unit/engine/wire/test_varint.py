"""Zigzag varints compared with written-down bytes, and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.wire.varint import BadVarint, read_varint, write_varint

GOLDEN = [
    (0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (8191, "fe7f"), (8192, "808001"),
    (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
    (2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "written"), GOLDEN)
def test_golden(value: int, written: str) -> None:
    assert write_varint(value).hex() == written
    assert read_varint(b"?" + bytes.fromhex(written) + b"?", 1) == (value, 1 + len(written) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_round_trip(value: int) -> None:
    written = write_varint(value)
    assert read_varint(written, 0) == (value, len(written))


def test_too_long_and_cut_off() -> None:
    with pytest.raises(BadVarint, match="longer than 10"):
        read_varint(b"\x80" * 11, 0)
    with pytest.raises(IndexError):
        read_varint(b"\x80\x80", 0)
    with pytest.raises(IndexError):
        read_varint(b"", 0)


def test_bits_beyond_the_64th_are_dropped_as_java_does() -> None:
    assert read_varint(b"\xfe" + b"\xff" * 8 + b"\x7f", 0) == (2**63 - 1, 10)
