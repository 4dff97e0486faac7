"""Defines the world of a failback's steps: both clusters of a flow as ports, and the options of both directions."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.core.lane.echoes import Echoes
from engine.core.offset_map.offset_map import Columns
from engine.flow.failback.group_moves import MoveMaps
from engine.flow.groups.map_chain import LaneChain, ReadMaps
from engine.flow.operations.fencing import Fence
from engine.flow.operations.stints import ClosedRow, MapTopics
from engine.flow.ownership.alteration import AlterationOptions, Alterations, alter_positions
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import Cluster, Groups
from engine.flow.ports.settings_port import Settings
from engine.flow.replication.copier import FlowCopier
from engine.flow.surveys.record_epochs import epochs_before
from engine.flow.surveys.separation_survey import SurveyedPartition, SurveyMaps
from engine.flow.topic_logs.last_known import KnownLane
from policies.groups import GroupSelection
from policies.model import TopicPartition
from policies.selection import TopicSelection
from policies.sync.topic_faults import FaultRules, OnGap, TopicRule


class FlowMaps(MoveMaps, SurveyMaps, ReadMaps, Protocol):
    """The exact maps of lanes of one flow, as `MapReader` has them."""

    async def follow(self, lanes: Collection[TopicPartition] | None = None) -> None:
        """Read all that was written until now."""

    async def runs(self, lane: TopicPartition, source_from: int, source_to: int) -> Columns:
        """Return the runs that hold any of these source offsets, and some around them."""


class FailbackPorts(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster."""

    cluster: Cluster
    settings: Settings
    groups: Groups


class FailbackGuard(Protocol):
    """What keeps the reverse flow from being run by a mirror before the failback has ended."""

    async def failed_over_ms(self) -> int:
        """Return when the flow was failed over (Unix ms); -1: it was not, or it was failed back since."""

    async def bar(self) -> None:
        """Let no mirror run the reverse flow."""

    async def admit(self) -> None:
        """Let mirrors run the reverse flow."""


class FailbackWorld(msgspec.Struct, frozen=True, kw_only=True):
    """Both clusters and both directions. `forward`, `back`: the options of the flow and of its reverse.

    `known`: the lanes of the flow by their positions. `feeds`: other clusters that a source topic is copied to.
    `export`: writes what only the source has to a folder, and returns where, and how many records. `take_back`:
    restores the configs that were lent to topics of the target; returns where that failed, and why. `hold_tombstones`:
    lends compacted ones of these topics a longer `delete.retention.ms`, and returns the same. `chains`: returns the
    stints before the flow's present one, given the closed maps of the reverse flow that this failback has stored.
    `map_topics`: where the flow keeps its maps.
    """

    source: FailbackPorts
    target: FailbackPorts
    forward: FlowOptions
    back: FlowOptions
    selection: TopicSelection
    back_selection: TopicSelection
    groups: GroupSelection
    guard: FailbackGuard
    fence: Fence
    known: Callable[[], Awaitable[Mapping[TopicPartition, KnownLane]]]
    feeds: Callable[[str], tuple[str, ...]]
    forward_maps: Callable[[], FlowMaps]
    back_maps: Callable[[], FlowMaps]
    export: Callable[[Sequence[SurveyedPartition], str], Awaitable[tuple[str, int]]]
    new_copier: Callable[[FlowOptions, Cluster, Cluster], FlowCopier]
    take_back: Callable[[], Awaitable[Mapping[str, str]]]
    hold_tombstones: Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
    map_topics: MapTopics
    chains: Callable[[Mapping[TopicPartition, ClosedRow]], Awaitable[Mapping[TopicPartition, LaneChain]]]

    def forward_options(self, expired: Collection[str] = ()) -> FlowOptions:
        """Return the options that copy what only the source has: behind new records, and comparing nothing.

        `expired`: topics of the source whose retention has deleted the beginning of that; the rest is copied.
        """
        options = _strict(self.forward)
        return msgspec.structs.replace(options, stop_on_foreign_writer=False, faults=_passing(expired))

    def back_options(
        self, echoes: Mapping[TopicPartition, Echoes], expired: Mapping[TopicPartition, int]
    ) -> FlowOptions:
        """Return the options that copy what only the target has, without what was copied there late.

        `expired`: by target partition, up to where what its retention has deleted is counted; the rest is copied.
        """
        return msgspec.structs.replace(
            _strict(self.back),
            stop_on_foreign_writer=True,
            echoes={lane: one for lane, one in echoes.items() if one},
            counted_gaps=expired,
        )

    async def alter_back(
        self, wanted: Alterations, source_ends: Mapping[TopicPartition, int] | None = None
    ) -> dict[str, str]:
        """Set positions of the reverse flow; return why some could not be written, by lane.

        `source_ends`: where the source's logs end by now, by lane; records behind are another writer's.
        """
        back = self.back
        options = AlterationOptions(
            flow=back.flow,
            topic=back.positions_topic,
            partitions=back.positions_partitions,
            keys=back.position_keys,
            request_timeout_s=back.request_timeout_s,
        )
        ends = {lane: offset + 1 for lane, offset in wanted.items() if offset is not None}
        epochs = await epochs_before(self.target.cluster, ends)
        return await alter_positions(self.source.cluster, options, wanted, epochs, source_ends)


def _passing(topics: Collection[str]) -> FaultRules:
    """Return rules by which lanes of these topics continue where retention has deleted the next records."""
    return FaultRules(gaps=tuple(TopicRule(re.escape(topic), OnGap.CONTINUE.value) for topic in sorted(topics)))


def _strict(options: FlowOptions) -> FlowOptions:
    """Return options with which a lane leaves nothing out, compares nothing, and writes no offset syncs."""
    return msgspec.structs.replace(options, takes_over=False, faults=FaultRules(), syncs=None, range_connections=1)
