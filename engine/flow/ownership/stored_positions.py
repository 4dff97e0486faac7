"""Reads stored positions, written by raymirror or by MM2; keeps them with the offsets of the logs."""

from collections.abc import Callable, Iterable
from enum import Enum

import msgspec

from engine.core.position.announced_runs import (
    LaneKeys,
    Slots,
    announced_since,
    lane_keys,
    split_key,
    with_announced,
)
from engine.core.position.owning import LaneIdentity, LogEnds
from engine.core.position.position import ForeignPosition, Position, decode_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.ports.ports import Cluster
from policies.model import LaneName, TopicPartition


class Unreadable(msgspec.Struct, frozen=True):
    """A stored position that raymirror cannot read and must not overwrite."""

    reason: str


Stored = Position | ForeignPosition | Unreadable | None


class Writer(Enum):
    """Who wrote a position."""

    OURS = "raymirror"
    MM2 = "MM2"
    NONE = "none"
    UNREADABLE = "unreadable"


def writer_of(stored: Stored) -> Writer:
    """Name who wrote a position."""
    match stored:
        case Position() | ForeignPosition(altered=True):
            return Writer.OURS
        case ForeignPosition():
            return Writer.MM2
        case Unreadable():
            return Writer.UNREADABLE
        case None:
            return Writer.NONE


class PositionsFound(msgspec.Struct, frozen=True):
    """Positions of one source on a positions topic; `others`: lanes with positions under other connectors' names."""

    lanes: dict[TopicPartition, Stored] = {}
    others: dict[str, set[TopicPartition]] = {}

    def kept_elsewhere(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the connectors that have positions of wanted topics; none if this flow's connector has some too."""
        if any(wanted(lane.topic) for lane in self.lanes):
            return ()
        return tuple(sorted(name for name, lanes in self.others.items() if any(wanted(lane.topic) for lane in lanes)))


async def stored_positions(target: Cluster, topic: str, keys: PositionKeys) -> PositionsFound:
    """Read every position of a source; nothing if the topic does not exist yet.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    if not await target.leaders([TopicPartition(topic, 0)]):
        return PositionsFound()
    records = await target.read_records(topic)
    return PositionsFound(decode_positions(records, keys), keys.others(key for key, _ in records))


def decode_positions(
    records: Iterable[tuple[bytes | None, bytes | None]], keys: PositionKeys
) -> dict[TopicPartition, Stored]:
    """Decode a source's positions among the records (key, value) of their topic; the last one of a lane wins."""
    lanes: dict[bytes | None, TopicPartition | None] = {}  # each key recurs once a minute, until compaction
    last: dict[TopicPartition, bytes | None] = {}
    for key, value in records:
        lane = lanes[key] if key in lanes else lanes.setdefault(key, keys.decode(key))
        if lane is not None:
            last[lane] = value
    return {lane: _decoded(value) for lane, value in last.items()}


def resumable_positions(
    records: Iterable[tuple[bytes | None, bytes | None]], keys: PositionKeys
) -> dict[TopicPartition, Stored]:
    """Decode positions as `decode_positions` does, with the runs that were announced after them.

    Only a position with these runs names the source record of the target's tail.
    """
    pairs = list(records)
    announced: dict[LaneKeys, dict[int, tuple[int, bytes | None]]] = {}
    places: dict[bytes | None, int] = {}
    for at, (key, value) in enumerate(pairs):
        places[key] = at
        found = split_key(key)
        if found is not None:
            announced.setdefault(found[0], {})[found[1]] = at, value
    positions = decode_positions(pairs, keys)
    for lane, stored in positions.items():
        key = keys.encode(lane)
        if isinstance(stored, Position) and stored.run_version:
            positions[lane] = _with_announced(stored, places.get(key, -1), announced.get(lane_keys(key), {}))
    return positions


def _with_announced(stored: Position, place: int, slots: Slots) -> Stored:
    try:
        producer = stored.producer_id, stored.producer_epoch
        announced = announced_since(producer, stored.run_version, place, slots)
        runs, ahead = with_announced(stored.runs, stored.ahead, announced)
    except ValueError as error:
        return Unreadable(reason=str(error))
    return msgspec.structs.replace(stored, runs=runs, ahead=ahead)


def _decoded(value: bytes | None) -> Stored:
    try:
        return decode_value(value)
    except ValueError as error:
        return Unreadable(reason=str(error))


class LogOffsets(msgspec.Struct, kw_only=True):
    """Positions and log offsets of several lanes, read after their barriers if they have one."""

    stored: dict[TopicPartition, Stored] = {}
    source_starts: dict[TopicPartition, int] = {}
    source_ends: dict[TopicPartition, int] = {}
    target_starts: dict[TopicPartition, int] = {}
    target_ends: dict[TopicPartition, int] = {}
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    asked_ms: int = -1
    """When the clusters were asked (Unix ms); later changes are not in the offsets."""

    def ends_of(self, name: LaneName) -> LogEnds:
        """Return the start and end offsets of one lane's logs."""
        return LogEnds(
            source_start=self.source_starts[name.source],
            source_end=self.source_ends[name.source],
            target_start=self.target_starts[name.target],
            target_end=self.target_ends[name.target],
        )

    def identity_of(self, driver: LaneDriver) -> LaneIdentity:
        """Return the ids of topics and clusters that one lane finds now."""
        return LaneIdentity(
            source_topic_id=driver.leaders.source.topic_id,
            target_topic_id=driver.leaders.target.topic_id,
            source_cluster_id=self.source_cluster_id,
            target_cluster_id=self.target_cluster_id,
        )
