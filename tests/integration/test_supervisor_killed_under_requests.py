"""The supervisor is killed during a hundred requests a second: no wrong answer, and each accepted command holds."""

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import pick_ports
from tests.harness.admin import create_topics
from tests.harness.eventually import until
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import append, numbered, producer
from tests.harness.rest_load import CUT, RestLoad

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

TOPIC, RECORDS, KILLS = "pressed", 500, 3
SOURCE = "pressed->calm.MirrorSourceConnector"
ONE = f"/connectors/{SOURCE.replace('>', '%3E')}"
MOST_AWAY_S = 60.0
"""A bound for a busy machine; the figure is printed."""
NAMES = [f"pressed->calm.Mirror{kind}Connector" for kind in ("Source", "Checkpoint")]


def is_task_list(body: Any) -> bool:
    return [one["id"] for one in body] == [
        {"connector": SOURCE, "task": number} for number in range(len(body))
    ] and bool(body)


READS = {
    "/": lambda body: body["version"].startswith("4.3.1-raymirror"),
    "/connectors": lambda body: body == NAMES,
    f"{ONE}/config": lambda body: body["topics"] == TOPIC,
    f"{ONE}/tasks": is_task_list,
    f"{ONE}/topics": lambda body: body == {SOURCE: {"topics": [f"pressed.{TOPIC}"]}},
    f"{ONE}/offsets": lambda body: (
        [one["offset"]["offset"] for one in body["offsets"]] == [RECORDS - 1]
        and body["offsets"][0]["partition"] == {"cluster": "pressed", "partition": 0, "topic": TOPIC}
    ),
    "/connector-plugins": lambda body: len(body) == 3,
    "/metrics": lambda body: "raymirror_" in body,
    "/openapi.json": lambda body: body["openapi"].startswith("3.1"),
}


def supervisor_of(process_id: int) -> psutil.Process:
    """Find the supervisor's process of a local Ray."""
    children = psutil.Process(process_id).children(recursive=True)
    (found,) = [one for one in children if "".join(one.cmdline()).startswith("ray::SupervisorActor")]
    return found


async def test_a_killed_supervisor_gives_no_wrong_answer(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    await create_topics(source_cluster, {TOPIC: 1}, replicas=1)
    async with producer(source_cluster) as client:
        await append(client, TOPIC, 0, numbered(RECORDS))
    (port,) = pick_ports(1)
    clusters = {"pressed": source_cluster, "calm": target_cluster}
    settings = {"raymirror.http.port": str(port)}
    config = write_properties(tmp_path / "mm2.properties", clusters, {"pressed->calm": TOPIC}, settings)
    live = LiveMirror(tmp_path, config, env={key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"})
    try:
        await asyncio.to_thread(live.until_whole, {"pressed->calm": RECORDS})
        load = RestLoad(port, SOURCE.replace(">", "%3E"), READS)
        kills, made_of = [], []
        async with load.running():
            await until(lambda: load.accepted["resume"] >= 5, "commands are accepted")
            for _ in range(KILLS):
                victim = await asyncio.to_thread(supervisor_of, live.process.pid)
                killed_s, killed_at_s, before = time.monotonic(), time.time(), load.accepted.total()
                victim.kill()
                await until(lambda before=before: load.accepted.total() >= before + 20, "commands are accepted again")  # type: ignore[misc]
                kills.append(load.away_s(killed_s))
                born = (await asyncio.to_thread(supervisor_of, live.process.pid)).create_time() - killed_at_s
                made_of.append(f"process {born:.1f} s, port {load.refused_s(killed_s):.1f} s")
        states = load.expected
        assert len(states) == 1
        await _until_state(load, states)
        said = Counter("cut off" if one.status == CUT else str(one.status) for one in load.answered)
        away = ", ".join(f"{one:.1f} s" for one in kills)
        print(f"\n{len(load.answered)} requests: {dict(said)}; without an answer, or 409, after a kill: {away}")  # noqa: T201
        print(f"until there was a new process, and until its port was open: {'; '.join(made_of)}")  # noqa: T201
        assert load.wrong == []
        assert max(kills) < MOST_AWAY_S
        assert min(kills) > 0.0, "the kills were felt"
    finally:
        live.close()


async def _until_state(load: RestLoad, states: set[str]) -> None:
    """Wait until the flow is what the last accepted command wants."""
    give_up_at = time.monotonic() + 120
    while await load.state() not in states:
        assert time.monotonic() < give_up_at, f"not {states}: {await load.state()}"
        await asyncio.sleep(0.1)
