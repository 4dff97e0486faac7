"""The client of one cluster: bootstrap, metadata with topic ids, connections by broker, coordinators."""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, TypeVar
from uuid import UUID
from zlib import crc32

import msgspec
from aiokafka.protocol.api import Request

from engine.base.clock import now_s
from engine.base.errors import (
    BrokerRefuses,
    BrokerUnreachable,
    ClusterAway,
    ClusterRefuses,
    ConnectionLost,
    OtherCluster,
)
from engine.base.parts import parts
from engine.config.security import HandshakeOptions
from engine.kafka.client.bootstrap import all_answers, first_answer
from engine.kafka.client.canonical_names import canonical
from engine.kafka.client.connection import Connection
from engine.kafka.client.control import PATIENCE_S, SharedConnections
from engine.kafka.client.coordinators import find_coordinator
from engine.kafka.client.identity import ClusterIdentity
from engine.kafka.client.leader_epochs import LeaderEpochs
from engine.kafka.client.metadata import BrokerAddress, Metadata, TopicMeta, ask_metadata
from engine.kafka.client.silence import Silence
from engine.kafka.client.throttle import Throttle
from engine.kafka.protocol.faults import NONE
from policies.grants.rights import Grantee

T = TypeVar("T")

_RECENT_S = 1.0
_BESIDE = 4
_PATIENCE_S = 3.0
"""Seconds to wait for one broker with a question that any broker can answer."""
_ALL_PATIENCE_S = 30.0
"""The same with a question about all topics: tens of thousands take a busy machine seconds to read."""
_TOPICS_AT_ONCE = 2_000
"""Topics in one request for metadata: an answer about tens of thousands takes longer than a broker may be silent."""
_HEAD_START_S = 1.0
"""Seconds after which the next broker is also asked what any broker can answer; the silent one is asked last then."""
_SHUT_S = 1.0
"""Seconds before the next attempt to connect to a broker after a failed one."""


class ClusterClient:
    """Connections and metadata of one cluster. Control requests share one connection per broker.

    A broker handles one request per connection at a time. So requests that wait for replicas or read much, and come for
    many lanes at once, use other connections (`beside`). Every connection must lead to the same cluster as the first
    one (`identity`).
    """

    def __init__(
        self, alias: str, bootstrap: list[tuple[str, int]], options: HandshakeOptions, place: str = ""
    ) -> None:
        self.alias = alias
        self.grantee = Grantee(alias, options.user)
        """Who needs rights here."""
        self._place = place
        """Where the addresses are set, for the error that none answers."""
        self.identity = ClusterIdentity(alias)
        self._bootstrap = bootstrap
        self._options = options
        self._brokers: dict[int, BrokerAddress] = {}
        self.tuning = options.tuning
        self._shared = SharedConnections(self.open_connection, _SHUT_S, self.tuning.reconnect)
        self._silence = Silence()
        self.changes = Throttle()
        """When the cluster takes changes of topics."""
        self._coordinators: dict[str, int] = {}
        self._turn = itertools.count()
        self._asking = asyncio.Lock()
        self._finding = asyncio.Lock()
        self._found: tuple[float, BrokerUnreachable | None] = (-_SHUT_S, None)
        """When the bootstrap addresses were last asked because no known broker answered, and the error of that."""
        self._described: Metadata | None = None
        self._recent: OrderedDict[str, tuple[float, TopicMeta]] = OrderedDict()
        """When each topic was last told of, the oldest first."""
        self._wanted: set[str] = set()
        """Topics of all calls that wait for the next answer: one request asks for all of them."""
        self._all_took_s = 0.0
        """Seconds that the last answer about all topics took."""
        self._epochs = LeaderEpochs()
        self.decoding = asyncio.Lock()
        """Held while an answer of a short read is decoded: one at a time, however many are read in parallel."""

    async def open(self) -> Metadata:
        """Find the brokers. Raises ClusterAway (ClusterRefuses) with every address and its reason, OtherCluster."""

        async def ask(address: tuple[str, int]) -> Metadata:
            connection = await Connection.open(*address, self._options)
            try:
                return self._learn(await ask_metadata(connection, []), connection.address)
            finally:
                await connection.close()

        addresses = await canonical(self._bootstrap) if self.tuning.canonical_names else self._bootstrap
        try:
            found = await first_answer(addresses, ask, head_start_s=_HEAD_START_S)
        except OtherCluster:
            raise
        except BrokerUnreachable as error:
            kind = ClusterRefuses if isinstance(error, BrokerRefuses) else ClusterAway
            raise kind(self._place, self.alias, error.why) from None
        self._shared.forgive()  # one broker answers, so others may answer too
        return found

    async def survey(self, topics: list[str], *, hurry: bool = False) -> bool:
        """Ask every broker who leads these topics, to learn the newest leaders; return whether all brokers answered.

        If all did, forget leader epochs that none of them knows: the cluster was restored from an earlier state.
        `hurry`: do not wait for brokers that are a second slower than the first; ask none if one is known to be silent.
        """
        for some in _requests_of(topics):
            if not await self._survey(some, hurry=hurry):
                return False
        return True

    async def _survey(self, topics: list[str], *, hurry: bool) -> bool:
        nodes = self.nodes
        if hurry and any(map(self._keeps_silent, nodes)):
            return False
        before = {topic: self._epochs.epochs(topic) for topic in topics}

        async def ask(node: int) -> Metadata:
            told = await self._ask(node, topics)
            self._learn(told)
            return told

        for topic in topics:
            self._recent.pop(topic, None)
        answered = await all_answers(nodes, ask, grace_s=self._head_start_s if hurry else None)
        if not nodes or not answered.keys() >= set(self.nodes):
            return False  # an unreachable broker leads nothing
        for topic, epochs in before.items():
            told_of = [one.topics[topic] for one in answered.values() if topic in one.topics]
            if len(told_of) == len(answered):
                self._epochs.all_say(topic, told_of, epochs)
        return True

    async def settled_id(self, topic: str) -> UUID:
        """Return the topic id on which all brokers that answer agree, at least more than half of all brokers.

        Raises ConnectionLost while they disagree: some have not learned yet that it was created again, or are cut off.
        """
        told = await all_answers(self.nodes, lambda node: self._ask(node, [topic]), grace_s=None)
        ids = [one.topics[topic].topic_id for one in told.values() if topic in one.topics]
        if len(set(ids)) != 1 or 2 * len(ids) <= len(self.nodes):
            raise ConnectionLost(f"topic {topic} on cluster {self.alias!r}: its brokers do not agree on its id")
        return ids[0]

    async def leave(self) -> None:
        """Disconnect from a cluster that is not the expected one, and forget it: `open` starts from scratch."""
        await self.close()
        self._brokers, self._coordinators, self._described = {}, {}, None
        self._recent.clear()
        self._epochs = LeaderEpochs()
        self.identity.forget()

    async def close(self) -> None:
        """Close every control connection."""
        await self._shared.close()

    async def metadata(self, topics: list[str] | None) -> Metadata:
        """Ask any reachable broker about topics (None = all). Raises BrokerUnreachable if none answers."""
        if topics is None:
            return await self._all_metadata()
        known: dict[str, TopicMeta] = {}
        for some in _requests_of(topics):
            found = await self._metadata(some, self._head_start_s)
            known |= found.topics
        return msgspec.structs.replace(found, topics=known)

    async def _all_metadata(self) -> Metadata:
        # The answer may be large: a broker that needs long for it is not silent.
        began_s = now_s()
        found = await self._metadata(None, max(_PATIENCE_S, 2 * self._all_took_s))
        self._all_took_s = now_s() - began_s
        self._epochs.keep(found.topics)
        return found

    async def _metadata(self, topics: list[str] | None, head_start_s: float) -> Metadata:
        async def ask(node: int) -> Metadata:
            return self._learn(await self._ask(node, topics))

        try:
            return await first_answer(self._in_turn(), ask, head_start_s=head_start_s)
        except BrokerUnreachable:
            await self.open()  # all brokers may have moved: find them through the bootstrap addresses
            return self._learn(await ask_metadata(await self._known_connection(), topics))

    async def _ask(self, node: int, topics: list[str] | None) -> Metadata:
        """Ask one broker about topics, for a bounded time. Raises BrokerUnreachable, ConnectionLost."""
        patience_s = _PATIENCE_S if topics is not None else _ALL_PATIENCE_S
        return await self._ask_for_a_while(node, lambda connection: ask_metadata(connection, topics), patience_s)

    async def any_says(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """Ask the brokers one after the other what any of them can answer. Raises BrokerUnreachable, ConnectionLost."""

        async def ask_one(node: int) -> T:
            return await self._ask_for_a_while(node, ask)

        try:
            return await first_answer(self._in_turn(), ask_one, head_start_s=self._head_start_s)
        except BrokerUnreachable:
            return await ask(await self.any_connection())

    async def all_say(self, nodes: Iterable[int], ask: Callable[[Connection], Awaitable[T]]) -> dict[int, T]:
        """Ask each of some brokers, and return what those say that answer. Raises what `ask` raises beside that."""
        return await all_answers(nodes, lambda node: self._ask_for_a_while(node, ask), grace_s=None)

    async def _ask_for_a_while(
        self, node: int, ask: Callable[[Connection], Awaitable[T]], patience_s: float = _PATIENCE_S
    ) -> T:
        """Ask one broker what it can answer at once, and remember whether it kept silent.

        A late answer does not close the connection, which others share. Raises BrokerUnreachable, ConnectionLost.
        """
        asked_s = inf
        try:
            async with asyncio.timeout(patience_s):
                connection = await self.control(node)
                asked_s = now_s()
                found = await ask(connection)
        except TimeoutError:
            self._note_silence(node)
            raise ConnectionLost(f"broker {node} of cluster {self.alias!r}: no answer in time") from None
        except asyncio.CancelledError:
            if now_s() - asked_s >= _HEAD_START_S:  # another broker has answered first
                self._note_silence(node)
            raise
        self._silence.over(node)
        return found

    def _note_silence(self, node: int) -> None:
        if self._silence.note(node):
            self._shared.drop(node)

    @property
    def _head_start_s(self) -> float:
        """Seconds that a broker may be slower than another one: over a long distance, connecting alone takes long."""
        return max(_HEAD_START_S, 2 * self._shared.took_s)

    def _in_turn(self) -> list[int]:
        """Return all brokers in the order in which to ask them: silent ones last.

        Each call begins with another broker, connected or not: a single one may have old metadata.
        """
        nodes = self.nodes
        start = next(self._turn) % max(1, len(nodes))
        return sorted(nodes[start:] + nodes[:start], key=self._keeps_silent)

    def _keeps_silent(self, node: int) -> bool:
        return self._shared.is_away(node) or self._silence.is_fresh(node)

    async def recent(self, topics: list[str]) -> Metadata:
        """Return `metadata`, but use answers of the last second again: many lanes share a topic.

        Use it within `believing`. Raises BrokerUnreachable.
        """
        self._wanted.update(topics)
        try:
            async with self._asking:
                return await self._recent_of(topics)
        finally:
            self._wanted.difference_update(topics)  # who waits for one of them asks for it all the same

    async def _recent_of(self, topics: list[str]) -> Metadata:
        self._forget_old()
        found = {name: self._recent[name][1] for name in topics if name in self._recent}
        if len(found) < len(set(topics)) or self._described is None:
            asked = (self._wanted | set(topics)) - self._recent.keys()
            self._described = await self.metadata(sorted(asked))
            self.remember(self._described)
            found |= {name: self._described.topics[name] for name in topics if name in self._described.topics}
        return msgspec.structs.replace(self._described, topics=found)

    def remember(self, metadata: Metadata) -> None:
        """Let `recent` return this answer for a second."""
        for name, topic in metadata.topics.items():
            if topic.error_code == NONE and topic.partitions:  # a missing topic may exist in a moment
                self._recent[name] = now_s(), topic
                self._recent.move_to_end(name)

    def _forget_old(self) -> None:
        """Forget what `recent` may no longer return: the oldest come first, and one of very many asks for one topic."""
        after_s = now_s() - _RECENT_S
        while self._recent and next(iter(self._recent.values()))[0] <= after_s:
            self._recent.popitem(last=False)

    @contextmanager
    def believing(self, topics: Iterable[str]) -> Iterator[None]:
        """Use leaders from `recent`; if one does not answer for its partition, `recent` asks again next time."""
        try:
            yield
        except (ConnectionLost, BrokerUnreachable):
            for topic in topics:
                self._recent.pop(topic, None)
            raise

    def _learn(self, metadata: Metadata, where: str = "a known broker") -> Metadata:
        self.identity.admit(metadata.cluster_id, where)
        if metadata.brokers:
            self._brokers = metadata.brokers
        newest = {name: self._epochs.newest(name, topic) for name, topic in metadata.topics.items()}
        return msgspec.structs.replace(metadata, topics=newest)

    @property
    def nodes(self) -> list[int]:
        """The known broker ids."""
        return list(self._brokers)

    async def open_connection(self, node: int) -> Connection:
        """Open an unshared connection to a broker of this cluster. Raises BrokerUnreachable, OtherCluster."""
        address = self._brokers.get(node)
        if address is None:
            raise BrokerUnreachable(f"broker {node} of cluster {self.alias!r}", "not in the cluster's metadata")
        setup_s = self.tuning.setup_after_s(self._shared.failures(node))
        options = msgspec.structs.replace(self._options, timeout_s=setup_s)
        connection = await Connection.open(address.host, address.port, options)
        try:
            async with asyncio.timeout(setup_s):
                self.identity.admit((await ask_metadata(connection, [])).cluster_id, connection.address)
        except BaseException as error:
            connection.abort()
            if isinstance(error, TimeoutError | ConnectionLost):
                raise BrokerUnreachable(connection.address, "it does not say which cluster it belongs to") from error
            raise
        self._shared.reached(node)
        return connection

    async def control(self, node: int, *, within_s: float = PATIENCE_S) -> Connection:
        """Return the shared control connection to a broker, opening it if needed. Raises BrokerUnreachable."""
        return await self._shared.get(node, within_s=within_s)

    async def unreachable(self, nodes: Iterable[int], *, hurry: bool = False) -> dict[int, str]:
        """Try to connect to brokers, all at once; return the brokers that cannot be reached, each with the reason.

        `hurry`: also require an answer. A broker that is a second slower than the first, or was silent, fails.
        """
        silent = "no answer, long after another broker had answered"
        away = {node: f"broker {node} of cluster {self.alias!r}: {silent}" for node in nodes}

        async def ask(node: int) -> None:
            try:
                await (self._ask(node, []) if hurry else self.control(node))
            except (BrokerUnreachable, ConnectionLost) as error:
                away[node] = str(error)
                raise

        asked = [node for node in away if not (hurry and self._keeps_silent(node))]
        for node in await all_answers(asked, ask, grace_s=self._head_start_s if hurry else None):
            del away[node]
        return dict(sorted(away.items()))

    async def beside(self, node: int, name: str) -> Connection:
        """Return one of the other shared connections, always the same for a name. Raises BrokerUnreachable."""
        return await self._shared.get(node, 1 + crc32(name.encode()) % _BESIDE)

    async def any_connection(self) -> Connection:
        """Return a control connection to any broker, even if all addresses changed. Raises BrokerUnreachable."""
        try:
            return await self._known_connection()
        except BrokerUnreachable:
            await self._find()
            return await self._known_connection()

    async def _find(self) -> None:
        """Look for the brokers at the bootstrap addresses; calls during that time, or just after, share the result."""
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
                raise error.again()

    async def _known_connection(self) -> Connection:
        if not self.nodes:
            raise BrokerUnreachable(f"cluster {self.alias!r}", "no broker known")
        nodes = sorted(self.nodes, key=lambda node: (self._keeps_silent(node), not self._shared.is_connected(node)))
        return await first_answer(nodes, self.control, head_start_s=self._head_start_s)

    async def nth_connection(self, turn: int) -> Connection:
        """Return another connection for each turn, spread over the brokers; to any broker if that one is unreachable.

        There are five connections per broker; with more turns, some turns share one. Raises BrokerUnreachable.
        """
        nodes = [node for node in self.nodes if not self._keeps_silent(node)]
        if not turn or not nodes:
            return await self.any_connection()
        try:
            node, turn = nodes[turn % len(nodes)], turn // len(nodes) % (1 + _BESIDE)
            return await self._shared.get(node, turn, within_s=_PATIENCE_S)
        except BrokerUnreachable:
            return await self.any_connection()

    async def controller(self) -> Connection:
        """Return a connection to the controller; to any broker if the controller is unreachable or not named.

        With KRaft any broker forwards to the controller, and names some broker as controller.
        """
        controller = (await self.metadata([])).controller
        try:
            if controller in self._brokers:
                return await self.control(controller, within_s=_PATIENCE_S)
        except BrokerUnreachable:
            pass
        return await self.any_connection()

    async def coordinator_call(self, transactional_id: str, request: Request[Any]) -> Any:
        """Send a request to the coordinator of a transactional id, which is remembered until it fails.

        Its answers wait for replicas, so the ids are spread over several connections. One id always uses the same
        connection, which keeps its requests in order.
        """
        try:
            return await (await self._coordinator(transactional_id)).call(request)
        except (ConnectionLost, BrokerUnreachable):
            self.forget_coordinator(transactional_id)
            raise

    async def coordinator_knows(self, transactional_id: str, *requests: tuple[int, int]) -> bool:
        """Whether the coordinator of a transactional id speaks requests (key, version); other brokers may differ."""
        try:
            connection = await self._coordinator(transactional_id)
        except (ConnectionLost, BrokerUnreachable):
            self.forget_coordinator(transactional_id)
            raise
        return all(connection.supports(*request) for request in requests)

    async def _coordinator(self, transactional_id: str) -> Connection:
        node = self._coordinators.get(transactional_id)
        if node is None:
            node = self._coordinators[transactional_id] = await find_coordinator(self, transactional_id)
        try:
            return await self.beside(node, transactional_id)
        except BrokerUnreachable as error:
            who = f"broker {node} of cluster {self.alias!r}, which coordinates {transactional_id}"
            raise BrokerUnreachable(f"{who}: {error.address}", error.why) from None

    def forget_coordinator(self, transactional_id: str) -> None:
        """Look up the coordinator again next time."""
        self._coordinators.pop(transactional_id, None)


def _requests_of(topics: list[str]) -> Sequence[list[str]]:
    """Split topics into those of one request each; one request if there are none."""
    return list(parts(topics, _TOPICS_AT_ONCE)) or [[]]
