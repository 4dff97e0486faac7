"""Times and sizes that a lane reports: of its queue's ends, of its last copy, of passed offsets."""

import struct

import pytest

from engine.core.lane.outcome import OutcomeKind
from engine.core.lane.pending_batch import passing_piece
from engine.wire.batch import read_header
from tests.fakes.source_log import SourceLog
from tests.unit.engine.core.lanes import Played, Shares

WRITTEN_MS = 1_700_000_000_000
"""The fake source's clock: record n carries this + n; a batch's newest timestamp is its last offset's."""


def test_the_queue_tells_its_oldest_and_its_newest_record_and_the_lane_what_it_copied_last() -> None:
    played = Played()
    lane = played.lane
    assert (lane.pieces.head_ms, lane.pieces.tail_ms, lane.newest_ms) == (-1, -1, -1)
    played.feed(3, 3)
    assert (lane.pieces.head_ms, lane.pieces.tail_ms, lane.fetched) == (WRITTEN_MS, WRITTEN_MS + 5, 6)
    first, second = played.send()
    assert (lane.pieces.head_ms, lane.pieces.tail_ms) == (WRITTEN_MS, -1)
    played.answer(first, OutcomeKind.APPENDED, 50)
    assert (lane.pieces.head_ms, lane.newest_ms) == (second.first_timestamp, WRITTEN_MS + 2)


def test_records_that_were_opened_tell_their_time_too() -> None:
    played = Played()
    played.source.data(3, holes=frozenset({1}))
    played.take()
    played.durable()
    (piece,) = played.send()
    assert isinstance(piece.payload, bytearray)
    assert (piece.first_timestamp, piece.max_timestamp) == (WRITTEN_MS, WRITTEN_MS + 2)


@pytest.mark.parametrize(
    ("bits", "base_ms", "told_ms"),
    [(0, WRITTEN_MS + 1, WRITTEN_MS + 1), (0, -1, WRITTEN_MS + 2), (0x40, WRITTEN_MS, WRITTEN_MS + 2)],
    ids=["told", "without a timestamp", "a delete horizon stands in its place"],
)
def test_a_header_without_the_first_timestamp_gives_the_newest(bits: int, base_ms: int, told_ms: int) -> None:
    source = SourceLog()
    source.data(3)
    batch = bytearray(source.fetch(0, 1)[0])
    struct.pack_into(">h", batch, 21, bits)
    struct.pack_into(">q", batch, 27, base_ms)
    piece = passing_piece(0, read_header(batch, 0), batch, Shares())
    assert piece.first_timestamp == told_ms


def test_offsets_count_everything_that_was_passed_with_records_or_without() -> None:
    played = Played()
    played.source.aborted_data(4, producer_id=7)
    played.take()
    assert (played.lane.offsets, played.lane.source_next) == (5, 5)
    played.feed(3)
    played.source.aborted_data(1, producer_id=7)
    played.take()
    played.durable()
    (piece,) = played.send()
    played.answer(piece, OutcomeKind.APPENDED, 50)
    assert (played.lane.offsets, played.lane.source_next, played.lane.records) == (10, 10, 3)
