"""MM2's records: its own bytes (from its unit tests), round trips of every value, and no crash on any bytes."""

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.mm2.mm2_records import (
    Checkpoint,
    Heartbeat,
    MalformedRecord,
    OffsetSync,
    decode_checkpoint,
    decode_heartbeat,
    decode_offset_sync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)

HEARTBEAT = Heartbeat("A", "B", 1234567890)
CHECKPOINT = Checkpoint("group-1", "topic-2", 3, 4, 5, "metadata-6")
SYNC = OffsetSync("topic-1", 2, 3, 4)

I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=60)
BYTES = st.none() | st.binary(max_size=60)


def test_the_bytes_are_those_of_mm2() -> None:
    key, value = encode_heartbeat(HEARTBEAT)
    assert (key.hex(), value.hex()) == ("000141000142", "000000000000499602d2")
    key, value = encode_checkpoint(CHECKPOINT)
    assert key.hex() == "000767726f75702d310007746f7069632d3200000003"
    assert value.hex() == "000000000000000000040000000000000005000a6d657461646174612d36"
    key, value = encode_offset_sync(SYNC)
    assert (key.hex(), value.hex()) == ("0007746f7069632d3100000002", "00000000000000030000000000000004")


def test_bytes_of_ours_stand_behind_those_of_mm2() -> None:
    key, value = encode_offset_sync(OffsetSync("topic-1", 2, 3, 4, b"\x01\x02"))
    assert (key, value[:16], value[16:]) == (*encode_offset_sync(SYNC), b"\x01\x02")
    assert decode_offset_sync(key, value).tail == b"\x01\x02"


@given(TEXT, TEXT, I64)
def test_a_heartbeat_there_and_back(source: str, target: str, at_ms: int) -> None:
    heartbeat = Heartbeat(source, target, at_ms)
    assert decode_heartbeat(*encode_heartbeat(heartbeat)) == heartbeat


@given(TEXT, TEXT, I32, I64, I64, TEXT)
def test_a_checkpoint_there_and_back(
    group: str, topic: str, partition: int, source: int, target: int, metadata: str
) -> None:
    checkpoint = Checkpoint(group, topic, partition, source, target, metadata)
    assert decode_checkpoint(*encode_checkpoint(checkpoint)) == checkpoint


@given(TEXT, I32, I64, I64, st.binary(max_size=40))
def test_a_sync_there_and_back(topic: str, partition: int, source: int, target: int, tail: bytes) -> None:
    sync = OffsetSync(topic, partition, source, target, tail)
    assert decode_offset_sync(*encode_offset_sync(sync)) == sync


@given(BYTES, BYTES)
def test_whatever_bytes_come_only_a_named_error_is_raised(key: bytes | None, value: bytes | None) -> None:
    for decode in (decode_heartbeat, decode_checkpoint, decode_offset_sync):
        with contextlib.suppress(MalformedRecord):
            decode(key, value)


def test_no_cut_of_a_record_is_read_as_one() -> None:
    for decode, (key, value) in (
        (decode_heartbeat, encode_heartbeat(HEARTBEAT)),
        (decode_checkpoint, encode_checkpoint(CHECKPOINT)),
        (decode_offset_sync, encode_offset_sync(SYNC)),
    ):
        for cut_key, cut_value in [(key[:n], value) for n in range(len(key))] + [
            (key, value[:n]) for n in range(len(value))
        ]:
            with pytest.raises(MalformedRecord):
                decode(cut_key, cut_value)


def test_other_versions_and_more_bytes_are_read_as_mm2_reads_them() -> None:
    key, value = encode_heartbeat(HEARTBEAT)
    assert decode_heartbeat(key + b"more", b"\x00\x07" + value[2:] + b"more") == HEARTBEAT
    key, value = encode_checkpoint(CHECKPOINT)
    assert decode_checkpoint(key + b"more", b"\x00\x01" + value[2:] + b"more") == CHECKPOINT


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(MalformedRecord, match=r"Heartbeat: the value is null; expected are bytes as MM2's Heartbeat"):
        decode_heartbeat(encode_heartbeat(HEARTBEAT)[0], None)
    with pytest.raises(MalformedRecord, match=r"key: a string of -1 bytes, but only 2 bytes are left"):
        decode_heartbeat(b"\xff\xff\x00\x00", b"")
    with pytest.raises(MalformedRecord, match=r"key: a string that is not UTF-8"):
        decode_offset_sync(b"\x00\x01\xff\x00\x00\x00\x00", b"")
    with pytest.raises(MalformedRecord, match=r"value: 3 bytes are too few"):
        decode_offset_sync(encode_offset_sync(SYNC)[0], b"abc")


def test_what_does_not_fit_is_refused_when_written() -> None:
    with pytest.raises(MalformedRecord, match=r"has 32768 bytes, the limit is 32767 bytes"):
        encode_checkpoint(Checkpoint("g", "t", 0, 1, 2, "x" * 32768))
    with pytest.raises(MalformedRecord, match=r"has no UTF-8"):
        encode_checkpoint(Checkpoint("\ud800", "t", 0, 1, 2))
    with pytest.raises(MalformedRecord, match=r"do not fit"):
        encode_offset_sync(OffsetSync("t", 2**31, 1, 2))
    assert len(encode_checkpoint(Checkpoint("g", "t", 0, 1, 2, "x" * 32767))[1]) == 18 + 2 + 32767


def test_the_error_crosses_processes() -> None:
    error = MalformedRecord("Heartbeat", "the key is null")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
