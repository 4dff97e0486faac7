"""The history of configs on real clusters: changes of the source, drift of copies, and what a restart still knows."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from actors.cli.common import exits
from engine.base.clock import wall_ms
from tests.conftest import Pair
from tests.harness.admin import create_topics, own_configs, set_configs
from tests.harness.eventually import until_equal
from tests.harness.live import LiveMirror, write_properties
from tests.harness.ray_cluster import RayCluster
from tests.harness.shell import Shell

pytestmark = [pytest.mark.integration, pytest.mark.ray]

KEY, OTHER = "retention.ms", "segment.ms"
COPY = "brisk.kept"


class Tables:
    """What the commands say of the tables of a storage, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._shell, self._uri = Shell(folder), f"file:{folder / 'storage'}"

    def ask(self, query: str) -> list[dict[str, Any]]:
        done = self._shell("sql", query, "--json", "--storage", self._uri)
        return [json.loads(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []

    def drift(self) -> tuple[int, list[dict[str, Any]]]:
        done = self._shell("drift", "--json", "--storage", self._uri)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    async def outcomes(self) -> list[tuple[str, str | None, str]]:
        """Return what was found on the copy, what it should be, and what became of that, in order."""
        found = await asyncio.to_thread(self.drift)
        return [(one["found"], one["expected"], one["outcome"]) for one in found[1]]

    async def changes(self) -> list[tuple[str, str, str]]:
        query = "SELECT old, new, outcome FROM config_changes ORDER BY seen_ms, key"
        return [(one["old"], one["new"], one["outcome"]) for one in await asyncio.to_thread(self.ask, query)]

    async def values(self, side: str) -> list[str]:
        query = f"SELECT value FROM configs WHERE side = '{side}' AND topic = 'kept' AND key = '{KEY}' ORDER BY at_ms"
        return [one["value"] for one in await asyncio.to_thread(self.ask, query)]


async def begun(live: LiveMirror) -> None:
    """Wait until the mirror has compared configs."""

    def compared() -> bool:
        return any((flow["configs"] or {"at_ms": 0})["at_ms"] for flow in live.look().get("flows", ()))

    await asyncio.to_thread(live.until, compared, "configs were compared")


async def story(pair: Pair, ray: RayCluster, folder: Path) -> None:
    settings = {
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "raymirror.storage": f"file:{folder / 'storage'}",
    }
    clusters = {"brisk": pair.source, "calm": pair.target}
    config = write_properties(folder / "mm2.properties", clusters, {"brisk->calm": "kept"}, settings)
    tables = Tables(folder)

    async def copy() -> dict[str, str]:
        return (await own_configs(pair.target, [COPY]))[COPY]

    live = LiveMirror(folder, config, env=ray.env)
    try:
        await begun(live)
        await until_equal(lambda: tables.values("copy"), ["7000000"])
        assert await tables.outcomes() == []

        await set_configs(pair.source, "kept", {KEY: "8000000"})
        await until_equal(copy, {KEY: "8000000"})
        await until_equal(tables.changes, [("7000000", "8000000", "copied")])

        await set_configs(pair.target, COPY, {KEY: "1000000"})
        first: list[tuple[str, str | None, str]] = [("1000000", "8000000", "set_right")]
        await until_equal(tables.outcomes, first)
        await until_equal(copy, {KEY: "8000000"})
        told = f"somebody changed configs of {COPY} on calm: {KEY} is 1000000 instead of 8000000 (set right)"
        await asyncio.to_thread(live.until, lambda: live.told(told), told)

        await set_configs(pair.target, COPY, {KEY: "8000000", OTHER: "9000000"})
        both = [*first, ("9000000", None, "left")]
        await until_equal(tables.outcomes, both)
        assert (await asyncio.to_thread(tables.drift))[0] == exits.FAILED
        await asyncio.to_thread(live.end)
    finally:
        live.close()

    ended_ms = wall_ms()
    await set_configs(pair.source, "kept", {KEY: "9000000"})
    await set_configs(pair.target, COPY, {KEY: "2000000"})
    live = LiveMirror(folder, config, env=ray.env)
    try:
        await begun(live)
        await until_equal(copy, {KEY: "9000000"})
        settled = [both[0], ("9000000", None, "equal_again"), ("2000000", "9000000", "set_right")]
        await until_equal(tables.outcomes, settled)
        await until_equal(tables.changes, [("7000000", "8000000", "copied"), ("8000000", "9000000", "copied")])
        await asyncio.to_thread(live.end)
    finally:
        live.close()
    code, lines = tables.drift()
    assert code == exits.OK
    assert lines[2]["after_ms"] <= ended_ms <= lines[2]["seen_ms"], "it was changed while no mirror ran"
    assert await tables.values("source") == ["7000000", "8000000", "9000000"]
    assert await tables.values("copy") == [
        "7000000",
        "8000000",
        "1000000",
        "8000000",
        "2000000",
        "9000000",
    ]


def test_changes_of_the_source_and_drift_of_the_copy_are_kept_also_over_a_restart(
    cluster_pair: Pair, shared_ray: RayCluster, tmp_path: Path
) -> None:
    async def run() -> None:
        await create_topics(cluster_pair.source, {"kept": 1}, configs={KEY: "7000000"})
        await story(cluster_pair, shared_ray, tmp_path)

    asyncio.run(run())
