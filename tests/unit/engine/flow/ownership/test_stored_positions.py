"""The writers of positions, by the positions topic, and the runs that were announced after them."""

import msgspec
import pytest

from engine.core.position.announced_runs import Ahead, Announcement, Run, encode_announcement, lane_keys
from engine.core.position.position import ForeignPosition, Position, encode_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.ownership.stored_positions import (
    PositionsFound,
    Unreadable,
    Writer,
    decode_positions,
    resumable_positions,
    stored_positions,
    writer_of,
)
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster

TOPIC = "mm2-offsets.A.internal"
OURS = Position(
    source_next=7,
    target_next=9,
    sequence=2,
    producer_id=1,
    producer_epoch=0,
    runs=((0, 5),),
    assignment_epoch=1,
    deployment_id="d",
)


def lane(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


class Positions(FakeCluster):
    """A cluster whose positions topic holds what a test says."""

    def __init__(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        super().__init__("b")
        self.records = records
        self.target(TOPIC)

    async def read_records(self, *_args: object, **_kwargs: object) -> list[tuple[bytes | None, bytes | None]]:
        return self.records


async def test_the_last_of_each_lane_counts_and_tells_who_wrote_it() -> None:
    cluster = Positions(
        [
            (PositionKeys("A").encode(lane(0)), b'{"offset":3}'),
            (PositionKeys("A").encode(lane(0)), encode_value(OURS)),
            (PositionKeys("A").encode(lane(1)), b'{"offset":4}'),
            (PositionKeys("A").encode(lane(2)), b"nonsense"),
            (PositionKeys("A").encode(lane(3)), None),
            (PositionKeys("C").encode(lane(4)), b'{"offset":4}'),
            (b"something else", b"{}"),
            (None, b"{}"),
        ]
    )
    found = (await stored_positions(cluster, TOPIC, PositionKeys("A"))).lanes
    assert isinstance(found[lane(0)], Position)
    assert found[lane(1)] == ForeignPosition(offset=4)
    assert isinstance(found[lane(2)], Unreadable)
    assert {one.partition: writer_of(stored) for one, stored in found.items()} == {
        0: Writer.OURS,
        1: Writer.MM2,
        2: Writer.UNREADABLE,
        3: Writer.NONE,
    }


async def test_positions_that_another_connector_keeps_are_told_where_none_is_ours() -> None:
    elsewhere: list[tuple[bytes | None, bytes | None]] = [(PositionKeys("A", "dr").encode(lane(0)), b'{"offset":3}')]
    found = await stored_positions(Positions(elsewhere), TOPIC, PositionKeys("A"))
    assert found.lanes == {}
    assert found.kept_elsewhere(lambda _topic: True) == ("dr",)
    assert found.kept_elsewhere(lambda _topic: False) == ()
    both = [*elsewhere, (PositionKeys("A").encode(lane(1)), b'{"offset":3}')]
    found = await stored_positions(Positions(both), TOPIC, PositionKeys("A"))
    assert found.kept_elsewhere(lambda _topic: True) == ()


async def test_a_topic_that_is_not_there_holds_none() -> None:
    assert await stored_positions(FakeCluster("b"), TOPIC, PositionKeys("A")) == PositionsFound()


@pytest.mark.parametrize("stored", [OURS, ForeignPosition(offset=1), Unreadable(reason="x"), None])
def test_every_kind_has_a_writer(stored: Position | ForeignPosition | Unreadable | None) -> None:
    assert writer_of(stored) in Writer


KEY = PositionKeys("A").encode(lane(0))
ANNOUNCING = msgspec.structs.replace(OURS, run_version=4, ahead=Ahead(2, 3, 9))


def announced(
    slot: int, *runs: Run, base: int = 4, epoch: int = 0, ahead: Ahead | None = None
) -> tuple[bytes | None, bytes | None]:
    """The record of an announcement of lane 0."""
    one = Announcement(producer_id=1, producer_epoch=epoch, base=base, runs=runs, ahead=ahead)
    return lane_keys(KEY).encode(slot), encode_announcement(one)


def test_announced_runs_are_added_to_their_position() -> None:
    records = [
        announced(0, (99, 99), base=2),  # of an earlier position
        announced(2, (99, 99), epoch=7, base=9),  # of another owner
        (KEY, encode_value(ANNOUNCING)),
        announced(0, (5, 13)),
        announced(1, (9, 20), ahead=Ahead(1, 2, 3)),
    ]
    found = resumable_positions(records, PositionKeys("A"))[lane(0)]
    assert isinstance(found, Position)
    assert (found.runs, found.ahead) == (((0, 5), (2, 8), (4, 11), (5, 13), (9, 20)), Ahead(1, 2, 3))
    assert decode_positions(records, PositionKeys("A")) == {lane(0): ANNOUNCING}, "progress needs no announcements"


def test_a_position_that_names_all_runs_itself_takes_no_announcement() -> None:
    records = [(KEY, encode_value(OURS)), announced(0, (5, 13))]
    assert resumable_positions(records, PositionKeys("A")) == {lane(0): OURS}


@pytest.mark.parametrize(
    "wrong",
    [
        announced(1, (5, 13)),
        announced(0, (5, 13), base=5),
        (lane_keys(KEY).encode(0), b"\x01"),
        announced(0, (5, 13), epoch=7),
    ],
    ids=["one is missing", "its position is missing", "no announcement", "overwritten by another owner"],
)
def test_a_position_whose_announcements_are_not_whole_cannot_be_read(wrong: tuple[bytes | None, bytes | None]) -> None:
    found = resumable_positions([(KEY, encode_value(ANNOUNCING)), wrong], PositionKeys("A"))
    assert isinstance(found[lane(0)], Unreadable)
