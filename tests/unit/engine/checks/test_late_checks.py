"""Checks that a start could not make run before a flow starts."""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

import pytest

from engine.base.errors import BrokerUnreachable, ClusterAway, KafkaRefusal, NotReady
from engine.checks import late_checks
from engine.checks.late_checks import LateChecks
from engine.checks.mm2_preflight import Mm2Runs
from engine.checks.preflight import FlowPreview
from engine.config.settings import ConfigWarning, MirrorConfig
from engine.core.events.events import StartDoubt
from engine.kafka.client.metadata import BrokerAddress, Metadata, PartitionMeta, TopicMeta
from policies.model import FlowName
from tests.unit.engine.config_files import BASE, mirror

THREE = BASE.replace("clusters = A, B", "clusters = A, B, C") + "C.bootstrap.servers = c1:9092\n"
ROUND = mirror("B->C.enabled = true\ntopics = .*t\nreplication.policy.class = IdentityReplicationPolicy\n", THREE)
A_TO_B, B_TO_C = FlowName("A", "B"), FlowName("B", "C")
AWAY = ClusterAway("f:2: A.bootstrap.servers", "A", "refused")


class World:
    """Clusters: where each alias leads, what is wrong with a flow, and which are away."""

    def __init__(self) -> None:
        self.hosts = {"A": "one", "B": "two", "C": "three"}
        self.away: set[str] = set()
        self.problems: tuple[str, ...] = ()
        self.mm2: Exception | None = None
        self.previewed: list[FlowName] = []
        self.asked: list[str] = []

    def metadata(self, alias: str) -> Metadata:
        topics = {"t": TopicMeta(0, UUID(int=0), False, {0: PartitionMeta(1, 0, (1,))})}
        return Metadata(self.hosts[alias], 1, {1: BrokerAddress(self.hosts[alias], 9092, "")}, topics)

    async def preview(
        self, config: MirrorConfig, bear: Callable[[str, BrokerUnreachable], None], *, young: bool
    ) -> tuple[FlowPreview, ...]:
        assert young, "a cluster that has just come lists no group until it has loaded it"
        (flow,) = config.flows
        self.previewed.append(flow.name)
        for alias in flow.name:
            if alias in self.away:
                bear(alias, AWAY)
        if self.problems:
            raise NotReady(*self.problems)
        idle = (ConfigWarning(7, "topics", "matches nothing"),)
        return (FlowPreview(flow=flow.name, topics=(), left_out=0, doubts=("small disks",), idle=idle),)

    async def look_for_mm2(self, _config: MirrorConfig, flows: Sequence[FlowName]) -> tuple[ConfigWarning, ...]:
        if self.mm2 is not None:
            raise self.mm2
        return tuple(ConfigWarning(0, str(flow), "cannot tell of MM2") for flow in flows)


class Client:
    def __init__(self, world: World, alias: str) -> None:
        self.world, self.alias = world, alias

    async def open(self) -> None:
        self.world.asked.append(self.alias)
        if self.alias in self.world.away:
            raise AWAY

    async def metadata(self, _topics: None) -> Metadata:
        return self.world.metadata(self.alias)

    async def close(self) -> None:
        return None


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(late_checks, "asking_client", lambda _config, alias, _client_id: Client(world, alias))
    monkeypatch.setattr(late_checks, "preview", world.preview)
    monkeypatch.setattr(late_checks, "refuse_running_mm2", world.look_for_mm2)
    return world


async def test_a_flow_that_was_not_checked_is_checked_once_and_its_doubts_are_told(world: World) -> None:
    checks = LateChecks(mirror(), [A_TO_B])
    world.away = {"A"}
    with pytest.raises(ClusterAway):
        await checks.admit(A_TO_B)
    world.away = set()
    assert await checks.admit(A_TO_B) == tuple(
        StartDoubt(flow=A_TO_B, what=what)
        for what in (
            "mm2.properties: small disks",
            "mm2.properties: line 7: topics: matches nothing",
            "mm2.properties: cannot tell of MM2",
        )
    )
    assert await checks.admit(A_TO_B) == ()
    assert world.previewed == [A_TO_B, A_TO_B]


async def test_all_that_is_wrong_comes_in_one_line_and_the_flow_may_begin_when_it_is_mended(world: World) -> None:
    checks = LateChecks(mirror(), [A_TO_B])
    world.problems, world.mm2 = ("no right", "too many replicas"), Mm2Runs("A->B", "g", "B", "x")
    with pytest.raises(NotReady) as refused:
        await checks.admit(A_TO_B)
    assert str(refused.value) == f"no right; also: too many replicas; also: {world.mm2}"
    world.problems, world.mm2 = (), KafkaRefusal("reading positions", 29, "TopicAuthorizationFailed", "")
    with pytest.raises(KafkaRefusal):
        await checks.admit(A_TO_B)
    world.mm2 = None
    assert await checks.admit(A_TO_B)


async def test_where_the_start_checked_everything_nobody_is_asked(world: World) -> None:
    assert await LateChecks(mirror(), []).admit(A_TO_B) == ()
    assert (world.asked, world.previewed) == ([], [])


@pytest.mark.parametrize("gone", [(), ("A",)], ids=["all answer", "a cluster compared before has gone away"])
async def test_a_flow_that_would_close_a_circle_under_another_alias_does_not_begin(
    gone: tuple[str, ...], world: World
) -> None:
    """A and C are one cluster, which no flow sees alone: t would go from A to B and come back to A as C."""
    checks = LateChecks(ROUND, [B_TO_C])
    world.hosts["C"] = "one"
    assert await checks.admit(A_TO_B) == (), "`run` checked it"
    world.away = set(gone)
    with pytest.raises(NotReady, match="'A' and 'C' lead to one cluster, so topic 't' would come back there"):
        await checks.admit(B_TO_C)
    world.hosts["C"] = "three"
    assert await checks.admit(B_TO_C)
    assert world.previewed == [B_TO_C, B_TO_C]


async def test_one_that_was_checked_and_comes_last_does_not_close_it_either(world: World) -> None:
    checks = LateChecks(ROUND, [B_TO_C])
    world.hosts["C"] = "one"
    assert await checks.admit(B_TO_C)
    with pytest.raises(NotReady, match="lead to one cluster"):
        await checks.admit(A_TO_B)
    world.away = {"A"}
    with pytest.raises(ClusterAway):
        await checks.admit(A_TO_B)


async def test_flows_that_come_together_are_compared_one_after_the_other(world: World) -> None:
    checks = LateChecks(ROUND, [A_TO_B, B_TO_C])
    world.hosts["C"] = "one"
    first, second = await asyncio.gather(checks.admit(A_TO_B), checks.admit(B_TO_C), return_exceptions=True)
    assert sorted((isinstance(first, NotReady), isinstance(second, NotReady))) == [False, True]
