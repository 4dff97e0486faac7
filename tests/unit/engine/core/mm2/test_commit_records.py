"""Records of `__consumer_offsets`: commits, other records, and arbitrary bytes that must not fail."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.mm2.commit_records import NO_OFFSET, CommittedOffset, decode_commit
from tests.fakes.commit_log import commit_key, commit_value

KEY = bytes.fromhex("0001 0001 67 0002 7420 0000 0007")
"""Version 1, group "g", topic "t ", partition 7."""
VALUES = {
    0: "0000 000000000000002a 0001 6d 0000018bcfe56800",
    1: "0001 000000000000002a 0001 6d 0000018bcfe56800 0000018bcfe56800",
    2: "0002 000000000000002a 0001 6d 0000018bcfe56800",
    3: "0003 000000000000002a ffffffff 0001 6d 0000018bcfe56800",
    4: "0004 000000000000002a ffffffff 02 6d 0000018bcfe56800 00",
}


@pytest.mark.parametrize("version", VALUES)
def test_every_version_of_a_value_is_read(version: int) -> None:
    value = bytes.fromhex(VALUES[version])
    assert value == commit_value(42, version, "m")
    assert decode_commit(KEY, value) == CommittedOffset(b"g", b"t ", 7, 42)


def test_a_key_of_the_first_version_is_the_same() -> None:
    assert decode_commit(b"\x00\x00" + KEY[2:], commit_value(1)) == CommittedOffset(b"g", b"t ", 7, 1)


@pytest.mark.parametrize("value", [b"", b"\x00\x03\x00", struct.pack(">hq", 5, 42), struct.pack(">hq", 3, -42)])
def test_a_commit_whose_value_is_not_understood_is_one_of_an_untold_offset(value: bytes) -> None:
    assert decode_commit(KEY, value) == CommittedOffset(b"g", b"t ", 7, NO_OFFSET)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b"\x00",
        b"\x00\x02" + KEY[2:5],  # of group metadata
        b"\x00\x03" + KEY[2:],  # of a KIP-848 group
        KEY[:3],
        KEY[:5],
        KEY[:-1],
        KEY + b"\x00",
        commit_key("g", "t", -1),
        commit_key("", "t", 0),
        commit_key("g", "", 0),
        b"\x00\x01\xff\xff" + KEY[4:],
        b"\x00\x01\x7f\xff" + KEY[4:],
    ],
)
def test_what_is_no_commit_is_none(key: bytes | None) -> None:
    assert decode_commit(key, commit_value(1)) is None


def test_a_deletion_is_none() -> None:
    assert decode_commit(KEY, None) is None


@given(st.binary(max_size=60), st.binary(max_size=60) | st.none())
def test_no_bytes_make_it_fail(tail: bytes, value: bytes | None) -> None:
    for key in (tail, b"\x00\x01" + tail):
        found = decode_commit(key, value)
        if found is not None:
            assert found.partition >= 0
            assert found.offset >= NO_OFFSET
            assert commit_key(found.group.decode("latin-1"), "", 0)[:4] == key[:2] + struct.pack(">h", len(found.group))


@given(
    st.text(min_size=1, max_size=40),
    st.text("abc._-", min_size=1, max_size=40),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.sampled_from([0, 1]),
    st.sampled_from(range(5)),
)
def test_what_is_written_is_read(group: str, topic: str, partition: int, offset: int, key: int, value: int) -> None:
    found = decode_commit(commit_key(group, topic, partition, key), commit_value(offset, value, "meta"))
    assert found == CommittedOffset(group.encode(), topic.encode(), partition, offset)


@given(st.integers(0, 40), st.integers(0, 255))
def test_a_byte_that_differs_never_makes_it_fail(at: int, byte: int) -> None:
    key = bytearray(commit_key("group", "topic", 3))
    key[at % len(key)] = byte
    found = decode_commit(bytes(key), commit_value(9))
    assert found is None or found.offset == 9
