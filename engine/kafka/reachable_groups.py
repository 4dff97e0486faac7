"""The groups of a cluster of which some brokers are away: those that can be asked about, and who does not answer."""

import asyncio

from engine.errors import BrokerUnreachable, ConnectionLost
from engine.flow.ports import GroupListing
from engine.kafka.cluster import ClusterClient
from engine.kafka.groups import KafkaGroups
from engine.tasks import run_all

_COMMITS = "__consumer_offsets"


class ReachableGroups(KafkaGroups):
    """As `KafkaGroups`, and a broker that does not answer hides only the groups that it coordinates."""

    def __init__(self, client: ClusterClient, *, patience_s: float) -> None:
        super().__init__(client, patience_s=patience_s)
        self.missing: dict[str, str] = {}
        """Whose groups nobody told at the last listing, and why."""

    async def list_groups(self) -> list[GroupListing]:
        """Ask every broker for the groups it coordinates; see `missing` behind it. Raises KafkaRefusal.

        Raises ConnectionLost, BrokerUnreachable where no broker answers.
        """
        metadata = await self._client.metadata([_COMMITS])
        found: dict[str, GroupListing] = {}
        missing: dict[str, str] = {}

        async def ask(node: int) -> None:
            try:
                async with asyncio.timeout(self._patience_s):
                    listed = await self._list_at(node)
            except (BrokerUnreachable, ConnectionLost, TimeoutError) as lost:
                why = str(lost) or f"no answer within {self._patience_s:.0f} s"
                missing[f"broker {node} of cluster {self._client.alias!r}"] = why
            else:
                found.update((listing.group, listing) for listing in listed)

        nodes = self._client.nodes
        await run_all(*(ask(node) for node in nodes))
        if len(missing) == len(nodes):
            raise ConnectionLost("; ".join(f"{who}: {why}" for who, why in missing.items()))
        commits = metadata.topics.get(_COMMITS)
        unled = sum(one.leader < 0 for one in commits.partitions.values()) if commits is not None else 0
        if unled:
            missing[f"{unled} partitions of {_COMMITS} of cluster {self._client.alias!r}"] = "no leader"
        self.missing = missing
        return sorted(found.values(), key=lambda listing: listing.group)
