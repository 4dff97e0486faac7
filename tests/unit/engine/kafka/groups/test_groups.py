"""Groups at coordinators that move, load, fail and are old; the contract tests have the ordinary cases."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.ports.ports import GroupListing
from engine.kafka.client.metadata import NO_ID, Metadata, PartitionMeta, TopicMeta
from engine.kafka.groups import groups as module
from engine.kafka.groups.groups import KafkaGroups
from engine.kafka.groups.reachable_groups import ReachableGroups
from policies.grants.rights import Grantee
from policies.groups import GroupState
from policies.model import TopicPartition

MOVED, LOADING, AWAY, REFUSED = 16, 14, 15, 30
GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION = 69, 35
RETENTION = "offsets.retention.minutes"
T0 = TopicPartition("t", 0)
CURRENT = {8: (2, 8), 9: (1, 8), 10: (0, 4), 15: (0, 3), 16: (0, 5), 69: (0, 1)}
OLD = {8: (0, 3), 9: (0, 3), 10: (0, 1), 15: (0, 0), 16: (0, 2)}


class Row:
    """An answer with any fields."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ |= fields


class Broker:
    """A connection that answers by the name of the request's class; a list is answered one after the other."""

    def __init__(self, versions: dict[int, tuple[int, int]], **answers: Any) -> None:
        self.versions = versions
        self.answers = answers
        self.asked: list[str] = []
        self.waited: list[float] = []

    def supports(self, key: int, version: int) -> bool:
        low, high = self.versions.get(key, (0, -1))
        return low <= version <= high

    async def request(self, *_asked: Any) -> Any:
        self.waited.append(_asked[-1])
        raise KafkaRefusal("offsets", REFUSED, "", "")

    async def call(self, request: Any, timeout_s: float = 30.0) -> Any:
        name = type(request).__name__
        self.asked.append(name)
        self.waited.append(timeout_s)
        request.prepare(self.versions)
        found = self.answers.get(name, ConnectionLost("h:1"))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        return found(request) if callable(found) else found


class Client:
    """The part of ClusterClient that groups need."""

    alias = "b"
    grantee = Grantee("b", "mirror")

    def __init__(self, brokers: dict[int, Broker]) -> None:
        self.brokers = brokers
        self.away: set[int] = set()

    @property
    def nodes(self) -> list[int]:
        return sorted(self.away | self.brokers.keys())

    async def control(self, node: int) -> Broker:
        if node not in self.brokers:
            raise BrokerUnreachable(f"broker {node}", "down")
        return self.brokers[node]

    async def any_connection(self) -> Broker:
        return self.brokers[1]

    async def metadata(self, topics: list[str] | None) -> None:
        return None


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def none(_seconds: float) -> None:
        return None

    monkeypatch.setattr(module, "pause", none)


def found_at(**nodes: int) -> Callable[[Any], Row]:
    """Answer FindCoordinators: node by group; a negative one is an error code."""

    def answer(request: Any) -> Row:
        rows: list[Any] = [
            (group, max(nodes[group], -1), "", 0, max(0, -nodes[group]), "", {}) for group in request.fields[1]
        ]
        return Row(coordinators=rows)

    return answer


def told(*codes: int) -> Row:
    rows: list[Any] = [(number, code, {}) for number, code in enumerate(codes)]
    return Row(topics=[("t", rows, {})])


def port(brokers: dict[int, Broker], patience_s: float = 30.0) -> KafkaGroups:
    return KafkaGroups(Client(brokers), patience_s=patience_s)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [MOVED, LOADING, AWAY])
async def test_a_coordinator_that_moves_is_looked_up_again(code: int) -> None:
    broker = Broker(CURRENT, FindCoordinators=found_at(g=1), CommitOffsets=[told(code), told(0)])
    assert await port({1: broker}).commit("g", {T0: (1, "")}) == {}
    assert broker.asked == ["FindCoordinators", "CommitOffsets"] * 2


async def test_a_lost_connection_is_tried_again() -> None:
    broker = Broker(CURRENT, FindCoordinators=found_at(g=1), CommitOffsets=[ConnectionLost("h:1"), told(0)])
    assert await port({1: broker}).commit("g", {T0: (1, "")}) == {}


async def test_patience_ends_and_the_reason_is_told() -> None:
    broker = Broker(CURRENT, FindCoordinators=found_at(g=1), CommitOffsets=told(AWAY))
    with pytest.raises(ConnectionLost, match=r"group g .*\(15\)"):
        await port({1: broker}, patience_s=0.0).commit("g", {T0: (1, "")})


async def test_a_commit_that_is_refused_names_each_partition() -> None:
    broker = Broker(CURRENT, FindCoordinators=found_at(g=1), CommitOffsets=told(REFUSED, 0))
    refused = await port({1: broker}).commit("g", {T0: (1, ""), TopicPartition("t", 1): (1, "")})
    assert list(refused) == [T0]
    assert "(30)" in refused[T0]


async def test_one_failing_group_fails_alone() -> None:
    broker = Broker(
        CURRENT,
        FindCoordinators=found_at(a=1, b=-REFUSED, c=2, d=1),
        ConsumerGroupDescribe=lambda request: Row(
            groups=[(REFUSED if one == "d" else 0, "", one, "Stable", 0, 0, "", [], 0, {}) for one in request.fields[0]]
        ),
    )
    answers = await port({1: broker}, patience_s=0.0).states(["a", "b", "c", "d"])
    assert answers.found == {"a": GroupState.ACTIVE}
    assert answers.failed.keys() == {"b", "c", "d"}
    assert "down" in answers.failed["c"]
    assert all("(30)" in answers.failed[group] for group in "bd")


@pytest.mark.parametrize("code", [GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION])
async def test_a_group_that_the_newer_protocol_does_not_know_is_asked_for_by_the_older_one(code: int) -> None:
    broker = Broker(
        CURRENT,
        FindCoordinators=found_at(a=1, b=1),
        ConsumerGroupDescribe=lambda request: Row(
            groups=[(code, "", group, "", 0, 0, "", [], 0, {}) for group in request.fields[0]]
        ),
        DescribeGroups=lambda request: Row(
            groups=[(0, g, "Empty" if g == "a" else "Dead", "consumer", "", [], 0) for g in request.fields[0]]
        ),
    )
    answers = await port({1: broker}).states(["a", "b"])
    assert (answers.found, answers.failed) == ({"a": GroupState.INACTIVE, "b": GroupState.ABSENT}, {})


async def test_no_coordinator_can_be_looked_up() -> None:
    broker = Broker(CURRENT, FindCoordinators=ConnectionLost("h:1"))
    answers = await port({1: broker}, patience_s=0.0).states(["a"])
    assert (answers.found, list(answers.failed)) == ({}, ["a"])


async def test_old_brokers_are_asked_group_by_group() -> None:
    rows = [("t", [(0, 5, "m", 0), (1, -1, "", 0), (2, 6, None, 3)])]
    broker = Broker(
        OLD,
        FindCoordinatorRequest=Row(coordinator_id=1, error_code=0),
        OffsetFetchRequest=Row(topics=rows, error_code=0),
        DescribeGroups=lambda request: Row(groups=[(0, g, "Empty", "consumer", "", []) for g in request.fields[0]]),
        ListGroups=Row(error_code=0, groups=[("g", "consumer"), ("s", None)]),
        CommitOffsets=Row(topics=[("t", [(0, 0)])]),
    )
    old = port({1: broker})
    assert (await old.offsets(["g", "h"])).found == {"g": {T0: (5, "m")}, "h": {T0: (5, "m")}}
    assert (await old.states(["g"])).found == {"g": GroupState.INACTIVE}
    assert (await old.list_groups()).groups == [GroupListing("g", "consumer"), GroupListing("s", "")]
    assert await old.commit("g", {T0: (1, "")}) == {}


async def test_listing_waits_for_a_loading_broker_and_no_longer() -> None:
    loading, listed = Row(error_code=LOADING, groups=[]), Row(error_code=0, groups=[("g", "consumer", "Empty", {})])
    broker = Broker({16: (0, 4)}, ListGroups=[loading, listed])
    answer = await port({1: broker}).list_groups()
    assert (answer.groups, answer.loading) == ([GroupListing("g", "consumer")], True)
    with pytest.raises(ConnectionLost, match="groups of broker 1"):
        await port({1: Broker(CURRENT, ListGroups=loading)}, patience_s=0.0).list_groups()
    with pytest.raises(KafkaRefusal, match="grant Describe"):
        await port({1: Broker(CURRENT, ListGroups=Row(error_code=31, groups=[]))}).list_groups()


async def test_a_broker_that_cannot_be_reached_hides_no_groups_of_others() -> None:
    rows: list[Any] = [("g", "consumer", "Empty", "Classic", {})]
    client = Client({1: Broker(CURRENT, ListGroups=Row(error_code=0, groups=rows))})
    client.away = {3}
    groups = KafkaGroups(client, patience_s=0.0)  # type: ignore[arg-type]
    listed = await groups.list_groups()
    assert [one.group for one in listed.groups] == ["g"]
    assert listed.unheard == {3: "broker 3: cannot connect: down"}
    client.brokers = {}
    with pytest.raises(BrokerUnreachable, match="broker 3"):
        await groups.list_groups()


async def test_groups_of_a_coordinator_that_stays_away_fail_at_once_and_the_others_are_answered() -> None:
    broker = Broker(
        CURRENT,
        FindCoordinators=found_at(a=1, b=3, c=3),
        ConsumerGroupDescribe=lambda request: Row(
            groups=[(0, "", group, "Stable", 0, 0, "", [], 0, {}) for group in request.fields[0]]
        ),
    )
    client = Client({1: broker})
    groups = KafkaGroups(client, away_s=0.0)  # type: ignore[arg-type]
    for _ in range(2):
        answers = await groups.states(["a", "b", "c"])
        assert answers.found == {"a": GroupState.ACTIVE}
        assert answers.away == {"b": 3, "c": 3}
        assert answers.failed["b"] == "group b: its coordinator is broker 3: broker 3: cannot connect: down"
    client.brokers[3] = broker
    answers = await groups.states(["a", "b", "c"])
    assert (answers.failed, answers.away) == ({}, {})


async def test_one_answer_may_not_take_all_of_the_patience() -> None:
    """Else a coordinator that is frozen is asked once, and nobody looks where its groups are by then."""
    broker = Broker(CURRENT, FindCoordinators=found_at(g=1), CommitOffsets=told(0))
    assert await port({1: broker}, patience_s=8.0).commit("g", {T0: (1, "")}) == {}
    with pytest.raises(KafkaRefusal):
        await port({1: broker}, patience_s=8.0).offsets(["g"])
    assert set(broker.waited) == {4.0}


async def test_the_shortest_retention_counts_of_the_brokers_that_answer() -> None:
    def told(minutes: str) -> Broker:
        entries: list[Any] = [(RETENTION, minutes)]
        return Broker({32: (0, 2)}, DescribeConfigsRequest=Row(resources=[(0, "", 4, "1", entries)]))

    client = Client({2: told("60"), 5: told("30")})
    client.away = {1}
    assert await KafkaGroups(client).retention_s() == 1800.0  # type: ignore[arg-type]
    client.brokers = {}
    with pytest.raises(BrokerUnreachable, match="broker 1"):
        await KafkaGroups(client).retention_s()  # type: ignore[arg-type]


async def test_the_types_of_groups_are_told_in_small_letters() -> None:
    rows: list[Any] = [("g", "consumer", "Empty", "Classic", {}), ("s", "share", "Empty", "Share", {})]
    broker = Broker(CURRENT, ListGroups=Row(error_code=0, groups=rows))
    found = (await port({1: broker}).list_groups()).groups
    assert [(one.group, one.kind) for one in found] == [("g", "classic"), ("s", "share")]


@pytest.mark.parametrize(
    ("code", "entries", "expected"), [(0, [(RETENTION, "60")], 3600.0), (0, [(RETENTION, None)], None), (31, [], None)]
)
async def test_retention_is_known_where_we_may_ask(code: int, entries: list[Any], expected: float | None) -> None:
    broker = Broker({32: (0, 2)}, DescribeConfigsRequest=Row(resources=[(code, "", 4, "1", entries)]))
    assert await port({1: broker}).retention_s() == expected


# --- some brokers are away ------------------------------------------------------------------------------------


def listed(*groups: str) -> Row:
    return Row(error_code=0, groups=[(group, "consumer", "Stable", "classic", {}) for group in groups])


class Half(Client):
    """Broker 3 is in the metadata and away; partition 1 of the commits has no leader."""

    @property
    def nodes(self) -> list[int]:
        return [*self.brokers, 3]

    async def metadata(self, topics: list[str] | None) -> Any:
        leaders = {0: PartitionMeta(1, 0, (1,)), 1: PartitionMeta(-1, 0, (3,))}
        return Metadata("id", 1, {}, {name: TopicMeta(0, NO_ID, True, leaders) for name in topics or ()})


async def test_a_broker_that_is_away_hides_its_own_groups_only() -> None:
    groups = ReachableGroups(Half({1: Broker(CURRENT, ListGroups=listed("g"))}), patience_s=5.0)  # type: ignore[arg-type]
    assert [one.group for one in (await groups.list_groups()).groups] == ["g"]
    assert groups.missing.keys() == {
        "broker 3 of cluster 'b'",
        "1 partition of __consumer_offsets of cluster 'b'",
    }
    nobody = ReachableGroups(Half({}), patience_s=5.0)  # type: ignore[arg-type]
    with pytest.raises(BrokerUnreachable, match="broker 3"):
        await nobody.list_groups()


# --- share groups -----------------------------------------------------------------------------------------------------


async def test_share_groups_say_where_they_start() -> None:
    partitions: list[Any] = [(0, 7, 1, 0, None, {}), (1, -1, 0, 3, "unknown", {})]
    told_of: list[Any] = [("g", [("t", NO_ID, partitions, {})], 0, None, {})]
    broker = Broker({**CURRENT, 90: (0, 0)}, FindCoordinators=found_at(g=1), DescribeShareOffsets=Row(groups=told_of))
    found = await port({1: broker}).share_offsets(["g"])
    assert (found.found, found.failed) == ({"g": {T0: (7, "")}}, {})


async def test_a_broker_that_cannot_say_where_share_groups_start() -> None:
    broker = Broker(CURRENT, FindCoordinators=found_at(g=1))
    found = await port({1: broker}).share_offsets(["g"])
    assert found.found == {}
    assert "(35)" in found.failed["g"]
