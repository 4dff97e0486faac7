"""Reads a cluster's settings for a flow, without the ACL bindings that fences of operations have made there.

A fence keeps producers from the source. Mirrored to the target it would keep them from the cluster that they move to.
And a target that was fenced earlier is opened again when applications move there, so it lacks no right by that.
"""

from engine.flow.operations.reading import read_copy, standing_fences
from engine.flow.ports.ports import Cluster
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.client.cluster import ClusterClient
from policies.model import FlowName
from policies.sync.acl_sync import Binding, Permission, Resource


class UnfencedSettings(KafkaSettings):
    """The settings of one of a flow's clusters; `target`: the flow's target, which has the operations."""

    def __init__(self, client: ClusterClient, target: Cluster, flow: FlowName) -> None:
        super().__init__(client)
        self._target, self._flow = target, flow

    async def acls(self, resource: Resource) -> set[Binding]:
        """Return the bindings that are no fence's. Raises also what `read_copy` raises.

        Operations are read after the bindings: a fence stores what it makes first, so no binding is missed.
        """
        found = await super().acls(resource)
        if not any(one.permission == Permission.DENY for one in found):  # every fence has one
            return found
        return found - standing_fences(await read_copy(self._target, self._flow), self._client.alias)
