"""Composition: the consumer groups of one flow between its clusters, over connections of their own."""

from collections.abc import Callable

from engine.clock import backoff_s, pause
from engine.core.events import AnyEvent
from engine.core.group_report import GroupsReport
from engine.errors import MirrorError
from engine.flow.checkpoints import CheckpointLog
from engine.flow.commit_reader import CommitReader
from engine.flow.group_keeper import GroupRounds, GroupTerms
from engine.kafka.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster
from engine.kafka.groups import KafkaGroups
from engine.kafka.internal_topics import ensure_mm2_topic
from engine.maps import translations_of
from engine.runner import client_for
from engine.settings import FlowConfig, MirrorConfig

_MOST_S, _LOOK_S = 30.0, 0.25


def group_terms(flow: FlowConfig, *, backwards: bool = False) -> GroupTerms:
    """Return what the rounds need of a flow's configuration."""
    groups = flow.groups
    return GroupTerms(
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


def _reader(flow: FlowConfig, source: KafkaCluster, terms: GroupTerms) -> CommitReader:
    return CommitReader(source, lambda group: terms.selection.why_not(group) is None, flow.selection.wants)


class GroupKeeper:
    """The GroupRounds of a flow: `run` connects and makes the topic first, and tries that again until it can.

    `may_write` is asked before each write.
    """

    def __init__(
        self,
        config: MirrorConfig,
        flow: FlowConfig,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._flow = flow
        self._source, self._target = self._client(config, flow.name.source), self._client(config, flow.name.target)
        source, target = (KafkaCluster(one, request_timeout_s=flow.request_timeout_s) for one in self._clients)
        terms = group_terms(flow)
        self._topic = flow.naming.checkpoints_topic(flow.name.source)
        self._rounds = GroupRounds(
            terms,
            KafkaGroups(self._source),
            KafkaGroups(self._target),
            translations_of(flow, source, target),
            CheckpointLog(target, self._topic, flow.request_timeout_s),
            may_write,
            _reader(flow, source, terms) if flow.groups.on_commit else None,
        )

    def _client(self, config: MirrorConfig, alias: str) -> ClusterClient:
        return client_for(config.clusters[alias], f"raymirror|{self._flow.name}|groups")

    @property
    def _clients(self) -> tuple[ClusterClient, ClusterClient]:
        return self._source, self._target

    @property
    def may_write(self) -> Callable[[], bool]:
        """Whether the flow is ours; whoever knows may set it."""
        return self._rounds.may_write

    @may_write.setter
    def may_write(self, ask: Callable[[], bool]) -> None:
        self._rounds.may_write = ask

    @property
    def report(self) -> GroupsReport:
        """What the last round found."""
        return self._rounds.report

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Hand over what happened since the last call."""
        return self._rounds.take_events()

    async def run(self) -> None:
        """Mirror groups until cancelled; returns at once where neither checkpoints nor commits are asked for."""
        if self._rounds.idle:
            return
        attempt = 0
        while not await self._ready():
            attempt += 1
            await pause(backoff_s(attempt, most_s=_MOST_S))
        await self._rounds.run()

    async def _ours(self) -> None:
        while not self.may_write():
            await pause(_LOOK_S)

    async def _ready(self) -> bool:
        """Connect, make the topic where it is missing, read it; False, and told as trouble, where that fails."""
        await self._ours()
        try:
            for client in self._clients:
                await client.open()
            if self._flow.groups.checkpoints:
                replicas = self._flow.groups.checkpoints_replication_factor
                await ensure_mm2_topic(self._target, self._topic, replicas)
            await self._rounds.open()
        except (MirrorError, OSError, TimeoutError) as failure:
            self._rounds.trouble(str(failure))
            return False
        return True

    async def close(self) -> None:
        """Disconnect."""
        await self._rounds.close()
        for client in self._clients:
            await client.close()
