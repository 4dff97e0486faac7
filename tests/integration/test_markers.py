"""A copy ends where its records end: raymirror writes markers only if another owner may have to be kept out."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.flow.ports.ports import LATEST
from policies.model import TopicPartition
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


async def ends(mirror: Mirror, copied: str, partitions: int) -> list[int]:
    """Return where the partitions of a copy end."""
    where = [TopicPartition(copied, index) for index in range(partitions)]
    async with mirror.asking_target() as target:
        found = await target.offsets(where, LATEST)
    return [found[one] for one in where]


async def compared(mirror: Mirror, folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run the command: exit code, partitions."""
    alias, config = mirror.flow.source, folder / "mm2.properties"
    lines = [
        f"clusters = {alias}, b",
        f"{alias}.bootstrap.servers = {mirror.source_servers}",
        f"b.bootstrap.servers = {mirror.target_servers}",
        f"{alias}->b.enabled = true",
        f"{alias}->b.topics = counted",
        f"offset.storage.partitions = {mirror.options.positions_partitions}",
    ]
    config.write_text("\n".join([*lines, ""]))
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "actors", "compare-ends", str(config), "--json"]
    done = await asyncio.to_thread(subprocess.run, line, env=env, capture_output=True, text=True, timeout=600)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["flows"][0]["partitions"]


async def test_a_copy_ends_at_the_number_of_its_records(mirror: Mirror, tmp_path: Path) -> None:
    """Three clean runs leave no marker, a run that is cut off one per partition, and the clean ones after it none."""
    copied = await mirror.topic("counted", 2)
    for turn in range(3):
        await produce(mirror.source, "counted", 0, numbered(1000, first=turn * 1000))
        async with mirror.run() as run:
            await run.until_copied()
        assert await ends(mirror, copied, 2) == [(turn + 1) * 1000, 0]
    code, rows = await compared(mirror, tmp_path)
    assert (code, [row["verdict"] for row in rows]) == (0, ["equal", "equal"])
    async with mirror.run(drain=False) as run:
        await run.until_copied()
        await run.until(lambda: all(one.positions.settled for one in run.copier.drivers.values()), "first positions")
    assert await ends(mirror, copied, 2) == [3000, 0]
    for turn in range(3, 5):
        await produce(mirror.source, "counted", 0, numbered(1000, first=turn * 1000))
        async with mirror.run() as run:
            await run.until_copied()
        assert await ends(mirror, copied, 2) == [(turn + 1) * 1000 + 1, 1]
    assert await assert_identical(mirror.source, mirror.target, "counted", copied) == 5000
    code, rows = await compared(mirror, tmp_path)
    assert (code, [(row["verdict"], row["why"]) for row in rows]) == (0, [("explained", "1 marker")] * 2)
    await produce(mirror.target, copied, 1, numbered(2))
    await produce(mirror.source, "counted", 0, numbered(5, first=5000))
    code, rows = await compared(mirror, tmp_path)
    assert (code, [row["verdict"] for row in rows]) == (1, ["explained", "not explained"])
    assert (rows[0]["waiting"], rows[1]["strangers"]) == (5, 2)
