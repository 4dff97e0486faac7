"""Lists the groups of the reachable brokers of a cluster, and names the brokers that do not answer."""

import asyncio

from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import GroupListing, Listed
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.groups.groups import KafkaGroups
from policies.words import counted

_COMMITS = "__consumer_offsets"


class ReachableGroups(KafkaGroups):
    """Like `KafkaGroups`, but with a time limit for each broker; `missing` names what is missing."""

    def __init__(self, client: ClusterClient, *, patience_s: float) -> None:
        super().__init__(client, patience_s=patience_s)
        self.missing: dict[str, str] = {}
        """The brokers (and partitions) whose groups are missing in the last listing, and why."""

    async def list_groups(self) -> Listed:
        """Ask every broker for the groups that it coordinates; `missing` names the brokers that did not answer.

        Raises KafkaRefusal; ConnectionLost, BrokerUnreachable if no broker answers.
        """
        metadata = await self._client.metadata([_COMMITS])
        listed = await super().list_groups()
        alias = self._client.alias
        self.missing = {f"broker {node} of cluster {alias!r}": why for node, why in listed.unheard.items()}
        commits = metadata.topics.get(_COMMITS)
        unled = sum(one.leader < 0 for one in commits.partitions.values()) if commits is not None else 0
        if unled:
            self.missing[f"{counted(unled, 'partition')} of {_COMMITS} of cluster {alias!r}"] = "no leader"
        return Listed(listed.groups)

    async def _list_at(self, node: int) -> list[GroupListing]:
        try:
            async with asyncio.timeout(self._patience_s):
                return await super()._list_at(node)
        except TimeoutError:
            raise ConnectionLost(f"no answer within {self._patience_s:.0f} s") from None
