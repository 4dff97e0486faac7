"""When a lane's position is written, what is announced instead, and the meaning of answers."""

import json

import pytest

from engine.core.events.events import PositionRefused
from engine.core.lane.actions import Fail, Reacquire, Retry, WriteAllowed, WriteDenied
from engine.core.lane.outcome import Outcome
from engine.core.lane.states import State
from engine.core.position.announced_runs import Announcement, decode_announcement, lane_keys
from engine.core.position.position import Position, decode_value
from engine.core.position.position_keys import PositionKeys
from engine.core.streams import position_stream
from engine.core.streams.position_stream import PositionStream, PositionWrite
from engine.wire.batch import read_header
from engine.wire.record import Record
from engine.wire.records import decode_records
from tests.fakes.source_log import COMMIT
from tests.unit.engine.core.lanes import NAME, K, Played, start

KEY = PositionKeys("A").encode(NAME.source)
APPENDED = Outcome(K.APPENDED, 7)


def begun() -> tuple[Played, PositionStream]:
    played = Played(durable=False)
    stream = PositionStream(played.lane, KEY, lambda: 1234)
    stream.begin()
    return played, stream


def written(stream: PositionStream) -> PositionWrite:
    write = stream.next_write()
    assert write is not None
    return write


def sequence(write: PositionWrite) -> int:
    return read_header(write.payload, 0).base_sequence


def test_the_first_position_is_written_at_once_as_the_lanes_own_producer() -> None:
    played, stream = begun()
    write = written(stream)
    header = read_header(write.payload, 0)
    (record,) = decode_records(write.payload, 0, header, "positions", 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (41, 3, 0)
    assert (record.key, record.timestamp) == (KEY, 1234)
    assert decode_value(record.value) == played.lane.position
    assert played.lane.position.map_start == start().map_start
    assert stream.next_write() is None
    assert not stream.settled
    version = played.lane.position_version
    assert not stream.is_durable(version)
    assert stream.on_outcome(write, APPENDED) is None
    assert stream.settled
    assert stream.is_durable(version)
    assert not stream.is_durable(version + 1)
    assert not played.lane.plan_needed


def test_a_position_is_written_when_it_is_asked_for_and_has_moved() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    stream.flush_asked = True
    assert stream.next_write() is None
    played.feed(2)
    (piece,) = played.send()
    played.answer(piece, K.APPENDED, 50)
    assert stream.records_behind == 2
    assert not stream.writing
    write = written(stream)
    assert stream.writing
    assert sequence(write) == 1
    assert not stream.flush_asked
    stream.on_outcome(write, APPENDED)
    assert stream.records_behind == 0


def test_a_break_asks_for_a_position_by_itself() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    played.source.vanish(2)
    played.feed(1)
    assert played.send() == []
    stream.on_outcome(written(stream), APPENDED)
    assert len(played.send()) == 1


def transaction(played: Played, records: int = 2) -> None:
    """Fetch a transaction with its marker, and copy it as far as runs are durable."""
    played.source.data(records, producer_id=7)
    played.source.marker(7, COMMIT)
    played.take()


def appended(played: Played) -> int:
    """Append what may be; return how many batches."""
    pieces = played.send()
    for piece in pieces:
        played.answer(piece, K.APPENDED, played.lane.target_next)
    return len(pieces)


def record_of(write: PositionWrite) -> Record:
    (record,) = decode_records(write.payload, 0, read_header(write.payload, 0), "positions", 0)
    return record


def version_of(write: PositionWrite) -> int:
    return int(json.loads(record_of(write).value or b"")["raymirror"])


def irregular(played: Played, stream: PositionStream) -> list[PositionWrite]:
    """Copy transactions of different sizes one by one, until runs are announced; return all writes."""
    writes = []
    for records in (2, 3, 1, 4, 2):
        transaction(played, records)
        while not appended(played):
            writes.append(written(stream))
            assert stream.on_outcome(writes[-1], APPENDED) is None
    return writes


def test_one_announcement_lets_two_transactions_go() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    position, announcement = irregular(played, stream)
    assert not position.announces
    found = decode_value(record_of(position).value)
    assert isinstance(found, Position)
    assert (found.run_version, found.runs) == (3, ((2, 3), (5, 7))), "the second run, and the start of the third"
    assert version_of(position) == 4
    told = record_of(announcement)
    assert told.key == lane_keys(KEY).encode(0)
    assert told.value is not None
    assert decode_announcement(told.value) == Announcement(
        producer_id=41, producer_epoch=3, base=3, runs=((6, 9), (10, 14))
    )
    assert read_header(announcement.payload, 0).base_sequence == 2
    assert not stream.settled, "an announcement moves no position"


def test_a_flush_writes_a_whole_position_and_frees_the_slots() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    irregular(played, stream)
    stream.flush_asked = True
    flushed = written(stream)
    assert not flushed.announces
    stream.on_outcome(flushed, APPENDED)
    assert stream.settled
    keys = []
    for records in (3, 1, 4, 2, 5):
        transaction(played, records)
        while not appended(played):
            keys.append(record_of(write := written(stream)).key)
            stream.on_outcome(write, APPENDED)
    assert keys == [lane_keys(KEY).encode(slot) for slot in range(len(keys))]
    assert len(keys) in (2, 3)


def test_after_many_announcements_a_whole_position_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_stream, "_MOST_SLOTS", 2)
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    kinds = []
    for records in (2, 3, 1, 4, 2, 3, 5, 1, 3, 2, 4, 3):
        transaction(played, records)
        while not appended(played):
            kinds.append((write := written(stream)).announces)
            stream.on_outcome(write, APPENDED)
    assert kinds == [False, True, True, False, True, True]


def test_transactions_of_one_size_need_no_announcements_in_the_end() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    writes = 0
    for _ in range(200):
        transaction(played)
        while not appended(played):
            stream.on_outcome(written(stream), APPENDED)
            writes += 1
    assert writes == 4


def test_where_runs_begin_seldom_positions_stay_readable_for_earlier_versions() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    transaction(played)
    appended(played)
    stream.flush_asked = True
    stream.on_outcome(write := written(stream), APPENDED)
    assert version_of(write) == 4, "a run begins with the next record"
    played.feed(3)
    assert appended(played)
    stream.flush_asked = True
    stream.on_outcome(write := written(stream), APPENDED)
    assert version_of(write) == 2


@pytest.mark.parametrize("rests", ["draining", "paused"])
def test_a_lane_at_rest_has_a_position_for_earlier_versions(rests: str) -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    irregular(played, stream)
    stream.flush_asked = True
    stream.on_outcome(write := written(stream), APPENDED)
    assert version_of(write) == 4
    assert stream.settled
    setattr(played.lane, rests, True)
    stream.flush_asked = True
    assert not stream.settled
    stream.on_outcome(write := written(stream), APPENDED)
    assert version_of(write) == 2
    assert stream.settled
    assert stream.next_write() is None


def test_a_position_that_moved_while_it_was_written_is_not_settled() -> None:
    played, stream = begun()
    write = written(stream)
    played.lane.skip_to(3)
    stream.on_outcome(write, APPENDED)
    assert not stream.settled


@pytest.mark.parametrize("kind", [K.RETRY, K.UNKNOWN])
def test_an_unanswered_position_goes_out_again_byte_for_byte(kind: K) -> None:
    _, stream = begun()
    write = written(stream)
    for attempt in (1, 2):
        assert stream.on_outcome(write, Outcome(kind)) == Retry(attempt)
        assert stream.next_write() is None
        stream.on_retry()
        assert stream.next_write() is write
    stream.on_outcome(write, APPENDED)
    stream.on_retry()
    assert stream.next_write() is None


def test_a_duplicate_is_durable() -> None:
    _, stream = begun()
    assert stream.on_outcome(written(stream), Outcome(K.ORDER, error_code=46)) is None
    assert stream.settled


@pytest.mark.parametrize("kind", [K.FENCED, K.ORDER])
def test_a_fenced_position_asks_for_the_owner(kind: K) -> None:
    _, stream = begun()
    action = stream.on_outcome(written(stream), Outcome(kind, error_code=47, message="old epoch"))
    assert action == Reacquire("position: old epoch", fenced=kind is K.FENCED)


@pytest.mark.parametrize(("message", "reason"), [("not so", "not so"), ("", "refused")])
def test_a_refused_position_fails_the_lane(message: str, reason: str) -> None:
    played, stream = begun()
    action = stream.on_outcome(written(stream), Outcome(K.REFUSED, error_code=42, message=message))
    assert isinstance(action, Fail)
    assert isinstance(action.event, PositionRefused)
    assert (action.event.error_code, action.event.reason) == (42, reason)
    assert played.lane.state is State.FAILED


@pytest.mark.parametrize("code", [29, 30, 31, 53])
def test_a_position_that_may_not_be_written_waits_and_holds_back_what_needs_it(code: int) -> None:
    played, stream = begun()
    write = written(stream)
    denied = Outcome(K.REFUSED, error_code=code, message="no right")
    played.feed(2)
    for attempt in (1, 2):
        assert stream.on_outcome(write, denied) == WriteDenied("position", attempt, code, "no right")
        assert stream.denied
        assert played.send() == []
        stream.on_retry()  # for something else, which must not make it ask oftener
        stream.ask_again(attempt - 1)
        assert stream.next_write() is None
        stream.ask_again(attempt)
        assert stream.next_write() is write
        stream.ask_again(attempt)  # it is on its way
        assert stream.next_write() is None
    assert stream.on_outcome(write, APPENDED) == WriteAllowed("position")
    assert not stream.denied
    assert len(played.send()) == 1
    assert played.lane.state is State.COPYING


def test_what_waits_for_a_right_is_forgotten_with_its_epoch() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), Outcome(K.REFUSED, error_code=29))
    stream.begin()
    stream.ask_again(1)
    write = written(stream)
    assert sequence(write) == 0
    assert stream.next_write() is None
    assert stream.on_outcome(write, APPENDED) == WriteAllowed("position")
    assert not played.lane.plan_needed


@pytest.mark.parametrize("end", ["fail", "stop", "disown"])
def test_a_refused_position_of_a_lane_that_is_gone_changes_nothing(end: str) -> None:
    played, stream = begun()
    write = written(stream)
    getattr(played.lane, end)()
    before = played.lane.state
    assert stream.on_outcome(write, Outcome(K.TOO_LARGE, error_code=10)) is None
    assert played.lane.state is before
    assert stream.next_write() is None


def test_an_answer_for_a_write_of_a_former_epoch_is_ignored() -> None:
    played, stream = begun()
    late = written(stream)
    stream.begin()
    assert stream.on_outcome(late, APPENDED) is None
    assert played.lane.plan_needed
    assert sequence(written(stream)) == 0


def test_others_may_be_told_of_what_is_acknowledged() -> None:
    played, stream = begun()
    played.feed(2)
    assert stream.told_version == played.lane.position_version
    assert stream.told_head() == played.lane.position.map_head
    played.lane.map = None
    assert stream.told_head() is None


def test_a_position_lies_in_no_receive_buffer() -> None:
    write = written(begun()[1])
    payload = write.payload
    write.detach()
    assert write.payload is payload
    assert write.lease is None


def test_a_paused_lane_asks_for_its_position_when_it_is_done() -> None:
    played, stream = begun()
    stream.on_outcome(written(stream), APPENDED)
    played.feed(5)
    (sent,) = played.send()
    played.lane.paused = True
    assert not stream.due, "something is in flight"
    played.answer(sent, K.APPENDED, 50)
    assert stream.due
    stream.on_outcome(written(stream), APPENDED)
    assert not stream.due
    assert stream.settled
