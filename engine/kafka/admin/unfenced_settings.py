"""Reads a cluster's settings for a flow, without what operations have made there, or lent to topics for a while.

A fence keeps producers from the source. Mirrored to the target it would keep them from the cluster that they move to.
And a target that was fenced earlier is opened again when applications move there, so it lacks no right by that. A
config that is lent to a topic is taken back when its time is over. Mirrored it would stay on the other cluster.
"""

from collections.abc import Mapping

from engine.base.errors import KafkaRefusal
from engine.flow.operations.reading import fenced_by, lenders, lent_by, read_copy, standing_fences
from engine.flow.ports.ports import Answers, Cluster
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import TOPIC_AUTHORIZATION_FAILED
from policies.dr.lent_config import LentConfig, as_before, may_be_lent
from policies.model import FlowName
from policies.sync.acl_sync import Binding, Permission, Resource
from policies.sync.topic_configs import ConfigEntry


class UnfencedSettings(KafkaSettings):
    """The settings of one of a flow's clusters; `target` has the operations, `source` what is lent to its topics."""

    def __init__(self, client: ClusterClient, source: Cluster, target: Cluster, flow: FlowName) -> None:
        super().__init__(client)
        self._source, self._target, self._flow = source, target, flow

    async def configs(self, topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        """Describe configs; a lent one as it was before. Raises also what `lent_by` raises.

        What is lent is read after the configs: it is stored before it is lent, so none is missed.
        """
        found = await super().configs(topics)
        if not any(may_be_lent(entries) for entries in found.found.values()):
            return found
        return Answers(as_before(found.found, await self._lent()), found.failed)

    async def _lent(self) -> list[LentConfig]:
        """Return what is lent to topics of the cluster by this flow and its reverse, and by other flows too.

        Who may not read the states of another flow sees what that has lent as if somebody had set it.
        """
        lent = list[LentConfig]()
        for topic, is_own in lenders(await self.topics(None), self._flow).items():
            try:
                lent += await lent_by(self._source, topic)
            except KafkaRefusal as refusal:
                if is_own or refusal.code != TOPIC_AUTHORIZATION_FAILED:
                    raise
        return lent

    async def acls(self, resource: Resource) -> set[Binding]:
        """Return the bindings that are no fence's. Raises also what `read_copy` raises.

        Operations are read after the bindings: a fence stores what it makes first, so no binding is missed.
        """
        found, alias = await super().acls(resource), self._client.alias
        if not any(one.permission == Permission.DENY for one in found):  # every fence has one
            return found
        fences = standing_fences(await read_copy(self._target, self._flow), alias)
        return found - (fences | await self._fenced() if alias == self._flow.source else fences)

    async def _fenced(self) -> set[Binding]:
        """Return the bindings of fences on the source that operations with other clusters have made.

        Who may not read the states of another flow sees what that has made as if somebody had made it.
        """
        found = set[Binding]()
        for topic, is_own in lenders(await self.topics(None), self._flow).items():
            try:
                found |= await fenced_by(self._source, topic, self._flow.source)
            except KafkaRefusal as refusal:
                if is_own or refusal.code != TOPIC_AUTHORIZATION_FAILED:
                    raise
        return found
