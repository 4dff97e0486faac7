"""Encodes and decodes the offset map: a block's record, the tail after an offset sync, the tail in a position.

    runs    varints: number of runs, first source, first target, count; per further run: source gap, target gap, count
    block   key   ["raymirror-map",{"block":n,"cluster":A,"partition":p,"topic":t}]
            value format, generation, runs
    tail    format, generation, blocks, runs, distance from the end of the last run to the lane's end (source, target)

Varints are Kafka's (zigzag). A gap is the distance from the end of one run to the start of the next. All blocks of a
lane are on one partition, the one that the lane's position key hashes to. The format is one byte; `core/formats.py` has
the version rule. MM2 reads the first fields of a sync and ignores the rest (its `Schema.read`).
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from engine.base.unreadable import UNREADABLE
from engine.core.formats import check_format
from engine.core.offset_map.map_runs import MapBlock, MapHead, MapRun, check_runs
from engine.wire.varint import read_varint, write_varint
from policies.model import TopicPartition

FORMAT_VERSION = 1
_KIND = "raymirror-map"
_BEFORE_NUMBER = b'["raymirror-map",{"block":'
"""The first bytes of every block's key: the members of a key and their order never change."""


class BlockPlace(NamedTuple):
    """The source and target offset of a block's first record, and the offset of the block itself on the map topic."""

    source: int
    target: int
    at: int


def map_topic(source: str) -> str:
    """Return the name of the map topic for flows from a source; the topic is on their target."""
    return f"raymirror-map.{source}.internal"


def encode_runs(runs: Sequence[MapRun]) -> bytes:
    """Encode runs with gaps instead of offsets: three bytes for most runs."""
    out = [write_varint(len(runs))]
    source = target = 0
    for run in runs:
        out += (write_varint(run.source - source), write_varint(run.target - target), write_varint(run.count))
        source, target = run.source + run.count, run.target + run.count
    return b"".join(out)


def _decode_runs(data: bytes, at: int) -> tuple[tuple[MapRun, ...], int]:
    """Return the runs at `at` and the index after them. Raises ValueError, IndexError."""
    number, at = read_varint(data, at)
    runs: list[MapRun] = []
    source = target = 0
    for _ in range(number):
        gap, at = read_varint(data, at)
        other, at = read_varint(data, at)
        count, at = read_varint(data, at)
        runs.append(MapRun(source + gap, target + other, count))
        source, target = source + gap + count, target + other + count
    check_runs(runs)
    return tuple(runs), at


def runs_text(runs: Sequence[MapRun]) -> str:
    """Encode runs for a JSON field; empty for none."""
    return b64encode(encode_runs(runs)).decode() if runs else ""


def read_runs_text(text: str) -> tuple[MapRun, ...]:
    """Decode what `runs_text` made. Raises ValueError for anything else."""
    try:
        return _decode_runs(b64decode(text, validate=True), 0)[0] if text else ()
    except IndexError:
        raise ValueError("runs end early") from None


def block_key(source_alias: str, lane: TopicPartition, number: int) -> bytes:
    """Encode the key of a block: members and their order never change."""
    where = {"block": number, "cluster": source_alias, "partition": lane.partition, "topic": lane.topic}
    return msgspec.json.encode([_KIND, where])


def lane_key(source_alias: str, lane: TopicPartition) -> bytes:
    """Return the common ending of all block keys of a lane, as `split_key` returns it."""
    return block_key(source_alias, lane, 0)[len(_BEFORE_NUMBER) + 1 :]


def split_key(key: bytes | None) -> tuple[bytes, int] | None:
    """Return (`lane_key`, number) of a block's key without decoding it; None for any other key.

    Most blocks that a lane reads belong to other lanes, so their keys are not decoded.
    """
    if key is None or not key.startswith(_BEFORE_NUMBER):
        return None
    end = key.find(b",", len(_BEFORE_NUMBER))
    number = key[len(_BEFORE_NUMBER) : end]
    return (key[end:], int(number)) if number.isdigit() else None


class _Where(msgspec.Struct):
    block: int
    cluster: str
    partition: int
    topic: str


def read_block_key(key: bytes | None) -> tuple[str, TopicPartition, int] | None:
    """Return (source alias, lane, number) of a block's key, None for any other."""
    try:
        kind, where = msgspec.json.decode(key or b"", type=tuple[str, _Where])
    except UNREADABLE:
        return None
    if kind != _KIND or where.block < 0:
        return None
    return where.cluster, TopicPartition(where.topic, where.partition), where.block


def encode_block(block: MapBlock) -> bytes:
    """Encode the value of a block's record."""
    return bytes((FORMAT_VERSION,)) + write_varint(block.generation) + encode_runs(block.runs)


def decode_block(number: int, value: bytes, where: str = "") -> MapBlock:
    """Decode a block's record. Raises NewerFormat naming `where`; ValueError for bytes that are not a block."""
    try:
        check_format(value[0], FORMAT_VERSION, where)
        generation, at = read_varint(value, 1)
        runs, _ = _decode_runs(value, at)
    except IndexError:
        raise ValueError("the block ends early") from None
    return MapBlock(number, generation, runs)


def read_place(value: bytes, at: int, where: str = "") -> BlockPlace:
    """Read the start of a block without its further runs; `at`: the block's own offset. Raises as `decode_block`."""
    try:
        check_format(value[0], FORMAT_VERSION, where)
        _generation, index = read_varint(value, 1)
        runs, index = read_varint(value, index)
        source, index = read_varint(value, index)
        target, _ = read_varint(value, index)
    except IndexError:
        raise ValueError("the block ends early") from None
    if runs <= 0 or source < 0 or target < 0:
        raise ValueError("a block without runs, or at a negative offset")
    return BlockPlace(source, target, at)


def encode_tail(head: MapHead) -> bytes:
    """Encode the bytes after MM2's fields in an offset sync; together with the blocks it is the whole map."""
    source, target, count = head.runs[-1] if head.runs else (0, 0, 0)
    return b"".join(
        (
            bytes((FORMAT_VERSION,)),
            write_varint(head.generation),
            write_varint(head.blocks),
            encode_runs(head.runs),
            write_varint(head.source_next - source - count),
            write_varint(head.target_next - target - count),
        )
    )


def decode_tail(data: bytes, where: str = "") -> MapHead | None:
    """Decode the bytes after MM2's fields in an offset sync; None if there are none, because MM2 wrote the sync.

    Raises NewerFormat naming `where`; ValueError for bytes that are not a tail.
    """
    if not data:
        return None
    try:
        check_format(data[0], FORMAT_VERSION, where)
        generation, at = read_varint(data, 1)
        blocks, at = read_varint(data, at)
        runs, at = _decode_runs(data, at)
        source_more, at = read_varint(data, at)
        target_more, at = read_varint(data, at)
    except IndexError:
        raise ValueError("the tail ends early") from None
    source, target, count = runs[-1] if runs else (0, 0, 0)
    return MapHead(generation, blocks, source + count + source_more, target + count + target_more, runs)
