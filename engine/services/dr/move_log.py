"""Reads and writes which groups and topics have moved to the target, in the state topic there."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from engine.config.settings import FlowConfig
from engine.flow.ports.ports import Cluster
from engine.flow.topic_logs.unowned_log import UnownedLog
from engine.kafka.admin.internal_topics import STATE_CONFIGS, ensure_internal_topic
from engine.kafka.client.cluster import ClusterClient
from engine.state.moves import Moves, moves_of
from engine.state.state import (
    MOVE_SCOPE,
    Key,
    MovedGroup,
    MovedTopic,
    Value,
    moved_key,
    moved_topic_key,
    state_topic,
)


class MoveLog:
    """The moves of one flow; `client`: of the target, where the topic is made if no mirror ever ran.

    Every call raises BrokerUnreachable, ConnectionLost, KafkaRefusal, NewerFormat, StateUnreadable.
    """

    def __init__(self, cluster: Cluster, client: ClusterClient, flow: FlowConfig) -> None:
        self._cluster, self._client, self._flow = cluster, client, flow

    async def read(self) -> Moves:
        """Read what has moved."""
        async with self._opened() as log:
            if not await log.exists():
                return Moves()
            entries = await log.entries()
        return moves_of(entries)

    async def put_group(self, group: str, moved: MovedGroup) -> None:
        """Store the move of a group."""
        await self._put({moved_key(group): moved})

    async def remove_group(self, group: str) -> None:
        """Forget the move of a group."""
        await self._put({moved_key(group): None})

    async def put_topics(self, topics: Mapping[str, MovedTopic]) -> None:
        """Store topics whose producers have moved."""
        await self._put({moved_topic_key(name): one for name, one in topics.items()})

    async def remove_topics(self, topics: Iterable[str]) -> None:
        """Forget the moves of topics."""
        await self._put({moved_topic_key(name): None for name in topics})

    async def forget(self) -> None:
        """Forget all moves: applications have left the target."""
        moves = await self.read()
        await self._put(
            {
                **{moved_key(group): None for group in moves.groups},
                **{moved_topic_key(name): None for name in moves.topics},
            }
        )

    async def _put(self, entries: Mapping[Key, Value | None]) -> None:
        if not entries:
            return
        async with self._opened() as log:
            if not await log.exists():
                replicas = self._flow.positions_replication_factor
                await ensure_internal_topic(self._client, state_topic(self._flow.name.source), replicas, STATE_CONFIGS)
            await log.put(entries)

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[UnownedLog]:
        log = UnownedLog(self._cluster, self._flow.name, MOVE_SCOPE, self._flow.request_timeout_s)
        try:
            yield log
        finally:
            await log.close()


def start_of(moved: MovedTopic | None, partition: int, end: int) -> int:
    """Return where producers begin in a partition of the target that ends at `end` now; they may have moved before.

    All of a partition is theirs that the topic has got since.
    """
    if moved is None or not moved.starts:
        return end
    return min(moved.starts[partition], end) if partition < len(moved.starts) else 0
