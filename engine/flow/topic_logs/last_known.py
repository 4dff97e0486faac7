"""Reads what a target's topics hold about a flow, whether a mirror runs or not: positions with their age, stored state.

It serves commands that have neither a mirror nor a source to ask. It writes nothing.
"""

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, MirrorError, OtherCluster
from engine.core.offset_map.map_runs import MapHead
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.position_keys import PositionKeys
from engine.core.reports.drain import Ends
from engine.core.reports.progress import LaneProgress, unowned
from engine.flow.lane.those_that_answer import read_those_that_answer
from engine.flow.ownership.stored_positions import Stored, Unreadable, decode_positions
from engine.flow.ports.ports import Cluster
from engine.state.state import Key, StateCodec, Value, state_topic
from policies.model import FlowName, LaneName, TopicPartition
from policies.selection import TopicSelection

NO_MIRROR = "no mirror runs that could copy it"


class NothingKnown(MirrorError):
    """The target holds nothing that raymirror wrote for the flow: flow, positions topic, target."""

    def __init__(self, flow: str, topic: str, target: str) -> None:
        super().__init__(flow, topic, target)
        self.flow, self.topic, self.target = flow, topic, target

    def __str__(self) -> str:
        return (
            f"topic {self.topic} on cluster {self.target!r} has no position that raymirror wrote for flow {self.flow}:"
            " it was never copied under this name, or raymirror may not describe the topic; check the flow's name,"
            f" where {self.target}.bootstrap.servers leads, and that Describe and Read are granted on the topic"
        )


class KnownLane(msgspec.Struct, frozen=True, kw_only=True):
    """One source partition by its last stored position, or a later offset sync; `at_ms`: when that was written.

    `at_ms`: Unix time in ms; -1: not known. `source_next`: the next source offset. All records below it are on the
    target, and more may be; -1: not known, and `why` says why. `target_next`: the end of the copy at that time; -1: not
    known. `ours`: raymirror wrote the position, not MM2. `source_epoch`: the leader epoch of the source's records up to
    `epoch_next`, as the position has them; -1: not known.
    """

    lane: TopicPartition
    target: TopicPartition
    source_next: int
    at_ms: int
    ours: bool
    target_next: int = -1
    source_epoch: int = -1
    epoch_next: int = -1
    source_topic_id: str = ""
    target_topic_id: str = ""
    why: str = ""

    def gone_on(self, head: MapHead | None, at_ms: int) -> "KnownLane":
        """Return the lane moved on to a head of its map, written at `at_ms`, if that is further; else unchanged."""
        if not self.ours or head is None or head.source_next <= self.source_next:
            return self
        return msgspec.structs.replace(self, source_next=head.source_next, target_next=head.target_next, at_ms=at_ms)

    def other_copy(self, topic_id: str) -> str:
        """Say that the copy, whose topic has this id now, is another topic than was written to; empty if it is not."""
        if not (topic_id and self.target_topic_id) or topic_id == self.target_topic_id:
            return ""
        return f"its copy {self.target} was deleted and created again: it lacks what was copied"

    def of_copy(self, topic_id: str) -> "KnownLane":
        """Return the lane without an offset if its copy is another topic now; applications may have filled it."""
        why = self.other_copy(topic_id)
        return msgspec.structs.replace(self, source_next=-1, why=why) if why and not self.why else self

    def held_against(self, ends: Ends) -> "KnownLane":
        """Return the lane without an offset if, by the target's `ends`, the copy lacks records that were copied."""
        if self.source_next < 0 or self.target_next < 0:
            return self
        end = ends.end(self.target)
        if end >= self.target_next:
            return self
        if end >= 0:
            why = f"its copy {self.target} ends at {end}, below what was copied ({self.target_next}): it lost records"
        elif self.target in ends.unknown:
            why = f"it is not known whether its copy {self.target} is complete: {ends.unknown[self.target]}"
        else:
            why = f"its copy {self.target} does not exist any more"
        return msgspec.structs.replace(self, source_next=-1, why=why)

    def progress(self, why: str = NO_MIRROR) -> LaneProgress:
        """Return the lane as progress of a lane that no copier owns, with the reason."""
        idle = unowned(LaneName(self.lane, self.target), "", -1, self.why or why)
        return msgspec.structs.replace(idle, source_next=self.source_next)


class LastKnown(msgspec.Struct, frozen=True, kw_only=True):
    """The positions of a flow; `unread`: partitions of their topic that could not be read, and why.

    The lanes in unread partitions are not known: more partitions may be copied than are listed.
    """

    lanes: tuple[KnownLane, ...]
    unread: dict[str, str] = {}

    @property
    def ours(self) -> bool:
        """Whether raymirror wrote any of the positions."""
        return any(lane.ours for lane in self.lanes)


async def last_known(
    target: Cluster, topic: str, partitions: int, keys: PositionKeys, selection: TopicSelection
) -> LastKnown:
    """Read the positions of the topics that a flow copies, as far as the target's brokers answer.

    `partitions`: how many partitions the topic should have; it is used only if one of them cannot be read. Raises
    ConnectionLost, BrokerUnreachable if none of them can be read; OtherCluster, KafkaRefusal.
    """
    unread: dict[str, str] = {}
    try:
        records = await target.read_stamped(topic)
    except OtherCluster:
        raise
    except (BrokerUnreachable, ConnectionLost):
        led = await target.leaders([TopicPartition(topic, number) for number in range(partitions)])
        records, failed = await read_those_that_answer(
            lambda partition: target.read_stamped(topic, {partition}), sorted(one.partition for one in led)
        )
        unread = {f"{topic}-{partition}": str(failure) for partition, failure in sorted(failed.items())}
    stamps: dict[bytes | None, int] = {record.key: record.timestamp for record in records}
    at_ms = {lane: stamp for key, stamp in stamps.items() if (lane := keys.decode(key)) is not None}
    stored = decode_positions(((record.key, record.value) for record in records), keys)
    lanes = [
        _known(lane, TopicPartition(selection.target_topic(lane.topic), lane.partition), one, at_ms[lane])
        for lane, one in sorted(stored.items())
        if selection.wants(lane.topic)
    ]
    return LastKnown(lanes=tuple(lane for lane in lanes if lane is not None), unread=unread)


def _known(lane: TopicPartition, target: TopicPartition, stored: Stored, at_ms: int) -> KnownLane | None:
    """Return what a stored position says of a lane; None for a tombstone."""
    match stored:
        case None:
            return None
        case Position():
            source_next, target_next = stored.source_next, stored.target_next
            known = KnownLane(lane=lane, target=target, source_next=source_next, at_ms=at_ms, ours=True)
            return msgspec.structs.replace(
                known,
                target_next=target_next,
                source_epoch=stored.source_leader_epoch,
                epoch_next=source_next,
                source_topic_id=stored.source_topic_id,
                target_topic_id=stored.target_topic_id,
            )
        case ForeignPosition():
            return KnownLane(lane=lane, target=target, source_next=stored.offset + 1, at_ms=at_ms, ours=False)
        case Unreadable():
            why = f"its position cannot be read: {stored.reason}"
            return KnownLane(lane=lane, target=target, source_next=-1, at_ms=at_ms, ours=True, why=why)


async def stored_state(target: Cluster, flow: FlowName) -> dict[Key, Value]:
    """Read the durable state of a flow without taking the flow over; empty if its topic does not exist.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
    """
    topic = state_topic(flow.source)
    if not await target.leaders([TopicPartition(topic, 0)]):
        return {}
    return StateCodec(flow, topic).decode(await target.read_records(topic))
