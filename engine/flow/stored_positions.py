"""Positions as they are stored, whoever wrote them."""

from collections.abc import Iterable
from enum import Enum

import msgspec

from engine.core.position import ForeignPosition, Position, decode_key, decode_value
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


async def stored_positions(target: Cluster, topic: str, source_alias: str) -> dict[TopicPartition, Stored]:
    """Read every position of a source; nothing where the topic is not there yet.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal.
    """
    if not await target.leaders([TopicPartition(topic, 0)]):
        return {}
    return decode_positions(await target.read_records(topic), source_alias)


def decode_positions(
    records: Iterable[tuple[bytes | None, bytes | None]], source_alias: str
) -> dict[TopicPartition, Stored]:
    """Decode the positions of a source among the records (key, value) of their topic; the last one of a lane wins."""
    found: dict[TopicPartition, Stored] = {}
    for key, value in records:
        decoded = decode_key(key) if key is not None else None
        if decoded is not None and decoded[0] == source_alias:
            try:
                found[decoded[1]] = decode_value(value)
            except ValueError as error:
                found[decoded[1]] = Unreadable(reason=str(error))
    return found
