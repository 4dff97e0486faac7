"""Translates by offset syncs, as MM2's checkpoint task does, offsets below the start of a lane's exact map.

Records that MM2 copied before raymirror are in no offset map, but MM2's syncs may still be on their topic (raymirror's
syncs are there too, and serve as well). The answers are near and never ahead: a group reads records again, and misses
none.
"""

from engine.core.mm2.mm2_records import MalformedRecord, decode_offset_sync
from engine.core.mm2.sync_store import SyncStore
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from policies.model import TopicPartition


class SyncReader:
    """The syncs of all lanes of a flow; the first `follow` reads the whole topic, later ones read what is new."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._partition = TopicPartition(topic, 0)
        self._store = SyncStore()
        self._next = 0

    async def follow(self) -> None:
        """Read what is new, if the topic exists. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""
        where = self._partition
        if where not in await self._cluster.leaders([where]):
            return
        end = (await self._cluster.offsets([where], LATEST))[where]
        if end < self._next:
            self._next = 0  # another topic of this name
        start = max(self._next, (await self._cluster.offsets([where], EARLIEST))[where])
        async for records in self._cluster.read_log(where, start, end, committed=True):
            for record in records:
                try:
                    self._store.add(decode_offset_sync(record.key, record.value))
                except MalformedRecord:
                    continue  # MM2 skips such a record too
                finally:
                    self._next = record.offset + 1
        self._next = max(self._next, end)
        self._store.read_to_end()

    def translate(self, lane: TopicPartition, source_offset: int) -> int:
        """Return a target offset at or before the true one, -1 if no sync is old enough."""
        found = self._store.translate(lane, source_offset)
        return -1 if found is None else found
