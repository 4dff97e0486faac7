"""Fetched bytes become queued batches of a lane."""

import msgspec
import pytest

from engine.base.errors import BatchTooLarge, CorruptBatch
from engine.core.lane import intake
from engine.core.lane.intake import LongWork, Work, queue, sift, sift_all, stamp, work_for
from engine.core.lane.stretch_intake import take_in_stretches
from engine.wire.batch import Verdict, read_header
from engine.wire.codecs import GZIP, NONE, ZSTD
from engine.wire.encode import seal, write_area
from engine.wire.record import Record
from tests.fakes.source_log import LEADER_EPOCH
from tests.unit.engine.core.lanes import Played, Shares


def test_a_clean_batch_passes_within_the_receive_buffer() -> None:
    played = Played()
    played.feed(3)
    assert played.leased == 1
    (piece,) = played.send()
    assert isinstance(piece.payload, memoryview)
    header = read_header(piece.payload, 0)
    assert (header.base_offset, header.producer_id, header.producer_epoch, header.base_sequence) == (0, 41, 3, 0)


def test_a_stamped_batch_keeps_its_bytes() -> None:
    played = Played()
    played.feed(3)
    (piece,) = played.send()
    before = bytes(piece.payload)
    stamp(piece, 99, 9)
    assert bytes(piece.payload) == before


@pytest.mark.parametrize("sequence", [2**31 - 1, 2**31, 2**31 + 5])
def test_sequences_wrap_on_the_wire(sequence: int) -> None:
    played = Played()
    played.feed(3)
    piece = played.lane.next_append()
    assert piece is not None
    piece.sequence = sequence
    stamp(piece, 41, 3)
    assert read_header(piece.payload, 0).base_sequence == sequence % 2**31


def test_a_batch_with_holes_is_written_anew_and_pins_nothing() -> None:
    played = Played()
    played.source.data(5, holes=frozenset({1, 4}))
    played.take()
    assert (played.lane.reencoded, played.leased, played.lane.fetch_offset) == (1, 0, 5)
    assert played.lane.position.runs == ((0, 0), (1, 2))


def test_a_batch_above_the_targets_limit_is_cut() -> None:
    played = Played()
    played.source.data(6)
    played.take(max_batch_bytes=90)
    assert len(played.send()) > 1


def test_a_fetch_that_begins_in_mid_batch_takes_the_rest_of_it() -> None:
    played = Played()
    played.source.data(4)
    played.lane.skip_to(2)
    played.take()
    assert played.lane.position.runs == ((0, 2),)
    assert played.lane.fetch_offset == 4


def test_a_batch_without_any_record_left_is_skipped() -> None:
    played = Played()
    played.source.data(4)
    played.source.compact(3)
    played.lane.skip_to(3)
    played.take()
    assert (played.lane.source_next, played.lane.idle) == (4, True)


def test_markers_aborted_and_emptied_batches_are_skipped() -> None:
    played = Played()
    played.source.aborted_data(2, 7)
    played.source.data(2, holes=frozenset({0, 1}))
    played.take()
    assert played.lane.source_leader_epoch == LEADER_EPOCH
    assert (played.lane.source_next, played.lane.skipped, played.lane.idle) == (5, 3, True)


def test_batches_before_the_wanted_offset_move_nothing() -> None:
    played = Played()
    played.source.data(2)
    fetched, _ = played.source.fetch(0, 1)
    played.lane.skip_to(2)
    buffer = bytearray(fetched)
    take_in_stretches(
        played.lane,
        work_for(played.lane, memoryview(buffer), 0, len(buffer), aborted=[], max_batch_bytes=1 << 20),
        Shares(),
    )
    assert (played.lane.fetch_offset, played.lane.idle, played.lane.skipped) == (2, True, 1)


def test_a_corrupt_batch_is_not_queued_and_what_stood_before_it_is() -> None:
    played = Played()
    played.source.data(2)
    played.source.data(2)
    fetched, _ = played.source.fetch(0, 2)
    buffer = bytearray(fetched)
    buffer[-1] ^= 1
    with pytest.raises(CorruptBatch):
        take_in_stretches(
            played.lane,
            work_for(played.lane, memoryview(buffer), 0, len(buffer), aborted=[], max_batch_bytes=1 << 20),
            Shares(),
        )
    assert played.lane.fetch_offset == 2
    assert len(played.send()) == 1


def test_no_batch_at_all_has_no_epoch() -> None:
    played = Played()
    played.take()
    assert played.lane.source_leader_epoch == -1


def _long(played: Played) -> tuple[memoryview, Work, LongWork, Shares]:
    """Take in a batch that passes, an aborted one with its marker, a long one, and what follows."""
    played.source.data(2)
    played.source.aborted_data(2, 7)
    played.source.data(9, holes=frozenset({3}), producer_id=7)
    played.source.data(2)
    fetched, aborted = played.source.fetch(0, 100)
    view, shares = memoryview(bytearray(fetched)), Shares()
    played.shares.append(shares)
    work = work_for(played.lane, view, 0, len(view), aborted=aborted, max_batch_bytes=1 << 20)
    with pytest.raises(LongWork) as caught:
        take_in_stretches(played.lane, work, shares)
    return view, work, caught.value, shares


def test_long_work_goes_on_behind_what_was_queued_and_perhaps_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "LONG_RECORDS", 7)
    played = Played()
    _, work, long, shares = _long(played)
    assert played.lane.fetch_offset == 5
    (sent,) = played.send()
    assert read_header(sent.payload, 0).base_sequence == 0, "its bytes are ours by now"
    sifted = sift_all(work.behind(long.at, played.lane.fetch_offset))
    assert sifted.error is None
    queue(played.lane, work, sifted.steps, shares)
    assert played.lane.source_leader_epoch == LEADER_EPOCH
    assert played.lane.position.runs == ((0, 0), (2, 5), (5, 9)), "the transaction that was rolled back is over"
    assert played.lane.fetch_offset == played.source.end


def test_a_batch_that_inflates_beyond_what_is_quick_is_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "LONG_BYTES", 20)
    played, shares = Played(), Shares()
    area = write_area([Record(0, 0, b"key", b"v" * 90), Record(1, 0, b"key", b"v" * 90)], [0, 1], 0)
    payload = seal(area, GZIP, 2, 0, 0)
    view = memoryview(payload)
    for limit in (300, 30):
        played.lane.rewind()
        assert played.lane.fetch_offset == 0
        work = work_for(
            played.lane, view, 0, len(view), aborted=[], max_batch_bytes=len(payload) - 1, inflated_bytes=limit
        )
        with pytest.raises(LongWork) as caught:
            take_in_stretches(played.lane, work, shares)
        assert caught.value.at == 0
        sifted = sift_all(work)
        assert (len(sifted.steps), sifted.error is None) == ((1, True) if limit == 300 else (0, False))
    assert isinstance(sifted.error, BatchTooLarge)
    assert "gzip: more than 30 bytes" in str(sifted.error)
    small = work_for(played.lane, view, 0, len(view), aborted=[], max_batch_bytes=1, inflated_bytes=10)
    with pytest.raises(BatchTooLarge):
        take_in_stretches(played.lane, small, shares)


def test_every_batch_gets_the_wished_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    played, shares = Played(), Shares()
    area = write_area([Record(0, 0, b"key", b"v" * 90)], [0], 0)
    payload = seal(area, NONE, 1, 0, 0)
    view = memoryview(payload)
    take_in_stretches(
        played.lane, work_for(played.lane, view, 0, len(view), aborted=[], max_batch_bytes=1 << 20, codec=ZSTD), shares
    )
    (sent,) = played.send()
    assert (sent.codec, read_header(sent.payload, 0).codec) == (ZSTD, ZSTD)
    assert played.lane.fetch_offset == 1

    monkeypatch.setattr(intake, "LONG_CODED_BYTES", 20)
    played.lane.rewind()
    coded = seal(area, GZIP, 1, 0, 0)
    work = work_for(played.lane, memoryview(coded), 0, len(coded), aborted=[], max_batch_bytes=1 << 20, codec=ZSTD)
    with pytest.raises(LongWork):
        next(sift(msgspec.structs.replace(work, wanted=0), at_length=False))
    ((_, _, verdict, pieces),) = sift_all(msgspec.structs.replace(work, wanted=0)).steps
    assert (verdict, read_header(pieces[0].payload, 0).codec) == (Verdict.REENCODE, ZSTD)
