"""Six topologies, each one mirror of one `mm2.properties`: every copy compared, no record loops.

All of them use the same three clusters, one after another, under their own aliases and topics. Flows take every topic
of their topology by pattern, copies included: the name of a copy stops a loop, not a narrow pattern.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.conftest import Pair
from tests.harness.admin import admin, create_topics
from tests.harness.compare import assert_identical
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import numbered, produce
from tests.harness.ray_cluster import RayCluster

pytestmark = [pytest.mark.integration, pytest.mark.ray]

PARTITIONS = 2
COUNT = 200
"""Records of one partition in one go."""


class Topology(NamedTuple):
    """`copies`: cluster -> what stands before a topic's name there -> the cluster where it was written."""

    name: str
    aliases: tuple[str, ...]
    flows: tuple[tuple[str, str], ...]
    written: tuple[str, ...]
    copies: Mapping[str, Mapping[str, str]]

    def records(self, source: str, target: str, each: int) -> int:
        """Count what a flow copies when every written topic has `each` records."""
        return each * sum(prefix.startswith(f"{source}.") for prefix in self.copies.get(target, {}))

    def topics(self, alias: str, stem: str) -> set[str]:
        """Name the topics of a stem that a cluster has, once all is copied, and no others."""
        own = {stem} if alias in self.written else set()
        return own | {prefix + stem for prefix in self.copies.get(alias, {})}


TOPOLOGIES = (
    Topology(
        "active-passive",
        ("live", "standby"),
        (("live", "standby"),),
        ("live",),
        {"standby": {"live.": "live"}},
    ),
    Topology(
        "active-active",
        ("east", "west"),
        (("east", "west"), ("west", "east")),
        ("east", "west"),
        {"west": {"east.": "east"}, "east": {"west.": "west"}},
    ),
    Topology(
        "hub-spoke",
        ("hub", "rim1", "rim2"),
        (("hub", "rim1"), ("rim1", "hub"), ("hub", "rim2"), ("rim2", "hub")),
        ("hub", "rim1", "rim2"),
        {
            "hub": {"rim1.": "rim1", "rim2.": "rim2"},
            "rim1": {"hub.": "hub", "hub.rim2.": "rim2"},
            "rim2": {"hub.": "hub", "hub.rim1.": "rim1"},
        },
    ),
    Topology(
        "fan-out",
        ("origin", "left", "right"),
        (("origin", "left"), ("origin", "right")),
        ("origin",),
        {"left": {"origin.": "origin"}, "right": {"origin.": "origin"}},
    ),
    Topology(
        "chain",
        ("A", "B", "C"),
        (("A", "B"), ("B", "C")),
        ("A", "B"),
        {"B": {"A.": "A"}, "C": {"B.": "B", "B.A.": "A"}},
    ),
    Topology(
        "aggregation",
        ("north", "south", "centre"),
        (("north", "centre"), ("south", "centre")),
        ("north", "south"),
        {"centre": {"north.": "north", "south.": "south"}},
    ),
)


@pytest.fixture(scope="module")
def clusters(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedCluster, ...]]:
    """The session's two clusters and a third one, whose broker may be stopped."""
    with EmbeddedCluster("third", tmp_path_factory.mktemp("third")) as third:
        yield (*cluster_pair, third)


class Stage:
    """One topology on its clusters: fills them, runs the mirror, compares."""

    def __init__(
        self, topology: Topology, clusters: tuple[EmbeddedCluster, ...], ray: RayCluster, folder: Path
    ) -> None:
        self.topology = topology
        self.clusters = dict(zip(topology.aliases, clusters, strict=False))
        self._ray, self._folder = ray, folder
        self._each: dict[str, int] = {}

    async def create(self, stem: str) -> None:
        """Create a topic wherever the topology has writers."""
        for alias in self.topology.written:
            await create_topics(self.clusters[alias], {stem: PARTITIONS})

    async def fill(self, stem: str) -> None:
        """Append to a topic, other records in each cluster."""
        first = self._each.get(stem, 0)
        for number, alias in enumerate(self.topology.written):
            for partition in range(PARTITIONS):
                records = numbered(COUNT, first=first + 1_000_000 * number + 100_000 * partition)
                await produce(self.clusters[alias], stem, partition, records)
        self._each[stem] = first + COUNT

    @contextmanager
    def run(self) -> Iterator[LiveMirror]:
        """Run the mirror; at the end it drains."""
        flows = {f"{source}->{target}": f".*{self.topology.name}.*" for source, target in self.topology.flows}
        config = write_properties(self._folder / "mm2.properties", self.clusters, flows)
        live = LiveMirror(self._folder, config, env=self._ray.env)
        try:
            yield live
            live.end()
        finally:
            live.close()

    def records(self) -> dict[str, int]:
        """Say what each flow has copied when it is whole."""
        each = PARTITIONS * sum(self._each.values())
        return {f"{one}->{other}": self.topology.records(one, other, each) for one, other in self.topology.flows}

    async def assert_copies(self, *targets: str) -> None:
        """Compare every copy (on some clusters, else on all) with what was written, record by record."""
        for target in targets or self.topology.copies:
            for prefix, origin in self.topology.copies[target].items():
                for stem, each in self._each.items():
                    where = self.clusters[origin], self.clusters[target]
                    assert await assert_identical(*where, stem, prefix + stem) == each * PARTITIONS

    async def assert_no_other_topics(self) -> None:
        """No cluster has a copy that it should not have: of a copy of its own, above all."""
        for alias, cluster in self.clusters.items():
            async with admin(cluster) as client:
                found = {topic for topic in await client.list_topics() if self.topology.name in topic}
            assert found == set().union(*(self.topology.topics(alias, stem) for stem in self._each)), alias


def stage_of(name: str, clusters: tuple[EmbeddedCluster, ...], ray: RayCluster, folder: Path) -> Stage:
    return Stage(next(one for one in TOPOLOGIES if one.name == name), clusters, ray, folder)


def copiers_of(live: LiveMirror, flow: str) -> set[str]:
    return {one["copier_id"] for one in live.status["copiers"] if one["flow"] == flow}


@pytest.mark.parametrize(
    "name",
    [one.name if one.name == "hub-spoke" else pytest.param(one.name, marks=pytest.mark.full) for one in TOPOLOGIES],
)
async def test_every_copy_is_whole_and_nothing_goes_in_circles(
    name: str, clusters: tuple[EmbeddedCluster, ...], shared_ray: RayCluster, tmp_path: Path
) -> None:
    stage = stage_of(name, clusters, shared_ray, tmp_path)
    early, late = name, f"{name}-late"
    await stage.create(early)
    await stage.fill(early)
    with stage.run() as live:
        await asyncio.to_thread(live.until_whole, stage.records())
        # Each flow finds this one after it could see all copies of the other: they were no news to it.
        await stage.create(late)
        await stage.fill(late)
        await stage.fill(early)
        await asyncio.to_thread(live.until_whole, stage.records())
    assert {flow["flow"]: flow["records"] for flow in live.status["flows"]} == stage.records()
    await stage.assert_copies()
    await stage.assert_no_other_topics()


async def test_a_target_that_is_gone_leaves_the_other_flow_alone(
    clusters: tuple[EmbeddedCluster, ...], shared_ray: RayCluster, tmp_path: Path
) -> None:
    """Gone when the mirror starts, and gone again while it runs."""
    stage = stage_of("fan-out", clusters, shared_ray, tmp_path)
    stage.topology = stage.topology._replace(name="one-gone")
    right = stage.clusters["right"]
    await stage.create(stage.topology.name)
    await stage.fill(stage.topology.name)
    right.stop()
    try:
        with stage.run() as live:
            await goes_on_without_right(stage, live)
            away = f"{right.bootstrap_servers}: cannot connect"
            await asyncio.to_thread(live.until, lambda: away in live.said(), "it says who is away")
            await asyncio.to_thread(live.until, lambda: copiers_of(live, "origin->right"), "a copier waits")
            copiers, waiting = copiers_of(live, "origin->left"), copiers_of(live, "origin->right")
            right.restart(right.brokers[0])
            await asyncio.to_thread(live.until_whole, stage.records())
            assert waiting == copiers_of(live, "origin->right"), "a copier waits for its cluster, it does not end"
            right.stop()
            await stage.fill(stage.topology.name)
            await goes_on_without_right(stage, live)
            assert copiers_of(live, "origin->left") == copiers
            right.restart(right.brokers[0])
            await asyncio.to_thread(live.until_whole, stage.records())
        await stage.assert_copies()
        await stage.assert_no_other_topics()
    finally:
        if right.brokers[0].pid is None:
            right.restart(right.brokers[0])


async def goes_on_without_right(stage: Stage, live: LiveMirror) -> None:
    await asyncio.to_thread(live.until_whole, {"origin->left": stage.records()["origin->left"]})
    await stage.assert_copies("left")
    assert live.flow("origin->right")["records"] < stage.records()["origin->right"]
