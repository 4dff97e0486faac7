"""Config sync in a mirror with Spark: Spark plans the rounds, a change at the source arrives, the audit shows it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.base.clock import wall_ms
from tests.conftest import Pair
from tests.harness.admin import create_topics, own_configs, set_configs
from tests.harness.eventually import until, until_equal
from tests.harness.live import LiveMirror, write_properties
from tests.harness.ray_cluster import RayCluster
from tests.harness.shell import Shell
from tests.integration.test_spark import READY_S, SETTINGS, start_probe, told

pytestmark = [pytest.mark.integration, pytest.mark.ray]

CONFIGS = {"sync.topic.configs.interval.seconds": "10", "sync.topic.acls.enabled": "false"}
Look = Callable[[], dict[str, Any]]
"""Gives the mirror's latest status, empty before the first."""


def settings(folder: Path) -> dict[str, str]:
    return {**SETTINGS, **CONFIGS, "raymirror.storage": f"file:{folder / 'kept'}", "raymirror.storage.shared": "true"}


class Round(NamedTuple):
    """A round of config sync, Unix milliseconds. It may have begun up to one millisecond later than this says."""

    began_ms: float
    ended_ms: int


class Rounds:
    """Rounds that were seen in the mirror's status; one that was missed makes `first_after` later, never earlier."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._seen: set[Round] = set()

    def first_after(self, at_ms: int) -> Round | None:
        """Look, and give the first round that began at an instant or after it; None before there is one."""
        for flow in self._look().get("flows", ()):
            found = flow["configs"] or {"at_ms": 0}
            if found["at_ms"]:
                self._seen.add(Round(found["at_ms"] - 1000 * found["round_s"], found["at_ms"]))
        return min((one for one in self._seen if one.began_ms >= at_ms), default=None)


async def bring(pair: Pair, topic: str, copy: str, rounds: Rounds, **configs: str) -> int:
    """Make these the topic's own, and wait for its copy; return when the first round had ended that began after it.

    A broker takes a change a moment before it tells of it: the change is there once the source describes it.
    """
    wanted = {name.replace("_", "."): value for name, value in configs.items()}

    async def of_source() -> dict[str, str]:
        return (await own_configs(pair.source, [topic]))[topic]

    async def of_copy() -> dict[str, str]:
        return (await own_configs(pair.target, [copy]))[copy]

    await set_configs(pair.source, topic, wanted)
    await until_equal(of_source, wanted)
    there_ms = wall_ms() + 1  # rounded up, as a round's beginning is rounded down
    await until(lambda: rounds.first_after(there_ms) is not None, "a round that began after the change")
    await until_equal(of_copy, wanted)
    first = rounds.first_after(there_ms)
    assert first is not None
    return first.ended_ms


def drive(pair: Pair, topic: str, copy: str, look: Look) -> list[int]:
    """Give the topic a config, and take it away again; return the Unix milliseconds until when each is to be applied:
    the end of the first round that began after it.
    """

    async def driven() -> list[int]:
        rounds = Rounds(look)
        given_ms = await bring(pair, topic, copy, rounds, retention_ms="8000000")
        return [given_ms, await bring(pair, topic, copy, rounds)]

    return asyncio.run(driven())


def check(rows: list[dict[str, Any]], copy: str, until_ms: list[int], partitions: int = 1) -> None:
    """The trail has what was done, in order, by whom and why; the first round that began after a change applied it."""
    assert [(row["target"], row["change"], row["name"], row["before"], row["after"]) for row in rows] == [
        (copy, "create_topic", "partitions", "", str(partitions)),
        (copy, "set_config", "retention.ms", "604800000", "8000000"),
        (copy, "drop_config", "retention.ms", "8000000", ""),
    ]
    assert all(row["who"].startswith("mirror ") and row["outcome"] == "done" for row in rows)
    assert [row["why"] for row in rows[1:]] == [
        "the source topic sets it",
        "it was removed on the source",
    ]
    late_ms = [row["at_ms"] - end_ms for row, end_ms in zip(rows[1:], until_ms, strict=True)]
    assert all(one <= 0 for one in late_ms), late_ms


def trail(shell: Callable[..., Any], config: Path, topic: str) -> list[dict[str, Any]]:
    done = shell("audit", str(config), topic, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_config_changed_at_the_source_arrives_with_the_first_round_after_it(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(cluster_pair.source, {"tuned": 1}))
    clusters = {"brisk": cluster_pair.source, "calm": cluster_pair.target}
    config = write_properties(tmp_path / "mm2.properties", clusters, {"brisk->calm": "tuned"}, settings(tmp_path))
    live = LiveMirror(tmp_path, config, env=shared_ray.env)
    try:
        live.until(lambda: live.flow("brisk->calm")["lanes"] == 1, "there is a copy")
        assert len(told(start_probe(shared_ray.env, tmp_path, tasks=1, task_s=0)).answers) == 1
        live.until(lambda: live.status["spark"]["state"] == "ready", "Spark runs")
        live.until(lambda: live.flow("brisk->calm")["configs"]["by"] == "spark", "Spark plans", READY_S)
        until_ms = drive(cluster_pair, "tuned", "brisk.tuned", live.look)
        live.until(lambda: live.flow("brisk->calm")["configs"]["changes"] == 2, "both changes are counted")
        live.until(lambda: live.flow("brisk->calm")["configs"]["by"] == "spark", "Spark plans still", READY_S)
        live.end()
        check(trail(Shell(tmp_path), config, "tuned"), "brisk.tuned", until_ms)
    finally:
        live.close()
