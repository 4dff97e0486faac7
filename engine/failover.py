"""The engine's half of a failover, composed: where the source ends, and groups brought to where they should be."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from engine.clients import client_for
from engine.clock import now_s, pause
from engine.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.flow.checkpoints import CheckpointLog
from engine.flow.group_commits import GroupCommits
from engine.flow.ports import LATEST
from engine.flow.standing import GroupStands, Standing, stand_by_checkpoints
from engine.flow.stored_positions import stored_positions
from engine.flow.translations import Translations
from engine.flow.way_back import WayBack
from engine.kafka.flow_clusters import check_clusters
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups import KafkaGroups
from engine.maps import maps_of
from engine.settings import FlowConfig, MirrorConfig
from policies.model import TopicPartition

CLIENT_ID = "raymirror-failover"
SOURCE_WITHIN_S = 10.0
"""A source that does not answer for so long is taken for gone."""
_AGAIN_S = 0.25
_GONE = (BrokerUnreachable, ConnectionLost, OSError, TimeoutError)


class Ends(msgspec.Struct, frozen=True):
    """Where partitions of the source end; those without an answer are not in it, and `gone` says why."""

    ends: dict[TopicPartition, int]
    gone: str = ""


class Failover:
    """Questions and commits of one failover, over connections of its own, as an async context.

    Raises BrokerUnreachable where the target does not answer, OtherCluster where it is not the one that positions name;
    a source that does not answer, or is another cluster, is `gone`.
    """

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        self._flow = flow
        self._clients = tuple(client_for(config.clusters[alias], CLIENT_ID) for alias in flow.name)
        self.source, self.target = (
            KafkaCluster(client, request_timeout_s=flow.request_timeout_s) for client in self._clients
        )
        self.source_groups, self.target_groups = (KafkaGroups(client) for client in self._clients)
        self.maps = maps_of(flow, self.source, self.target)
        self._log = CheckpointLog(self.target, flow.naming.checkpoints_topic(flow.name.source), flow.request_timeout_s)
        self.gone = ""
        """Why the source cannot be asked; empty where it can."""

    async def __aenter__(self) -> Self:
        source, target = self._clients
        try:
            await target.open()
            await check_clusters(self._flow, None, target)
            try:
                async with asyncio.timeout(SOURCE_WITHIN_S):
                    await source.open()
            except _GONE as gone:
                self.gone = str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
            else:
                self.gone = await self._other_source()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _other_source(self) -> str:
        """Say which cluster the source is where it is not the one that positions name, else nothing."""
        try:
            await check_clusters(self._flow, *self._clients)
        except OtherCluster as other:
            return str(other)
        return ""

    async def _close(self) -> None:
        await self._log.close()
        for client in self._clients:
            await client.close()

    async def ends(self, lanes: Sequence[TopicPartition]) -> Ends:
        """Ask where the source ends now. Raises KafkaRefusal."""
        if self.gone:
            return Ends({}, self.gone)
        try:
            async with asyncio.timeout(SOURCE_WITHIN_S):
                return Ends(await self.source.offsets(lanes, LATEST))
        except _GONE as gone:
            return Ends({}, str(gone) or f"no answer within {SOURCE_WITHIN_S:.0f} s")

    async def hold(self, timeout_s: float, *, commit: bool) -> Standing:
        """Bring groups to where they should be until all are equal or time is up; return how they stand then.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal where the last look failed.
        """
        give_up_at_s = now_s() + timeout_s
        stands = self._stands(commit=commit)
        while not self.gone:
            late = now_s() >= give_up_at_s
            try:
                standing = await stands.look()
            except (ConnectionLost, BrokerUnreachable):
                if late:
                    raise
            else:
                if standing.equal or late or not commit:
                    return standing
            await pause(_AGAIN_S)
        selection = self._flow.groups.selection
        return await stand_by_checkpoints(selection, self._log, self.target_groups, commit=commit)

    def _stands(self, *, commit: bool) -> GroupStands:
        translations = Translations(self._flow.selection, self.maps, self.target)
        commits = GroupCommits(self._flow.name, self.target_groups, translations, renews=False)
        return GroupStands(
            self._flow.groups.selection,
            self.source_groups,
            self.target_groups,
            translations,
            commits.commit if commit else None,
        )

    async def way_back(self, *, backwards: bool) -> WayBack:
        """Make the way back for groups. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
        if self.gone:
            raise BrokerUnreachable(f"cluster {self._flow.name.source!r}", self.gone)
        stored = await stored_positions(self.target, self._flow.positions_topic, self._flow.position_keys)
        topic = self._flow.selection.target_topic
        lanes = {TopicPartition(topic(lane.topic), lane.partition): lane for lane in stored.lanes}
        return WayBack(
            self._flow.groups.selection,
            lanes,
            self.maps,
            self.source_groups,
            self.target_groups,
            backwards=backwards,
        )
