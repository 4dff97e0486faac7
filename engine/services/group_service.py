"""Builds the sync of one flow's consumer groups, over connections of its own."""

from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.group_report import GroupsReport
from engine.flow.groups.sync_loop import GroupOptions, GroupSyncLoop
from engine.flow.topic_logs.checkpoints import CheckpointLog
from engine.flow.topic_logs.commit_reader import CommitReader
from engine.flow.topic_logs.followed_moves import FollowedMoves
from engine.kafka.admin.flow_clusters import check_clusters
from engine.kafka.admin.internal_topics import CHECKPOINTS_KEY, ensure_mm2_topic
from engine.kafka.admin.sameness import refuse_one_cluster
from engine.kafka.groups.groups import KafkaGroups
from engine.services.clients import clients_of
from engine.services.loop_service import LoopService
from engine.services.maps import clusters_of, translations_of

_AWAY_S = 2.0
"""An unreachable coordinator delays the groups of other coordinators for this long, once."""


def group_options(flow: FlowConfig, *, backwards: bool = False) -> GroupOptions:
    """Return the part of a flow's configuration that the rounds need."""
    groups = flow.groups
    return GroupOptions(
        flow=flow.name,
        selection=groups.selection,
        refresh=groups.refresh,
        refresh_s=groups.refresh_s,
        checkpoints=groups.checkpoints,
        checkpoints_s=groups.checkpoints_s,
        commits=groups.commits,
        commits_s=groups.commits_s,
        backwards=backwards,
    )


class GroupService(LoopService[GroupsReport]):
    """The GroupSyncLoop of a flow, with its checkpoints topic; it asks `may_write` before each write."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        clients = clients_of(config, flow.name, f"raymirror|{flow.name}|groups")
        source, target = clusters_of(flow, clients)
        self._flow = flow
        self._topic = flow.naming.checkpoints_topic(flow.name.source)
        options = group_options(flow)
        self._rounds = GroupSyncLoop(
            options,
            KafkaGroups(clients[0], away_s=_AWAY_S),
            KafkaGroups(clients[1], away_s=_AWAY_S),
            translations_of(flow, source, target),
            CheckpointLog(target, self._topic, flow.request_timeout_s),
            CommitReader(source, options.selection, flow.selection) if flow.groups.on_commit else None,
        )
        self._rounds.moved = FollowedMoves(target, flow.name)
        super().__init__(self._rounds, clients)

    async def _prepare(self) -> None:
        """Check that the clusters are those that positions name; create the topic if it is missing, and read it."""
        source, target = self._clients
        await refuse_one_cluster(self._flow, source, target)
        await check_clusters(self._flow, source, target)
        if self._flow.groups.checkpoints:
            replicas = self._flow.groups.checkpoints_replication_factor
            await ensure_mm2_topic(target, self._topic, replicas, CHECKPOINTS_KEY)
        await self._rounds.open()

    async def close(self) -> None:
        await self._rounds.close()
        await super().close()
