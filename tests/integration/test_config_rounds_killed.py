"""Processes killed in the middle of a round that Spark plans: nothing is left out, nothing done is repeated.

A request that is in flight when its process dies may be sent once more, with the same values: the test counts those.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bench.configsync.requests import RequestLog
from deploy.local.cluster import EmbeddedCluster, start_clusters
from engine.base.clock import wall_ms
from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from tests.conftest import Pair
from tests.harness.admin import create_topics, own_configs, set_each
from tests.harness.live import LiveMirror, write_properties
from tests.harness.ray_cluster import RayCluster
from tests.harness.ray_node import kill_and_wait
from tests.integration.test_spark import READY_S, SETTINGS, processes
from tests.integration.test_spark_faults import executors_of, host_of

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.fault, pytest.mark.full]

FLOW = "meant->made"
TOPICS = [f"killed-{number:03}" for number in range(2 * TOPICS_AT_ONCE + 50)]
"""More than two parts of an apply."""
COPIES = [f"meant.{name}" for name in TOPICS]
ROUND = {"sync.topic.configs.interval.seconds": "5", "sync.topic.acls.enabled": "false"}
Sent = Counter[tuple[str, str, str | None]]
Victims = Callable[[RayCluster], list[psutil.Process]]


def metadata_of(ray: RayCluster) -> list[psutil.Process]:
    return processes(ray, "ray::MetadataActor")


def supervisor_of(ray: RayCluster) -> list[psutil.Process]:
    return processes(ray, "ray::SupervisorActor")


def sent_to(cluster: EmbeddedCluster) -> Sent:
    """Count what config sync has asked the brokers to set (None: remove), by copy, config and value."""
    found: Sent = Counter()
    for path in cluster.log_files:
        for line in path.read_text(errors="replace").splitlines():
            _, mark, text = line.partition("Completed request:")
            if not mark or '"INCREMENTAL_ALTER_CONFIGS"' not in text:
                continue
            one, _ = json.JSONDecoder().raw_decode(text)
            if one.get("isForwarded") or "|configs" not in one["requestHeader"]["clientId"]:
                continue
            for resource in one["request"]["resources"]:
                for config in resource["configs"]:
                    found[resource["resourceName"], config["name"], config["value"]] += 1
    return found


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Clusters of this module's own: other tests need not look at so many topics."""
    folder = tmp_path_factory.mktemp("many")
    pair = Pair(*(EmbeddedCluster(name, folder / name) for name in ("many-source", "many-target")))
    start_clusters(*pair)
    try:
        yield pair
    finally:
        for cluster in pair:
            cluster.stop()


@pytest.fixture(scope="module")
def live(many: Pair, shared_ray: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveMirror]:
    folder: Path = tmp_path_factory.mktemp("rounds-killed")
    asyncio.run(create_topics(many.source, dict.fromkeys(TOPICS, 1)))
    clusters = {"meant": many.source, "made": many.target}
    config = write_properties(folder / "mm2.properties", clusters, {FLOW: "killed-.*"}, {**SETTINGS, **ROUND})
    mirror, log = LiveMirror(folder, config, env=shared_ray.env), RequestLog(many.target)
    try:
        mirror.until(lambda: mirror.flow(FLOW)["lanes"] == len(TOPICS), "all have copies", READY_S)
        log.switch(on=True)
        yield mirror
    finally:
        mirror.close()
        log.switch(on=False)


def spark_plans(live: LiveMirror) -> Callable[[], bool]:
    return lambda: (live.flow(FLOW)["configs"] or {"by": ""})["by"] == "spark"


def await_round(live: LiveMirror) -> None:
    """Wait for the end of a round that ends after this moment, by when the supervisor knows what the topics had."""
    now_ms = wall_ms()
    live.until(lambda: live.flow(FLOW)["configs"]["at_ms"] > now_ms + 2000, "another round", READY_S)


def a_round_is_planned(live: LiveMirror) -> bool:
    return any(job["job"] == "config_round" and job["state"] == "running" for job in live.status["spark"]["jobs"])


async def values_of(pair: Pair, copies: list[str], name: str) -> set[str | None]:
    found = await own_configs(pair.target, copies)
    return {found[copy].get(name) for copy in copies}


def until_all_have(pair: Pair, name: str, value: str | None) -> None:
    async def they_do() -> None:
        async def is_so() -> bool:
            return await values_of(pair, COPIES, name) == {value}

        while not await is_so():  # noqa: ASYNC110 - brokers tell nobody
            await asyncio.sleep(1.0)

    asyncio.run(asyncio.wait_for(they_do(), READY_S))


def until_one_has(pair: Pair, name: str, value: str) -> None:
    async def it_has() -> None:
        while await values_of(pair, COPIES[:1], name) != {value}:  # noqa: ASYNC110 - brokers tell nobody
            await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(it_has(), READY_S))


@pytest.mark.parametrize("moment", ["plan", "apply"])
@pytest.mark.parametrize("victims", [executors_of, host_of, metadata_of, supervisor_of])
def test_a_round_survives_a_kill(
    victims: Victims,
    moment: str,
    many: Pair,
    shared_ray: RayCluster,
    live: LiveMirror,
    record_property: Callable[[str, object], None],
) -> None:
    live.until(spark_plans(live), "Spark plans", READY_S)
    number = len(sent_to(many.target))  # another value in each test
    value, before = str(8_000_000 + number), sent_to(many.target)
    asyncio.run(set_each(many.source, {name: {"retention.ms": value} for name in TOPICS}))
    if moment == "plan":
        live.until(lambda: a_round_is_planned(live), "a round is planned", READY_S)
    else:
        until_one_has(many, "retention.ms", value)
    kill_and_wait(victims(shared_ray))
    until_all_have(many, "retention.ms", value)
    await_round(live)
    live.until(spark_plans(live), "Spark plans again", READY_S)
    asyncio.run(set_each(many.source, {name: {} for name in TOPICS}))
    kill_and_wait(metadata_of(shared_ray))  # what the topics had is known to its successor
    until_all_have(many, "retention.ms", None)
    sent = sent_to(many.target) - before
    again = {what: count for what, count in sent.items() if count > 1}
    record_property("changes", len(sent))
    record_property("sent again", len(again))
    assert {what[0] for what in sent} == set(COPIES)
    assert all(count == 2 for count in again.values()), "a request in flight is sent once more at most"
    assert len(again) <= 2 * TOPICS_AT_ONCE, "what was in flight at one of the two kills"
