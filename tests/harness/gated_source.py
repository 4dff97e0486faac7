"""A source whose fetch answers wait at a gate inside this process, chosen by the offset that was asked for."""

import asyncio
from collections.abc import Sequence

from engine.flow.ports.ports import FetchAnswer, FetchOptions, PartitionFetch, Room
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.source import KafkaSourceBroker
from engine.kafka.gateway import KafkaCluster


class Gate:
    """Holds answers to fetches from offset `first` up to `stop`, not included, until it is opened.

    `held`: how many have ever been held. `beyond`: how many answers to later offsets have passed meanwhile.
    """

    def __init__(self, first: int, stop: int) -> None:
        self.held = self.beyond = 0
        self._first, self._stop = first, stop
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Let everything pass from now on."""
        self._opened.set()

    async def passed(self, offset: int) -> None:
        """Wait until an answer to this offset may pass."""
        if self._opened.is_set():
            return
        if self._first <= offset < self._stop:
            self.held += 1
            await self._opened.wait()
        elif offset >= self._stop:
            self.beyond += 1


class GatedBroker(KafkaSourceBroker):
    """A source broker whose answers pass the gate."""

    gate: Gate

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        """Fetch, and wait at the gate with the answer."""
        answer = await super().fetch(wanted, options, room)
        await self.gate.passed(min(one.offset for one in wanted))
        return answer


class GatedSource(KafkaCluster):
    """A source cluster behind a gate."""

    def __init__(self, client: ClusterClient, gate: Gate) -> None:
        super().__init__(client)
        self._gate = gate

    async def source_broker(self, node: int, *, lasting: bool = True) -> KafkaSourceBroker:
        """Open a connection for fetching."""
        broker = GatedBroker(await self._client.open_connection(node), self._topic_ids, lasting=lasting)
        broker.gate = self._gate
        return broker
