"""Reads a cluster's settings for a flow, without what operations have made there, or lent to topics for a while.

A fence keeps producers from the source. Mirrored to the target it would keep them from the cluster that they move to.
And a target that was fenced earlier is opened again when applications move there, so it lacks no right by that. A
config that is lent to a topic is taken back when its time is over. Mirrored it would stay on the other cluster.
"""

from collections.abc import Mapping

from engine.flow.operations.reading import all_lent_on, read_copy, standing_fences
from engine.flow.ports.ports import Answers, Cluster
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.client.cluster import ClusterClient
from policies.dr.lent_config import as_before, may_be_lent
from policies.model import FlowName
from policies.sync.acl_sync import Binding, Permission, Resource
from policies.sync.topic_configs import ConfigEntry


class UnfencedSettings(KafkaSettings):
    """The settings of one of a flow's clusters; `target` has the operations, `source` what is lent to its topics."""

    def __init__(self, client: ClusterClient, source: Cluster, target: Cluster, flow: FlowName) -> None:
        super().__init__(client)
        self._source, self._target, self._flow = source, target, flow

    async def configs(self, topics: Mapping[str, tuple[str, ...] | None]) -> Answers[dict[str, ConfigEntry]]:
        """Describe configs; a lent one as it was before. Raises also what `all_lent_on` raises.

        An operation with another cluster than the flow's may have lent it.

        What is lent is read after the configs: it is stored before it is lent, so none is missed.
        """
        found = await super().configs(topics)
        if not any(may_be_lent(entries) for entries in found.found.values()):
            return found
        lent = await all_lent_on(self._source, self._flow.source, await super().topics(None))
        return Answers(as_before(found.found, lent), found.failed)

    async def acls(self, resource: Resource) -> set[Binding]:
        """Return the bindings that are no fence's. Raises also what `read_copy` raises.

        Operations are read after the bindings: a fence stores what it makes first, so no binding is missed.
        """
        found = await super().acls(resource)
        if not any(one.permission == Permission.DENY for one in found):  # every fence has one
            return found
        return found - standing_fences(await read_copy(self._target, self._flow), self._client.alias)
