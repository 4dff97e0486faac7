"""Which groups have moved is followed in the state topic: what is new, and all of it now and then."""

from typing import Literal

import pytest

from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import EARLIEST
from engine.flow.topic_logs import followed_moves
from engine.flow.topic_logs.followed_moves import FollowedMoves
from engine.state.state import MOVE_SCOPE, Key, MovedGroup, StateCodec, Value, moved_key, state_topic
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster

FLOW = FlowName("A", "B")
TOPIC = state_topic("A")


class Board:
    """The state topic, a reader of its moves, and their clocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.now_s = FakeCluster("B"), 1000.0
        self.groups = FollowedMoves(self.cluster, FLOW)
        monkeypatch.setattr(followed_moves, "now_s", lambda: self.now_s)
        monkeypatch.setattr(followed_moves, "wall_ms", lambda: self.wall_ms)

    @property
    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def write(self, entries: dict[Key, Value | None], *, behind_s: float = 0.0, flow: FlowName = FLOW) -> None:
        """Write entries by a clock that is so far behind."""
        log = self.cluster.targets.get(TopicPartition(TOPIC, 0)) or self.cluster.target(TOPIC)
        at_ms = self.wall_ms - int(behind_s * 1000)
        rows = StateCodec(flow, TOPIC, MOVE_SCOPE).encode(entries)
        log.append(bytes(encode_batch([Record(0, at_ms, key, value) for key, value in rows.items()], NONE)))

    def move(self, *groups: str, state: Literal["moving", "moved"] = "moved", behind_s: float = 0.0) -> None:
        """Write that groups move."""
        moved = MovedGroup(state=state, at_ms=1, who="ann", offsets=())
        self.write({moved_key(group): moved for group in groups}, behind_s=behind_s)


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board(monkeypatch)


async def test_groups_whose_move_has_ended_are_found_and_those_moved_back_are_not(board: Board) -> None:
    assert await board.groups.read() == frozenset(), "no mirror has ever had the flow"
    board.move("g", "h")
    board.move("underway", state="moving")
    board.write({moved_key("other"): MovedGroup(state="moved", at_ms=1, who="", offsets=())}, flow=FlowName("C", "B"))
    assert await board.groups.read() == frozenset(), "the last look is young"
    board.now_s += 5.0
    assert await board.groups.read() == {"g", "h"}
    board.write({moved_key("h"): None})
    board.now_s += 5.0
    assert await board.groups.read() == {"g"}


async def test_a_look_reads_only_what_is_new(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board.move("g")
    since: list[int] = []
    read = board.cluster.read_records

    async def counted(topic: str, partitions: None, since_ms: int) -> list[tuple[bytes | None, bytes | None]]:
        since.append(since_ms)
        return await read(topic, partitions, since_ms)

    monkeypatch.setattr(board.cluster, "read_records", counted)
    for _ in range(3):
        assert await board.groups.read() == {"g"}
        board.now_s += 100.0
    assert since == [EARLIEST, 940_000, 1_040_000]


async def test_a_command_whose_clock_is_far_behind_is_heard_when_all_is_read_again(board: Board) -> None:
    board.move("g")
    await board.groups.read()
    board.now_s += 100.0
    await board.groups.read()
    board.move("late", behind_s=300.0)
    board.now_s += 100.0
    await board.groups.read()
    board.now_s += 600.0
    assert await board.groups.read() == {"g", "late"}


async def test_a_broker_that_does_not_know_the_topic_makes_no_group_come_back(board: Board) -> None:
    board.move("g")
    await board.groups.read()
    board.now_s += 600.0
    kept = board.cluster.leader.pop(TopicPartition(TOPIC, 0))
    with pytest.raises(ConnectionLost, match="no leader is known"):
        await board.groups.read()
    board.cluster.leader[TopicPartition(TOPIC, 0)] = kept
    assert await board.groups.read() == {"g"}
