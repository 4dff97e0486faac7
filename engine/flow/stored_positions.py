"""Positions as they are stored, whoever wrote them."""

from collections.abc import Callable, Iterable
from enum import Enum

import msgspec

from engine.core.position import ForeignPosition, Position, decode_value
from engine.core.position_keys import PositionKeys
from engine.flow.ports import Cluster
from policies.model import TopicPartition


class Unreadable(msgspec.Struct, frozen=True):
    """A stored position that we must not touch."""

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
        case Position():
            return Writer.OURS
        case ForeignPosition():
            return Writer.MM2
        case Unreadable():
            return Writer.UNREADABLE
        case None:
            return Writer.NONE


class PositionsFound(msgspec.Struct, frozen=True):
    """What a positions topic holds of a source: under our name, and which lanes under other connectors' names."""

    lanes: dict[TopicPartition, Stored] = {}
    others: dict[str, set[TopicPartition]] = {}

    def kept_elsewhere(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Return the connectors that have positions of wanted topics where none is kept under our name."""
        if any(wanted(lane.topic) for lane in self.lanes):
            return ()
        return tuple(sorted(name for name, lanes in self.others.items() if any(wanted(lane.topic) for lane in lanes)))


async def stored_positions(target: Cluster, topic: str, keys: PositionKeys) -> PositionsFound:
    """Read every position of a source; nothing where the topic is not there yet.

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
    found: dict[TopicPartition, Stored] = {}
    seen: set[bytes | None] = set()
    for key, value in reversed(list(records)):
        if key in seen:
            continue  # of thousands, most have been overtaken: they are not opened
        seen.add(key)
        lane = keys.decode(key)
        if lane is not None and lane not in found:
            try:
                found[lane] = decode_value(value)
            except ValueError as error:
                found[lane] = Unreadable(reason=str(error))
    return found
