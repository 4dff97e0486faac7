"""Blocks, tails and texts of the map: round trips, golden bytes, and other records on the topic."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import NewerFormat
from engine.core.offset_map.map_blocks import (
    BlockPlace,
    block_key,
    decode_block,
    decode_tail,
    encode_block,
    encode_tail,
    lane_key,
    map_topic,
    read_block_key,
    read_place,
    read_runs_text,
    runs_text,
    split_key,
)
from engine.core.offset_map.offset_map import MapBlock, MapHead, MapRun
from policies.model import TopicPartition
from tests.unit.engine.core.maps import run_lists

LANE = TopicPartition("orders", 3)
RUNS = (MapRun(40, 90, 10), MapRun(51, 100, 10), MapRun(62, 111, 10))
BODY = bytes.fromhex("06 50 b401 14 02 00 14 02 02 14")


def test_the_topic_has_the_sources_name() -> None:
    assert map_topic("A") == "raymirror-map.A.internal"


def test_the_key_of_a_block() -> None:
    key = b'["raymirror-map",{"block":12,"cluster":"A","partition":3,"topic":"orders"}]'
    assert block_key("A", LANE, 12) == key
    assert read_block_key(key) == ("A", LANE, 12)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]',
        b'["other",{"block":1,"cluster":"A","partition":0,"topic":"t"}]',
        b'["raymirror-map",{"block":-1,"cluster":"A","partition":0,"topic":"t"}]',
        b'["raymirror-map",{"block":"1","cluster":"A","partition":0,"topic":"t"}]',
    ],
)
def test_other_keys_are_nobodys(key: bytes | None) -> None:
    assert read_block_key(key) is None


@pytest.mark.parametrize("number", [0, 7, 12, 123_456])
def test_a_key_is_told_from_others_by_its_bytes(number: int) -> None:
    lanes = [LANE, LANE._replace(partition=33), LANE._replace(topic="order"), LANE._replace(topic='a",{"\u00e9')]
    keys = {lane_key(source, lane): (source, lane) for source in ("A", "AB") for lane in lanes}
    assert len(keys) == 8
    for name, (source, lane) in keys.items():
        assert split_key(block_key(source, lane, number)) == (name, number)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"",
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]',
        b'["raymirror-map",{"block":-1,"cluster":"A","partition":0,"topic":"t"}]',
        b'["raymirror-map",{"block":"1","cluster":"A","partition":0,"topic":"t"}]',
        b'["raymirror-map",{"block":12',
        b'["raymirror-map",{"block":',
    ],
)
def test_the_bytes_of_other_keys_are_nobodys(key: bytes | None) -> None:
    found = split_key(key)
    assert found is None or found[0] != lane_key("A", LANE)


@given(run_lists(), st.integers(0, 2**62))
def test_where_a_block_begins_is_read_alone(runs: tuple[MapRun, ...], generation: int) -> None:
    value = encode_block(MapBlock(3, generation, runs))
    if runs:
        assert read_place(value, 9) == BlockPlace(runs[0].source, runs[0].target, 9)
    else:
        with pytest.raises(ValueError, match=r"ends early|without runs"):
            read_place(value, 9)


def test_a_place_that_cannot_be_is_refused() -> None:
    for value in (b"\x01\x0a\x00\x00\x00", b"\x01\x0a\x02\x01\x00", b"\x01\x0a\x02\x00\x01"):
        with pytest.raises(ValueError, match="negative offset"):
            read_place(value, 0)
    with pytest.raises(NewerFormat, match="topic x: format 3"):
        read_place(b"\x03\x0a" + BODY, 0, "topic x")


def test_the_value_of_a_block() -> None:
    value = b"\x01\x0a" + BODY
    assert encode_block(MapBlock(7, 5, RUNS)) == value
    assert decode_block(7, value) == MapBlock(7, 5, RUNS)


def test_the_tail_behind_an_offset_sync() -> None:
    head = MapHead(5, 4, 73, 121, RUNS)
    data = b"\x01\x0a\x08" + BODY + b"\x02\x00"
    assert encode_tail(head) == data
    assert decode_tail(data) == head


def test_a_sync_without_a_tail_is_mm2s() -> None:
    assert decode_tail(b"") is None


@given(run_lists(), st.integers(0, 2**50), st.integers(0, 2**40), st.integers(0, 9), st.integers(0, 2**40))
def test_there_and_back(runs: tuple[MapRun, ...], generation: int, blocks: int, more: int, shift: int) -> None:
    moved = tuple(MapRun(run.source + shift, run.target + 2 * shift, run.count) for run in runs)
    last = moved[-1] if moved else MapRun(shift, shift, 0)
    head = MapHead(generation, blocks, last.source + last.count + more, last.target + last.count + 2 * more, moved)
    assert decode_tail(encode_tail(head)) == head
    assert decode_block(3, encode_block(MapBlock(3, generation, moved))) == MapBlock(3, generation, moved)
    assert read_runs_text(runs_text(moved)) == moved


def test_no_runs_are_no_text() -> None:
    assert runs_text(()) == ""
    assert read_runs_text("") == ()


def test_the_next_format_is_read_and_what_it_adds_ignored() -> None:
    assert decode_block(7, b"\x02\x0a" + BODY + b"more") == MapBlock(7, 5, RUNS)
    assert decode_tail(b"\x02\x0a\x08" + BODY + b"\x02\x00more") == MapHead(5, 4, 73, 121, RUNS)


def test_a_format_too_far_above_is_refused_by_name() -> None:
    with pytest.raises(NewerFormat, match="topic x: format 3"):
        decode_block(7, b"\x03\x0a" + BODY, "topic x")
    with pytest.raises(NewerFormat, match="topic x: format 3"):
        decode_tail(b"\x03\x0a\x08" + BODY + b"\x00\x00", "topic x")


@given(st.integers(0, 11))
def test_what_ends_early_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=r"ends? early"):
        decode_block(7, (b"\x01\x0a" + BODY)[:length])
    with pytest.raises(ValueError, match=r"ends? early"):
        decode_tail((b"\x01\x0a\x08" + BODY + b"\x00\x00")[: length + 1])


@pytest.mark.parametrize("text", ["!", "Bg", "BlA=", "AgAAAA=="])
def test_texts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_runs_text(text)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (lambda: decode_block(1, data), lambda: decode_tail(data), lambda: read_place(data, 0)):
        with contextlib.suppress(ValueError):
            read()
