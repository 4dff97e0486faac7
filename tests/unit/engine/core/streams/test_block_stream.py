"""When blocks of a lane's map are written, the meaning of answers, and what delays the lane until then."""

import pytest

from engine.core.events.events import LaneRefused
from engine.core.lane.actions import Fail, Reacquire, Retry, WriteAllowed, WriteDenied
from engine.core.lane.outcome import Outcome
from engine.core.lane.pending_batch import Limits
from engine.core.lane.states import State
from engine.core.offset_map import map_runs
from engine.core.offset_map.map_blocks import decode_block, read_block_key
from engine.core.streams.block_stream import BlockStream, BlockWrite
from engine.wire.batch import read_header
from engine.wire.records import decode_records
from tests.unit.engine.core.lanes import NAME, K, Played
from tests.unit.engine.core.maps import records_of

APPENDED = Outcome(K.APPENDED, 7)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 2)


def begun(limits: Limits | None = None) -> tuple[Played, BlockStream]:
    played = Played(limits=limits)
    stream = BlockStream(played.lane, lambda: 1234)
    stream.begin()
    return played, stream


def copy(played: Played, runs: int) -> None:
    """Copy so many runs: batches of two records with a hole between them."""
    for _ in range(runs):
        played.source.data(2)
        played.source.vanish(1)
    played.take()
    played.durable()
    while pieces := played.send():
        for piece in pieces:
            played.answer(piece, K.APPENDED, played.lane.target_next)


def written(stream: BlockStream) -> BlockWrite:
    write = stream.next_write()
    assert write is not None
    return write


def test_full_blocks_are_written_together_as_the_lanes_own_producer() -> None:
    played, stream = begun()
    copy(played, 2)
    assert not stream.due  # the second run may still grow
    assert stream.next_write() is None
    copy(played, 3)
    before = played.lane.position
    write = written(stream)
    header = read_header(write.payload, 0)
    found = decode_records(write.payload, 0, header, "map", 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, len(found)) == (41, 3, 0, 2)
    assert [read_block_key(record.key) for record in found] == [("A", NAME.source, 0), ("A", NAME.source, 1)]
    blocks = [decode_block(number, record.value or b"") for number, record in enumerate(found)]
    assert sum((block.runs for block in blocks), ()) == before.map_tail[:4]
    assert stream.writing
    assert stream.next_write() is None


def test_a_position_counts_a_block_when_it_is_durable() -> None:
    played, stream = begun()
    copy(played, 5)
    write = written(stream)
    assert (played.lane.position.map_blocks, len(played.lane.position.map_tail)) == (0, 5)
    assert stream.on_outcome(write, APPENDED) is None
    assert (played.lane.position.map_blocks, len(played.lane.position.map_tail)) == (2, 1)
    copy(played, 2)
    assert read_header(written(stream).payload, 0).base_sequence == 2


def test_blocks_of_very_many_runs_go_in_batches_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 128)
    played, stream = begun()
    copy(played, 1)
    known = played.lane.map
    assert known is not None
    at = 2**40
    for index in range(128 * 700):  # large gaps of many sizes: what a takeover may find
        at += 2**33 + index * 7919 % 100_003
        known.append(at, at, 1)
    counts = list[int]()
    while stream.due:
        write = written(stream)
        assert len(write.payload) < 300 * 1024
        counts.append(write.record_count)
        stream.on_outcome(write, APPENDED)
    assert len(counts) > 1
    assert sum(counts) == known.blocks == 700


def test_what_is_copied_while_a_block_is_written_stays() -> None:
    played, stream = begun()
    copy(played, 3)
    write = written(stream)
    copy(played, 3)
    whole = records_of(played.lane.position.map_tail)
    stream.on_outcome(write, APPENDED)
    left = records_of(played.lane.position.map_tail)
    assert (played.lane.position.map_blocks, stream.due) == (1, True)
    assert left == {source: target for source, target in whole.items() if source >= 6}


def test_a_write_of_unknown_outcome_goes_out_again_as_it_was() -> None:
    played, stream = begun()
    copy(played, 3)
    write = written(stream)
    assert stream.on_outcome(write, Outcome(K.UNKNOWN)) == Retry(1)
    stream.on_retry()
    assert written(stream) is write
    assert stream.on_outcome(write, Outcome(K.ORDER, error_code=46)) is None
    assert played.lane.position.map_blocks == 1


def test_a_fenced_write_means_that_the_lane_is_lost() -> None:
    played, stream = begun()
    copy(played, 3)
    assert stream.on_outcome(written(stream), Outcome(K.FENCED, message="47")) == Reacquire(
        "offset map: 47", fenced=True
    )


def test_a_refused_block_stops_the_lane_and_names_the_topic() -> None:
    played, stream = begun()
    copy(played, 3)
    action = stream.on_outcome(written(stream), Outcome(K.REFUSED, error_code=42, message="not so"))
    assert isinstance(action, Fail)
    assert isinstance(action.event, LaneRefused)
    assert "raymirror-map.A.internal refused a block" in action.event.text()
    assert played.lane.state is State.FAILED


def test_blocks_that_may_not_be_written_wait_and_hold_back_a_lane_of_many_runs() -> None:
    played, stream = begun(Limits(max_map_runs=4))
    copy(played, 4)
    write = written(stream)
    denied = Outcome(K.REFUSED, error_code=29, message="no right")
    assert stream.on_outcome(write, denied) == WriteDenied("offset map", 1, 29, "no right")
    assert played.lane.state is State.COPYING
    assert not played.lane.wants_fetch
    stream.ask_again(1)
    assert stream.next_write() is write
    assert stream.on_outcome(write, APPENDED) == WriteAllowed("offset map")
    assert played.lane.wants_fetch


def test_too_many_runs_that_are_in_no_block_hold_the_lane_back() -> None:
    played, stream = begun(Limits(max_map_runs=4))
    copy(played, 3)
    assert played.lane.wants_fetch
    copy(played, 1)
    assert not played.lane.wants_fetch
    stream.on_outcome(written(stream), APPENDED)
    assert played.lane.wants_fetch


def test_a_lane_without_an_owner_has_no_map() -> None:
    played, stream = begun()
    copy(played, 3)
    played.lane.disown()
    assert stream.next_write() is None
    assert BlockStream(Played().lane.__class__(played.lane.flow, NAME), lambda: 0).due is False


def test_blocks_that_retention_made_useless_are_removed_behind_those_that_are_full() -> None:
    played, stream = begun()
    copy(played, 5)
    known = played.lane.map
    assert known is not None
    known.to_remove = [7, 8]
    full = written(stream)
    assert (full.record_count, full.removed) == (2, 0)
    stream.on_outcome(full, APPENDED)
    version = played.lane.position_version
    write = written(stream)
    known.to_remove.append(9)
    found = decode_records(write.payload, 0, read_header(write.payload, 0), "map", 0)
    assert [(read_block_key(one.key), one.value) for one in found] == [
        (("A", NAME.source, number), None) for number in (7, 8)
    ]
    stream.on_outcome(write, APPENDED)
    assert known.to_remove == [9]
    assert (known.blocks, played.lane.position_version) == (2, version)
    assert stream.due
    assert read_header(written(stream).payload, 0).base_sequence == 4
