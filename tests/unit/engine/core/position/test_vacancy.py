"""When a lane is taken without a barrier, and when its owner may report that it has left."""

import json

import msgspec
import pytest

from engine.core.lane.outcome import Outcome
from engine.core.position.position import Position, decode_value, encode_value
from engine.core.position.position_keys import PositionKeys
from engine.core.position.resume import ResumePoint
from engine.core.position.vacancy import RequestTrail, is_vacant, may_be_vacant, stands_as_left
from engine.core.streams.position_stream import PositionStream, PositionWrite
from engine.wire.batch import read_header
from engine.wire.records import decode_records
from tests.unit.engine.core.lanes import NAME, K, Played
from tests.unit.engine.core.positions import position

KEY = PositionKeys("A").encode(NAME.source)
LEFT = msgspec.structs.replace(position(100, 50), left=True)
"""Producer 41 left at epoch 3."""
FOUND = ResumePoint(source_next=100, target_next=50, sequence=0, how="position", tail_records=0)


def test_nobody_was_there_before_the_first_epoch_of_an_empty_target() -> None:
    assert is_vacant(None, 41, 0, 0)
    assert not is_vacant(None, 41, 1, 0)
    assert not is_vacant(None, 41, 0, 1)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "end", "vacant"),
    [
        (41, 4, 50, True),
        (41, 4, 51, True),
        (41, 4, 49, False),
        (41, 3, 50, False),
        (41, 5, 50, False),
        (42, 4, 50, False),
        (42, 0, 50, False),
    ],
)
def test_the_very_next_epoch_follows_an_owner_that_has_left(
    producer_id: int, epoch: int, end: int, vacant: bool
) -> None:
    assert is_vacant(LEFT, producer_id, epoch, end) is vacant


def test_an_owner_that_did_not_say_so_has_not_left() -> None:
    assert not may_be_vacant(position(100, 50), 50)
    assert not may_be_vacant(msgspec.structs.replace(LEFT, atomic=True), 50)
    assert may_be_vacant(None, 0)
    assert not may_be_vacant(None, 7)


@pytest.mark.parametrize(
    ("change", "stands"),
    [
        ({}, True),
        ({"tail_records": 1}, False),
        ({"foreign": ((50, 51),)}, False),
        ({"twice": (1, 2)}, False),
        ({"cut": 0}, False),
        ({"how": "tail"}, False),
        ({"source_next": 99}, False),
    ],
)
def test_logs_that_are_not_as_they_were_left_are_read_behind_a_barrier(change: dict[str, object], stands: bool) -> None:
    assert stands_as_left(LEFT, msgspec.structs.replace(FOUND, **change), 50) is stands


def test_a_first_start_finds_nothing() -> None:
    assert stands_as_left(None, msgspec.structs.replace(FOUND, how="start"), 0)
    assert not stands_as_left(None, msgspec.structs.replace(FOUND, how="start"), 1)


def test_a_position_says_it_in_a_field_that_others_ignore() -> None:
    value = encode_value(LEFT)
    assert json.loads(value)["left"] is True
    assert decode_value(value) == LEFT
    assert "left" not in json.loads(encode_value(position()))


def test_a_version_that_does_not_know_the_field_drops_it() -> None:
    class Older(msgspec.Struct, omit_defaults=True):
        offset: int
        source_next: int

    assert msgspec.json.decode(encode_value(LEFT), type=Older) == Older(99, 100)


def begun(*, alone: bool = False) -> tuple[Played, PositionStream]:
    """A lane that has copied nothing, with its first position durable."""
    played = Played(barrier_done=not alone)
    if alone:
        played = Played(barrier_done=False)
        played.lane.trail.begin(fenced=True, alone=True)
    stream = PositionStream(played.lane, KEY, lambda: 1234)
    stream.begin()
    stream.flush_asked = True
    write = stream.next_write()
    assert write is not None
    stream.on_outcome(write, Outcome(K.APPENDED, 7))
    return played, stream


def stored(write: PositionWrite | None) -> Position:
    assert write is not None
    (record,) = decode_records(write.payload, 0, read_header(write.payload, 0), "positions", 0)
    found = decode_value(record.value)
    assert isinstance(found, Position)
    return found


def test_an_owner_leaves_with_the_position_behind_its_last_answer() -> None:
    played, stream = begun()
    played.feed(3)
    (sent,) = played.send()
    played.lane.drain()
    assert stream.parting is False
    assert stream.next_write() is None
    played.answer(sent, K.APPENDED, 50)
    assert stream.parting
    write = stream.next_write()
    assert stored(write).left
    assert stream.parting
    assert write is not None
    stream.on_outcome(write, Outcome(K.APPENDED, 8))
    assert not stream.parting
    assert stream.settled


def test_whoever_has_left_sends_nothing() -> None:
    played, stream = begun()
    played.lane.drain()
    assert stored(stream.next_write()).left
    played.feed(2)
    assert played.send() == []
    stream.flush_asked = True
    assert stream.next_write() is None


def test_who_left_stays_so_when_the_answer_is_lost() -> None:
    played, stream = begun()
    played.lane.drain()
    write = stream.next_write()
    assert write is not None
    stream.on_outcome(write, Outcome(K.UNKNOWN))
    assert not stream.parting  # nobody waits for it
    stream.on_retry()
    assert stream.next_write() is write
    assert played.lane.trail.left


def test_a_write_on_its_way_is_waited_for() -> None:
    played, stream = begun()
    played.feed(1)
    (sent,) = played.send()
    played.answer(sent, K.APPENDED, 50)
    stream.flush_asked = True
    write = stream.next_write()
    assert write is not None
    assert not stored(write).left
    played.lane.drain()
    assert stream.parting
    stream.on_outcome(write, Outcome(K.APPENDED, 8))
    assert stored(stream.next_write()).left


def test_one_request_without_an_answer_and_nobody_says_that_he_has_left() -> None:
    played, stream = begun()
    played.feed(3)
    (sent,) = played.send()
    played.answer(sent, K.UNKNOWN)
    played.lane.on_retry()
    (again,) = played.send()
    played.answer(again, K.APPENDED, 50)
    played.lane.drain()
    assert not stream.parting
    stream.flush_asked = True
    assert not stored(stream.next_write()).left


@pytest.mark.parametrize(("alone", "leaves"), [(True, True), (False, False)])
def test_behind_records_that_are_too_old_a_leader_keeps_nobody_out(alone: bool, leaves: bool) -> None:
    """It forgets the epoch with them. Where a barrier was needed, that was to keep a former owner out."""
    played, stream = begun(alone=alone)
    played.lane.forgets_before_ms = 2**61
    played.feed(3)
    (sent,) = played.send()
    played.answer(sent, K.APPENDED, 50)
    played.lane.drain()
    assert stream.parting is leaves


def test_without_a_fence_nobody_leaves() -> None:
    trail = RequestTrail()
    assert not trail.may_end
    trail.begin(fenced=False, alone=False)
    assert not trail.may_end
    trail.begin(fenced=True, alone=False)
    assert trail.may_end
