"""Makes, finds and removes what drills make on a target: groups and topics."""

from collections.abc import Mapping, Sequence

from engine.flow.ports.ports import Listed
from engine.kafka.admin.admin import create_topic, delete_topic
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.groups.groups import KafkaGroups


class Made:
    """What drills make on one cluster."""

    def __init__(self, client: ClusterClient, groups: KafkaGroups) -> None:
        self._client, self._groups = client, groups

    async def list_groups(self) -> Listed:
        """Return the groups of the cluster. Raises BrokerUnreachable, ConnectionLost, KafkaRefusal."""
        return await self._groups.list_groups()

    async def delete_groups(self, groups: Sequence[str]) -> dict[str, str]:
        """Delete groups; return those that are still there, and why."""
        return await self._groups.delete(groups)

    async def has_topic(self, topic: str) -> bool:
        """Whether any broker that answers shows the topic. Raises BrokerUnreachable, ConnectionLost."""
        await self._client.survey([topic])
        found = (await self._client.metadata([topic])).topics.get(topic)
        return found is not None and bool(found.partitions)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic; one that does not exist is no error. Raises KafkaRefusal."""
        await delete_topic(self._client, topic)

    async def create_topic(self, topic: str, replication_factor: int, configs: Mapping[str, str]) -> int:
        """Create a topic with a partition per broker; return their number. Raises KafkaRefusal."""
        partitions = max(1, len(self._client.nodes))
        await create_topic(self._client, topic, partitions, replication_factor, dict(configs))
        return partitions
