"""Reads the two clusters of a flow for the steps of a switchover, over connections of its own."""

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from types import MappingProxyType
from typing import Self

import msgspec

from engine.base.errors import BrokerUnreachable, MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.drain import Ends
from engine.flow.operations.stints import Stints, stints_of
from engine.flow.ports.ports import EARLIEST
from engine.flow.surveys.readiness_survey import Readiness, survey_readiness
from engine.flow.surveys.unreplicated import unreplicated
from engine.flow.topic_logs.last_known import LastKnown
from engine.kafka.data.partition_ends import known_ends
from engine.kafka.groups.groups import KafkaGroups
from engine.services.dr.failover import COPIES_WITHIN_S
from engine.services.dr.move_log import MoveLog
from engine.services.dr.preview import PreviewService
from engine.services.quarantine import LeftOutRow
from engine.state.state import MovedTopic, desired_of
from policies.dr.readiness import ClientRules
from policies.model import PartitionRow, TopicPartition
from policies.sync.config_sync import TopicState
from policies.words import counted, some_of


class ReverseConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The reverse flow as the configuration after the switchover has it; `is_enabled`: it is enabled now as well."""

    config: MirrorConfig
    flow: FlowConfig
    is_enabled: bool


class DrainedEnd(PartitionRow, frozen=True):
    """Where a source partition ended when it was drained: the next offset."""

    end: int


class GrownPartition(PartitionRow, frozen=True):
    """A source partition that was written to behind the fence: its end then and now."""

    drained_to: int
    end: int


class NotDrained(MirrorError):
    """The target does not have every record of the source: why, by partition; `grown`: where the source grew."""

    exit_code = 1

    def __init__(self, why: dict[str, str], grown: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(why, grown)
        self.why, self.grown = why, grown

    def __str__(self) -> str:
        advice = "; stop who still writes there" if self.grown else ""
        return f"not drained: {some_of(self.why)}{grown_text(self.grown)}{advice}"


def grown_text(grown: Mapping[str, str]) -> str:
    """Say behind another text where the source has grown while it was drained; empty if nowhere."""
    return f"; the source still grows: {some_of(grown)}" if grown else ""


class DrainWorld(PreviewService):
    """The two clusters of a flow, as an async context. Raises what `Failover` raises; the source must answer."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        super().__init__(config, flow)
        self.config, self.flow = config, flow
        self.source_settings, self.target_settings = self._here, self._there
        self.source_client, self.target_client = self._clients
        self.source, self.target = self._source, self._target
        self.source_groups, self.target_groups = KafkaGroups(self._clients[0]), KafkaGroups(self._clients[1])
        self.chosen: frozenset[str] | None = None
        """The topics that the operation is about; None: all."""

    def about(self, topics: Iterable[str]) -> Self:
        """Return the same world, over the same connections, as if the flow copied only some topics of the source."""
        other = copy(self)
        other.chosen = frozenset(topics)
        return other

    async def _topics(self) -> dict[str, TopicState]:
        return {name: state for name, state in (await super()._topics()).items() if self._counts(name)}

    def _counts(self, topic: str) -> bool:
        return self.chosen is None or topic in self.chosen

    async def _open(self) -> None:
        await super()._open()
        if self.gone:
            raise BrokerUnreachable(f"cluster {self.flow.name.source!r}", self.gone)

    async def left_out(self) -> tuple[LeftOutRow, ...]:
        """See Failover; only of the topics that the operation is about."""
        return tuple(row for row in await super().left_out() if self._counts(row.topic))

    @property
    def keeps_names(self) -> bool:
        """Whether copies have the names of their topics, so that applications go on with the copies."""
        return not self.flow.naming.shows_source

    async def fenced_topics(self) -> list[str]:
        """Return the source topics that the flow copies, without heartbeats."""
        return sorted(await self._topics())

    async def readiness(self) -> Readiness:
        """Compare what producers and consumers need on the target. Raises ConnectionLost, BrokerUnreachable."""
        flow, topics = self.flow, await self._topics()
        rules = ClientRules(selection=flow.selection, groups=flow.groups.selection, copied=frozenset(topics))
        return await survey_readiness(self._here, self._opened, topics, rules)

    async def ends_now(self, known: Collection[TopicPartition] = ()) -> Ends:
        """Return where the source's partitions end, without heartbeats. Raises BrokerUnreachable."""
        beats = self.flow.naming.is_heartbeats_topic
        ends = (await self.ends(known)).without(lambda topic: beats(topic) or not self._counts(topic))
        if ends.gone:
            raise BrokerUnreachable(f"cluster {self.flow.name.source!r}", ends.gone)
        return ends

    async def undrained(self) -> tuple[dict[str, str], tuple[DrainedEnd, ...]]:
        """Return the partitions that the target lacks something of, and why; and where all partitions end.

        A partition counts only if its last stable offset is its end, and all of it is replicated: an open transaction
        is not decided yet, and what was appended before the fence is still to be acknowledged. Nothing is copied of
        topics that are paused because their producers have moved: they are whole as of their move.
        """
        known = await self.stored()
        whole = (await self.moved()).topics if self.keeps_names else {}
        ends = await self.ends_now([one.lane for one in known.lanes])
        why = {str(lane): text for lane, text in ends.unknown.items()} | dict(known.unread)
        stable = await self.source.stable_ends(sorted(ends.ends))
        empty = await self._empty(ends, known)
        nexts = {one.lane: (one.source_next, one.why) for one in known.lanes}
        for lane, end in sorted(ends.ends.items()):
            at, unknown = nexts.get(lane, (-1, ""))
            if lane.topic in whole or lane in empty or at == end == stable.get(lane, -1):
                continue
            why[str(lane)] = _why(at, end, stable.get(lane, -1), unknown)
        if not why:  # asked last: it costs a look at every leader
            coming = await unreplicated(self.source, ends.ends)
            why = {
                str(lane): f"{counted(own - ends.ends[lane], 'offset')} not replicated on the source yet"
                for lane, own in sorted(coming.items())
                if lane.topic not in whole
            }
        return why, tuple(DrainedEnd(lane.topic, lane.partition, end) for lane, end in sorted(ends.ends.items()))

    async def paused_topics(self) -> tuple[str, ...]:
        """Return the topics that an operator has paused: their partitions are not drained until they are resumed.

        Topics whose producers have moved are whole: the target has every record that they had on the source.
        """
        wanted = desired_of(await self.state())
        return tuple(name for name in wanted.paused_topics if name not in wanted.moved_topics)

    async def _empty(self, ends: Ends, known: LastKnown) -> set[TopicPartition]:
        """Return the partitions without a position and without a record: nothing of them was to be copied."""
        met = {one.lane for one in known.lanes}
        new = sorted(lane for lane in ends.ends if lane not in met)
        starts = await self.source.offsets(new, EARLIEST) if new else {}
        return {lane for lane in new if starts.get(lane) == ends.ends[lane]}

    async def grown(self, drained: Iterable[DrainedEnd]) -> tuple[GrownPartition, ...]:
        """Return the source partitions that do not end any more where they ended when they were drained.

        What a leader has appended counts, although it is not replicated yet: it will be acknowledged.
        """
        rows = {one.lane: one.end for one in drained}
        now = await self.ends_now(list(rows))
        if now.unknown:
            raise NotDrained({str(lane): why for lane, why in now.unknown.items()})
        ends = {**now.ends, **await unreplicated(self.source, now.ends)}
        return tuple(
            GrownPartition(lane.topic, lane.partition, rows.get(lane, 0), end)
            for lane, end in sorted(ends.items())
            if end != rows.get(lane, 0)
        )

    async def copy_ends(self, copies: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return where partitions of the target end. Raises NotDrained if one of them is not known."""
        found = await known_ends(self.target_client, sorted(copies), COPIES_WITHIN_S)
        missing = {str(lane): found.why_unknown(lane) for lane in copies if found.end(lane) < 0}
        if missing:
            raise NotDrained(missing)
        return {lane: found.end(lane) for lane in copies}


class SwitchoverWorld(DrainWorld):
    """The two clusters of a flow, and its reverse flow."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig, reverse: ReverseConfig) -> None:
        super().__init__(config, flow)
        self.reverse = reverse
        self._stints: Stints | None = None

    async def stints(self) -> Stints:
        """Return what earlier switchovers have stored of the stints before this one; it is read once.

        Raises what `operations` raises.
        """
        if self._stints is None:
            self._stints = stints_of(await self.operations(), self.flow.name)
        return self._stints

    @property
    def reverse_moves(self) -> MoveLog:
        """What had moved from the target to the source, before applications came back."""
        return MoveLog(self.source, self.source_client, self.reverse.flow)


async def grown_since_move(world: DrainWorld, moved: Mapping[str, MovedTopic]) -> dict[str, int]:
    """Return how far moved topics were written to on the source since, in offsets; those that are known."""
    if not moved:
        return {}
    ends = await world.about(moved).ends_now()
    unknown = {lane.topic for lane in ends.unknown}
    then = {TopicPartition(name, number): end for name, one in moved.items() for number, end in enumerate(one.ends)}
    grown = dict.fromkeys((lane.topic for lane in ends.ends if lane.topic not in unknown), 0)
    for lane, end in ends.ends.items():
        if lane.topic in grown:
            grown[lane.topic] += max(0, end - then.get(lane, 0))
    return grown


def _why(at: int, end: int, stable: int, unknown: str) -> str:
    if stable < end:
        return f"a transaction is open from offset {stable} on"
    if at < 0:
        return unknown or "it has no position yet"
    if at > end:
        return f"the source ends at {end}, below what was copied ({at})"
    return f"{counted(end - at, 'offset')} left"
