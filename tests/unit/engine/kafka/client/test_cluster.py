"""Metadata that many lanes share: requested once a second, and again when a leader was wrong."""

import asyncio
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import pytest
from aiokafka.protocol.transaction import InitProducerIdRequest

from engine.base.errors import BrokerUnreachable, ConnectionLost, OtherCluster
from engine.base.tasks import run_all
from engine.config.security import HandshakeOptions
from engine.kafka.client import cluster, silence
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.connection import Connection
from engine.kafka.client.coordinators import find_coordinator
from engine.kafka.client.metadata import NO_ID, BrokerAddress, Metadata, PartitionMeta, TopicMeta
from policies.model import TopicPartition
from tests.fakes.brokers import turns

T = TypeVar("T")


class Client(ClusterClient):
    """A client that counts what it asks."""

    def __init__(self) -> None:
        super().__init__("a", [("h", 1)], HandshakeOptions(client_id="c", timeout_s=1.0))
        self.asked: list[list[str]] = []
        self.missing: set[str] = set()

    async def metadata(self, topics: list[str] | None) -> Metadata:
        assert topics is not None
        self.asked.append(topics)
        known = {name: TopicMeta(0, NO_ID, False, {0: PartitionMeta(1, 1, (1,))}) for name in topics}
        gone = {name: TopicMeta(3, NO_ID, False, {}) for name in topics if name in self.missing}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics=known | gone)


@pytest.fixture
def _just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes, what it did was just now."""
    for name in ("_RECENT_S", "_SHUT_S"):
        monkeypatch.setattr(cluster, name, 3600.0)


@pytest.mark.usefixtures("_just_now")
async def test_what_was_asked_just_now_is_not_asked_again() -> None:
    client = Client()
    assert (await client.recent(["t"])).topics.keys() == {"t"}
    assert (await client.recent(["t", "u"])).topics.keys() == {"t", "u"}
    assert (await client.recent(["u"])).topics.keys() == {"u"}
    assert client.asked == [["t"], ["u"]]


async def test_what_was_asked_a_while_ago_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_RECENT_S", 0.0)
    client = Client()
    for _ in range(2):
        await client.recent(["t"])
    assert client.asked == [["t"], ["t"]]


@pytest.mark.usefixtures("_just_now")
@pytest.mark.parametrize("error", [ConnectionLost("h:1"), BrokerUnreachable("h:1", "down")])
async def test_a_leader_that_was_wrong_is_asked_for_anew(error: Exception) -> None:
    client = Client()
    await client.recent(["t", "u"])
    with pytest.raises(type(error)), client.believing(["t"]):
        raise error
    await client.recent(["t", "u"])
    assert client.asked == [["t", "u"], ["t"]]


async def test_a_topic_that_was_not_there_may_be_there_now() -> None:
    client = Client()
    client.missing = {"t"}
    assert (await client.recent(["t"])).topics["t"].partitions == {}
    client.missing = set()
    assert (await client.recent(["t"])).topics["t"].partitions != {}


async def test_those_who_wait_for_an_answer_share_the_next_one() -> None:
    """Thousands of lanes that begin at once ask for a topic each."""
    client = Client()
    may_answer = asyncio.Event()
    answer = client.metadata

    async def slow(topics: list[str] | None) -> Metadata:
        await may_answer.wait()
        return await answer(topics)

    client.metadata = slow  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as group:
        asking = [group.create_task(client.recent([f"t{number}"])) for number in range(50)]
        await turns()
        may_answer.set()
    assert [list(one.result().topics) for one in asking] == [[f"t{number}"] for number in range(50)]
    assert len(client.asked) == 2
    assert client.asked[0] + client.asked[1] == ["t0", *sorted(f"t{number}" for number in range(1, 50))]


class Open:
    """A connection that does nothing but close."""

    is_stale = False

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


class Connecting(Client):
    """A client that counts its connections."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[int, Open]] = []

    async def open_connection(self, node: int) -> Any:
        self.opened.append((node, Open()))
        return self.opened[-1][1]


async def test_a_few_connections_lie_beside_the_shared_one() -> None:
    client = Connecting()
    shared = await client.control(1)
    beside = [await client.beside(1, f"lane-{number}") for number in range(100)]
    assert shared not in beside
    assert [await client.beside(1, f"lane-{number}") for number in range(100)] == beside
    assert len(client.opened) == 1 + cluster._BESIDE
    assert await client.beside(2, "lane-0") not in beside
    assert await client.control(1) is shared
    await client.close()
    assert all(one.closed.is_set() for _, one in client.opened)


async def test_a_connection_that_was_lost_is_opened_anew() -> None:
    client = Connecting()
    lost = await client.beside(1, "lane")
    await lost.close()
    assert await client.beside(1, "lane") is not lost


# --- brokers that answer late, or never --------------------------------------------------------------------------


class Brokers(ClusterClient):
    """A client of brokers 1 to 3 whose connections are opened by the test."""

    def __init__(self) -> None:
        super().__init__("a", [("h", 1)], HandshakeOptions(client_id="c", timeout_s=1.0))
        self._brokers = {node: BrokerAddress("h", node, "") for node in (1, 2, 3)}
        self.opened: list[int] = []
        self.mute = asyncio.Event()

    async def open_connection(self, node: int) -> Connection:
        self.opened.append(node)
        if node == 1:
            await self.mute.wait()
            raise BrokerUnreachable("h:1", "no answer")
        return Connection("h", node, "c", {InitProducerIdRequest.API_KEY: (0, 1)})


@pytest.mark.usefixtures("_just_now")
async def test_all_who_wait_for_a_mute_broker_share_one_attempt() -> None:
    client, refused = Brokers(), list[str]()

    async def ask() -> None:
        try:
            await client.control(1)
        except BrokerUnreachable as error:
            refused.append(str(error))

    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(ask())
        await turns()
        client.mute.set()
    assert (client.opened, refused) == ([1], ["h:1: cannot connect: no answer"] * 5)


async def test_a_broker_that_could_not_be_reached_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_SHUT_S", 0.0)
    client = Brokers()
    client.mute.set()
    for _ in range(2):
        with pytest.raises(BrokerUnreachable):
            await client.control(1)
    assert client.opened == [1, 1]


async def test_coordinators_are_asked_on_a_connection_of_their_own() -> None:
    client = Brokers()
    await client.control(2)
    await client.control(2)
    client._coordinators["id"] = 2
    with pytest.raises(ConnectionLost):  # it leads nowhere
        await client.coordinator_call("id", InitProducerIdRequest("id", 1000))
    assert client.opened == [2, 2]


async def test_a_broker_that_keeps_its_metadata_to_itself_is_left_for_the_next_and_asked_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    async def answer(connection: Connection, _topics: list[str] | None) -> Metadata:
        asked.append(connection.port)
        return Metadata(cluster_id="i", controller=1, brokers={}, topics={})

    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(cluster, "ask_metadata", answer)
    client = Brokers()
    for _ in range(3):
        await client.metadata([])
    assert client.opened.count(1) == 1  # the first one to be asked, and then the last
    assert len(asked) == 3
    assert 1 not in asked


async def test_many_topics_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def answer(_connection: Connection, topics: list[str] | None) -> Metadata:
        asked.append(len(topics or ()))
        known = {name: TopicMeta(0, NO_ID, False, {}) for name in topics or ()}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics=known)

    monkeypatch.setattr(cluster, "ask_metadata", answer)
    monkeypatch.setattr(cluster, "_PATIENCE_S", 0.05)
    client = Brokers()
    names = [f"t{number}" for number in range(4500)]
    assert list((await client.metadata(names)).topics) == names
    assert asked == [2000, 2000, 500]
    asked.clear()
    del client._brokers[1]  # it does not answer
    assert await client.survey(names)
    assert sum(asked) == 4500 * len(client._brokers)
    assert max(asked) == 2000


class Silent(ClusterClient):
    """A client that is connected to brokers 1 to 3, the first of which takes requests and never answers one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("a", [("h", 1)], HandshakeOptions(client_id="c", timeout_s=1.0))
        self._brokers = {node: BrokerAddress("h", node, "") for node in (1, 2, 3)}
        self.asked: list[int] = []
        monkeypatch.setattr(cluster, "_PATIENCE_S", 3600.0)
        monkeypatch.setattr(silence, "_SLOW_S", 3600.0)
        monkeypatch.setattr(cluster, "_HEAD_START_S", 0.01)
        monkeypatch.setattr(cluster, "ask_metadata", self.tell)

    async def open_connection(self, node: int) -> Connection:
        connection = Connection("h", node, "c", {})
        vars(connection)["call"] = lambda _request: self.answer(node, SimpleNamespace(error_code=0, coordinator_id=3))
        return connection

    async def tell(self, connection: Connection, topics: list[str] | None) -> Metadata:
        led = TopicMeta(0, UUID(int=7), False, {0: PartitionMeta(2, 5, (2, 3))})
        told = Metadata(cluster_id="i", controller=1, brokers={}, topics=dict.fromkeys(topics or (), led))
        return await self.answer(connection.port, told)

    async def answer(self, node: int, what: T) -> T:
        self.asked.append(node)
        if node == 1:
            await asyncio.Event().wait()
        return what


async def test_what_any_broker_tells_is_asked_of_the_next_one_while_the_first_keeps_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Silent(monkeypatch)
    assert (await client.metadata(["t"])).leader(TopicPartition("t", 0)) == (2, 5)
    assert client.asked == [1, 2]
    for _ in range(3):
        await client.metadata([])
    assert client.asked.count(1) == 1, "it is asked last for a while"


async def test_a_coordinator_is_found_while_a_broker_keeps_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Silent(monkeypatch)
    assert await find_coordinator(client, "id") == 3
    assert client.asked == [1, 2]


async def test_who_is_in_a_hurry_takes_a_silent_broker_for_one_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Silent(monkeypatch)
    away = await client.unreachable([1, 2], hurry=True)
    assert away == {1: "broker 1 of cluster 'a': no answer, long after another broker had answered"}
    assert await client.unreachable([1, 2], hurry=True) == away
    assert not await client.survey(["t"], hurry=True)
    assert sorted(client.asked) == [1, 2, 2], "what is known to keep silent is not asked again"
    assert await client.unreachable([1, 2]) == {}, "who is not needs a connection only"


async def test_a_survey_in_a_hurry_does_not_wait_for_a_silent_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Silent(monkeypatch)
    assert not await client.survey(["t"], hurry=True)
    assert sorted(client.asked) == [1, 2, 3]


async def test_a_survey_asks_every_broker_and_keeps_the_newest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = {2: 5, 3: 4}

    async def answer(connection: Connection, topics: list[str] | None) -> Metadata:
        led = PartitionMeta(connection.port, epochs[connection.port], (2, 3))
        known = {name: TopicMeta(0, UUID(int=7), False, {0: led}) for name in topics or ()}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics=known)

    monkeypatch.setattr(cluster, "ask_metadata", answer)
    client = Brokers()
    client.mute.set()
    assert not await client.survey(["t"])  # one does not answer
    assert sorted(client.opened) == [1, 2, 3]
    del client._brokers[1]
    assert await client.survey(["t"])
    for _ in range(2):  # whichever broker is asked now
        assert (await client.metadata(["t"])).leader(TopicPartition("t", 0)) == (2, 5)
    epochs |= {2: 1, 3: 1}  # restored from an earlier state
    for _ in range(2):
        assert (await client.metadata(["t"])).leader(TopicPartition("t", 0)) == (2, 5)
    client._brokers[1] = client._brokers[2]
    assert not await client.survey(["t"])  # one does not answer, and may know better
    assert (await client.metadata(["t"])).leader(TopicPartition("t", 0)) == (2, 5)
    del client._brokers[1]
    assert await client.survey(["t"])
    assert (await client.metadata(["t"])).leader(TopicPartition("t", 0))[1] == 1


@pytest.mark.parametrize(
    ("ids", "agreed"),
    [
        ({1: 7, 2: 7, 3: 7}, True),
        ({2: 7, 3: 7}, True),
        ({1: 7, 2: 7, 3: 8}, False),
        ({2: 7, 3: 8}, False),
        ({1: 7}, False),
        ({}, False),
    ],
)
async def test_an_id_is_settled_when_most_brokers_answer_and_all_of_them_agree(
    monkeypatch: pytest.MonkeyPatch, ids: dict[int, int], agreed: bool
) -> None:
    async def answer(connection: Connection, topics: list[str] | None) -> Metadata:
        if connection.port not in ids:
            raise ConnectionLost(f"h:{connection.port}")
        known = {name: TopicMeta(0, UUID(int=ids[connection.port]), False, {}) for name in topics or ()}
        return Metadata(cluster_id="i", controller=1, brokers={}, topics=known)

    monkeypatch.setattr(cluster, "ask_metadata", answer)
    client = Brokers()
    client.mute.set()
    if agreed:
        assert await client.settled_id("t") == UUID(int=7)
    else:
        with pytest.raises(ConnectionLost, match="topic t on cluster 'a': its brokers do not agree on its id"):
            await client.settled_id("t")


class Moved(ClusterClient):
    """A client whose brokers are not where they were; the bootstrap addresses tell where they are now, or nothing."""

    def __init__(self, *, told: bool) -> None:
        super().__init__("a", [("h", 1)], HandshakeOptions(client_id="c", timeout_s=1.0))
        self._brokers = {1: BrokerAddress("before", 1, "")}
        self.told, self.asked = told, 0

    async def open(self) -> Metadata:
        self.asked += 1
        await turns()
        if not self.told:
            raise BrokerUnreachable("cluster 'a'", "h:1: refused")
        self._brokers = {1: BrokerAddress("now", 1, "")}
        self._shared.forgive()
        return Metadata(cluster_id="i", controller=1, brokers=self._brokers, topics={})

    async def open_connection(self, node: int) -> Connection:
        if (host := self._brokers[node].host) == "before":
            raise BrokerUnreachable("before:1", "refused")
        return Connection(host, node, "c", {})


@pytest.mark.usefixtures("_just_now")
async def test_brokers_that_have_moved_are_found_again_by_all_who_ask_at_once() -> None:
    client, found = Moved(told=True), list[str]()

    async def ask() -> None:
        found.append((await client.any_connection()).host)

    await run_all(*(ask() for _ in range(5)))
    assert (found, client.asked) == (["now"] * 5, 1)


@pytest.mark.usefixtures("_just_now")
async def test_who_asks_while_no_broker_is_found_shares_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Moved(told=False)
    for _ in range(3):
        with pytest.raises(BrokerUnreachable, match="h:1: refused"):
            await client.any_connection()
    assert client.asked == 1
    monkeypatch.setattr(cluster, "_SHUT_S", 0.0)
    client.told = True
    assert (await client.any_connection()).host == "now"


async def test_every_broker_has_its_turn_to_tell_who_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is cut off from its controller tells of the past, for ever."""
    client = Silent(monkeypatch)
    del client._brokers[1]
    await client.control(2)
    for _ in range(3):
        await client.metadata(["t"])
    assert set(client.asked) == {2, 3}


async def test_a_connection_on_which_nothing_comes_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Silent(monkeypatch)
    monkeypatch.setattr(silence, "_DEAD_S", 0.0)
    monkeypatch.setattr(silence, "_SLOW_S", 0.0)
    before = await client.control(1)
    for _ in range(2):
        assert await client.unreachable([1, 2], hurry=True)
    assert await client.control(1) is not before


@pytest.mark.usefixtures("_just_now")
async def test_a_broker_of_another_cluster_is_told_from_one_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Brokers()

    async def other(node: int) -> Connection:
        raise OtherCluster("h:1", "found", "meant", "right")

    monkeypatch.setattr(client._shared, "_open", other)
    with pytest.raises(OtherCluster):
        await client._known_connection()
