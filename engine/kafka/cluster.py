"""One cluster as a client sees it: bootstrap, metadata with topic ids, connections by broker, coordinators."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID
from zlib import crc32

import msgspec
from aiokafka.protocol.api import Request
from aiokafka.protocol.coordination import FindCoordinatorRequest

from engine.clock import now_s
from engine.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.kafka.bootstrap import first_answer
from engine.kafka.connection import Connection
from engine.kafka.faults import COORDINATOR_RETRY, NONE, error_name
from engine.kafka.leader_epochs import LeaderEpochs
from engine.kafka.metadata import BrokerAddress, Metadata, TopicMeta, ask_metadata
from engine.kafka.security import HandshakeOptions
from engine.tasks import run_all

_TRANSACTION = 1
_RECENT_S = 1.0
_BESIDE = 4
_PATIENCE_S = 3.0
"""A broker that has not told its metadata after so long is left for the next one, and asked last for a while."""
_SLOW_S = 10.0
_SHUT_S = 1.0
"""How long a broker that could not be connected to is not tried again."""


class ClusterClient:
    """Connections and metadata of one cluster. Control requests share one connection per broker.

    A broker handles one request per connection at a time. What waits for replicas, or reads much, and is asked for
    many lanes at once, goes over some connections beside it (`beside`).
    """

    def __init__(self, alias: str, bootstrap: list[tuple[str, int]], options: HandshakeOptions) -> None:
        self.alias = alias
        self._bootstrap = bootstrap
        self._options = options
        self._brokers: dict[int, BrokerAddress] = {}
        self._control: dict[tuple[int, int], Connection] = {}
        self._locks: dict[tuple[int, int], asyncio.Lock] = {}
        self._shut: dict[int, tuple[float, BrokerUnreachable]] = {}
        """Brokers that could not be connected to: when, and why."""
        self._slow: dict[int, float] = {}
        """Brokers that did not tell their metadata in time, and when."""
        self._coordinators: dict[str, int] = {}
        self._turn = itertools.count()
        self._asking = asyncio.Lock()
        self._finding = asyncio.Lock()
        self._found: tuple[float, BrokerUnreachable | None] = (-_SHUT_S, None)
        """When the bootstrap addresses were asked last because no known broker was there, and why in vain."""
        self._described: Metadata | None = None
        self._recent: dict[str, tuple[float, TopicMeta]] = {}
        self._epochs = LeaderEpochs()

    async def open(self) -> Metadata:
        """Find the brokers. Raises BrokerUnreachable naming every address tried and why."""
        try:
            answer = await first_answer(self._bootstrap, self._ask_address, head_start_s=_PATIENCE_S)
        except BrokerUnreachable as error:
            raise BrokerUnreachable(f"cluster {self.alias!r}", error.why) from None
        found = self._learn(answer)
        self._shut.clear()  # one answers, so another may
        return found

    async def _ask_address(self, address: tuple[str, int]) -> Metadata:
        connection = await Connection.open(*address, self._options)
        try:
            return await ask_metadata(connection, [])
        finally:
            await connection.close()

    async def survey(self, topics: list[str]) -> None:
        """Ask every broker who leads these topics, so that the newest answer is known; none may answer."""

        async def ask(node: int) -> None:
            try:
                self._learn(await self._ask(node, topics))
            except (BrokerUnreachable, ConnectionLost):
                return  # whoever is away leads nothing

        for topic in topics:
            self._recent.pop(topic, None)
        await run_all(*(ask(node) for node in self.nodes))

    async def settled_id(self, topic: str) -> UUID:
        """Return the id of a topic that every broker names which answers, more than half of them at least.

        Raises ConnectionLost while they do not agree: some have not heard yet that it was made anew, or are cut off.
        """
        told: list[UUID] = []

        async def ask(node: int) -> None:
            try:
                told.append((await self._ask(node, [topic])).topics[topic].topic_id)
            except (BrokerUnreachable, ConnectionLost, KeyError):
                return

        await run_all(*(ask(node) for node in self.nodes))
        if len(set(told)) != 1 or 2 * len(told) <= len(self.nodes):
            raise ConnectionLost(f"topic {topic} on cluster {self.alias!r}: its brokers do not agree which one it is")
        return told[0]

    async def close(self) -> None:
        """Close every control connection."""
        connections, self._control = list(self._control.values()), {}
        for connection in connections:
            await connection.close()

    async def metadata(self, topics: list[str] | None) -> Metadata:
        """Ask any reachable broker about topics (None = all). Raises BrokerUnreachable when none answers."""
        nodes = list(self._brokers)
        start = next(self._turn) % max(1, len(nodes))
        for node in self._quick_first(nodes[start:] + nodes[:start]):
            try:
                found = self._learn(await self._ask(node, topics))
            except (BrokerUnreachable, ConnectionLost):
                continue
            if topics is None:
                self._epochs.keep(found.topics)
            return found
        await self.open()  # all brokers may have moved: the bootstrap addresses are the way back in
        return self._learn(await ask_metadata(await self._known_connection(), topics))

    async def _ask(self, node: int, topics: list[str] | None) -> Metadata:
        """Ask one broker, for a while. Raises BrokerUnreachable, ConnectionLost.

        A late answer costs nobody the connection, which others share.
        """
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await ask_metadata(await self.control(node), topics)
        except TimeoutError:
            self._slow[node] = now_s()
            raise ConnectionLost(f"broker {node} of cluster {self.alias!r}: no metadata in time") from None

    def _quick_first(self, nodes: list[int]) -> list[int]:
        before_s = now_s() - _SLOW_S
        return sorted(nodes, key=lambda node: self._slow.get(node, before_s) > before_s)

    async def recent(self, topics: list[str]) -> Metadata:
        """As `metadata`, but what was asked within the last second is not asked again: many lanes share a topic.

        To be used within `believing`. Raises BrokerUnreachable.
        """
        async with self._asking:
            after_s = now_s() - _RECENT_S
            self._recent = {name: known for name, known in self._recent.items() if known[0] > after_s}
            found = {name: self._recent[name][1] for name in topics if name in self._recent}
            if len(found) < len(set(topics)) or self._described is None:
                self._described = await self.metadata([name for name in topics if name not in found])
                self.remember(self._described)
                found |= self._described.topics
            return msgspec.structs.replace(self._described, topics=found)

    def remember(self, metadata: Metadata) -> None:
        """Let `recent` tell this for a second."""
        for name, topic in metadata.topics.items():
            if topic.error_code == NONE and topic.partitions:  # what is not there yet may be there in a moment
                self._recent[name] = now_s(), topic

    @contextmanager
    def believing(self, topics: Iterable[str]) -> Iterator[None]:
        """Ask leaders that `recent` told; where one does not answer for its partition, ask anew next time."""
        try:
            yield
        except (ConnectionLost, BrokerUnreachable):
            for topic in topics:
                self._recent.pop(topic, None)
            raise

    def _learn(self, metadata: Metadata) -> Metadata:
        if metadata.brokers:
            self._brokers = metadata.brokers
        newest = {name: self._epochs.newest(name, topic) for name, topic in metadata.topics.items()}
        return msgspec.structs.replace(metadata, topics=newest)

    @property
    def nodes(self) -> list[int]:
        """Known broker ids."""
        return list(self._brokers)

    async def open_connection(self, node: int) -> Connection:
        """Open a connection of the caller's own to a broker. Raises BrokerUnreachable."""
        address = self._brokers.get(node)
        if address is None:
            raise BrokerUnreachable(f"broker {node} of cluster {self.alias!r}", "not in the cluster's metadata")
        return await Connection.open(address.host, address.port, self._options)

    async def control(self, node: int) -> Connection:
        """Return the shared control connection to a broker, opening it when needed. Raises BrokerUnreachable."""
        return await self._shared(node, 0)

    async def beside(self, node: int, name: str) -> Connection:
        """Return one of the connections beside it, the same for the same name. Raises BrokerUnreachable."""
        return await self._shared(node, 1 + crc32(name.encode()) % _BESIDE)

    async def _shared(self, node: int, turn: int) -> Connection:
        """Whoever waits while another one tries in vain shares the failure, instead of waiting as long once more."""
        async with self._locks.setdefault((node, turn), asyncio.Lock()):
            connection = self._control.get((node, turn))
            if connection is None or connection.closed.is_set():
                connection = self._control[node, turn] = await self._reopened(node)
            return connection

    async def _reopened(self, node: int) -> Connection:
        shut_s, error = self._shut.get(node, (-_SHUT_S, None))
        if error is not None and now_s() - shut_s < _SHUT_S:
            raise BrokerUnreachable(error.address, error.why)
        try:
            return await self.open_connection(node)
        except BrokerUnreachable as found:
            self._shut[node] = now_s(), found
            raise

    async def any_connection(self) -> Connection:
        """Return a control connection to any broker, wherever they are now. Raises BrokerUnreachable."""
        try:
            return await self._known_connection()
        except BrokerUnreachable:
            await self._find()
            return await self._known_connection()

    async def _find(self) -> None:
        """Look for the brokers at the bootstrap addresses; who asks meanwhile, or just after, shares the outcome."""
        async with self._finding:
            found_s, error = self._found
            if now_s() - found_s >= _SHUT_S:
                error = None
                try:
                    await self.open()
                except BrokerUnreachable as failure:
                    error = failure
                self._found = now_s(), error
            if error is not None:
                raise BrokerUnreachable(error.address, error.why)

    async def _known_connection(self) -> Connection:
        error: BrokerUnreachable | None = None
        for node in self._quick_first(self.nodes):
            try:
                return await self.control(node)
            except BrokerUnreachable as failure:
                error = failure
        raise error or BrokerUnreachable(f"cluster {self.alias!r}", "no broker known")

    async def nth_connection(self, turn: int) -> Connection:
        """Return another connection for each turn, broker by broker, to any where that one is away.

        Turns that differ share one where there are more than five for each broker. Raises BrokerUnreachable.
        """
        nodes = self.nodes
        if not turn or not nodes:
            return await self.any_connection()
        try:
            return await self._shared(nodes[turn % len(nodes)], turn // len(nodes) % (1 + _BESIDE))
        except BrokerUnreachable:
            return await self.any_connection()

    async def controller(self) -> Connection:
        """Return a connection to the controller (any broker forwards for it from KRaft on)."""
        controller = (await self.metadata([])).controller
        return await (self.control(controller) if controller in self._brokers else self.any_connection())

    async def coordinator_call(self, transactional_id: str, request: Request[Any]) -> Any:
        """Send a request to the coordinator of a transactional id, whose place is remembered until it fails.

        Its answers wait for replicas, so ids share out the connections; one id keeps to one, and to the order of its
        requests.
        """
        try:
            node = self._coordinators.get(transactional_id)
            if node is None:
                node = self._coordinators[transactional_id] = await self._find_coordinator(transactional_id)
            return await (await self.beside(node, transactional_id)).call(request)
        except (ConnectionLost, BrokerUnreachable):
            self.forget_coordinator(transactional_id)
            raise

    def forget_coordinator(self, transactional_id: str) -> None:
        """Look the coordinator up anew next time."""
        self._coordinators.pop(transactional_id, None)

    async def _find_coordinator(self, transactional_id: str) -> int:
        connection = await self.any_connection()
        answer = await connection.call(FindCoordinatorRequest(transactional_id, _TRANSACTION))
        if answer.error_code in COORDINATOR_RETRY:
            raise ConnectionLost(f"coordinator of {transactional_id}: {error_name(answer.error_code)}")
        if answer.error_code != NONE:
            raise KafkaRefusal(
                f"transactional id {transactional_id}",
                answer.error_code,
                error_name(answer.error_code),
                "grant Write and Describe on the transactional ids that begin with 'raymirror'",
            )
        return int(answer.coordinator_id)
