"""`raymirror translate`: a group's offsets on both sides, committed on the target, waited for."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import groups as stock
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]


class Command:
    """The command in a process of its own, with the configuration of a mirror."""

    def __init__(self, folder: Path, mirror: Mirror, *lines: str) -> None:
        self.env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(ROOT)}
        self.config = folder / "mm2.properties"
        alias = mirror.flow.source
        text = [
            f"clusters = {alias}, b",
            f"{alias}.bootstrap.servers = {mirror.source_servers}",
            f"b.bootstrap.servers = {mirror.target_servers}",
            f"{alias}->b.enabled = true",
            f"{alias}->b.topics = {alias}.*",
            f"offset.storage.partitions = {mirror.options.positions_partitions}",
            *lines,
        ]
        self.config.write_text("\n".join([*text, ""]))

    def start(self, group: str, *words: str) -> subprocess.Popen[str]:
        """Start it."""
        line = [sys.executable, "-m", "actors", "translate", group, str(self.config), *words]
        return subprocess.Popen(line, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    async def ask(self, group: str, *words: str) -> tuple[int, str, str]:
        """Run it to its end: exit code, output, errors."""
        return await end_of(self.start(group, *words))

    async def rows(self, group: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
        """Run it with `--json`: exit code, partitions."""
        code, out, errors = await self.ask(group, "--json", *words)
        assert out, errors
        return code, json.loads(out)["rows"]


async def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = await asyncio.to_thread(process.communicate, timeout=600)
    return process.returncode, out, errors


async def test_it_shows_and_applies_what_offsets_are_on_the_target(mirror: Mirror, tmp_path: Path) -> None:
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic, 3)
    for partition in range(2):
        await produce(mirror.source, topic, partition, numbered(50))
    await stock.commit(mirror.source, group, topic, {0: 20, 1: 50, 2: 0})
    command = Command(tmp_path, mirror)
    code, rows = await command.rows(group)
    assert (code, [row["target_offset"] for row in rows], {row["why_not"] for row in rows}) == (1, [-1] * 3, {"stale"})
    async with mirror.run() as run:
        await run.until_copied()
    code, rows = await command.rows(group)
    assert code == 0
    assert [(row["partition"], row["source_offset"], row["how"], row["stored"]) for row in rows] == [
        (0, 20, "run", -1),
        (1, 50, "end", -1),
        (2, 0, "end", -1),
    ]
    code, out, errors = await command.ask(group, "--apply")
    assert code == 0, errors
    assert f"{group}.{topic}" in out
    assert "inactive on the source" in out
    code, rows = await command.rows(group)
    assert [row["stored"] for row in rows] == [row["target_offset"] for row in rows]
    first, *_ = await stock.read_from(mirror.target, group, copied, 30)
    assert (first.partition, first.value.strip()) == (0, b"v20")
    code, _, errors = await command.ask(group, "--apply")  # the group read on, on the target
    assert (code, "another offset is committed on the target: 1 of 3 partitions" in errors) == (1, True), errors
    code, _, errors = await command.ask(group, "--apply", "--backwards")
    assert code == 0, errors


async def test_it_holds_until_the_copy_has_come_so_far(mirror: Mirror, tmp_path: Path) -> None:
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(10))
    async with mirror.run() as run:
        await run.until_copied()
    await produce(mirror.source, topic, 0, numbered(10, first=10))
    await stock.commit(mirror.source, group, topic, {0: 15})
    command = Command(tmp_path, mirror)
    code, _, errors = await command.ask(group, "--apply", "--hold-until-equal", "--timeout", "0.5")
    assert (code, "no translation yet for 1 of 1 partition" in errors) == (1, True), errors
    holding = command.start(group, "--apply", "--hold-until-equal", "--timeout", "300", "--json")
    async with mirror.run() as run:
        await run.until_copied()
    code, out, errors = await end_of(holding)
    assert code == 0, errors
    (row,) = json.loads(out)["rows"]
    assert (row["source_offset"], row["stored"] == row["target_offset"]) == (15, True)
    (first, *_) = await stock.read_from(mirror.target, group, copied, 5)
    assert first.value.strip() == b"v15"


async def test_a_group_with_members_on_the_target_is_not_committed_for(mirror: Mirror, tmp_path: Path) -> None:
    topic = group = mirror.flow.source
    copied = await mirror.topic(topic)
    await produce(mirror.source, topic, 0, numbered(10))
    async with mirror.run() as run:
        await run.until_copied()
    await stock.commit(mirror.source, group, topic, {0: 5})
    async with stock.joined(mirror.target, group, copied):
        code, out, errors = await Command(tmp_path, mirror).ask(group, "--apply")
    assert (code, "it has members on the target" in errors, "active on the target" in out) == (1, True, True)


async def test_bad_questions(mirror: Mirror, tmp_path: Path) -> None:
    await mirror.topic(mirror.flow.source)
    command = Command(tmp_path, mirror)
    for words, complaint in (
        (("nobody",), "group 'nobody' has neither members nor commits"),
        (("g", "--flow", "x->y"), "there is no flow 'x->y'; use one of"),
        (("g", "--hold-until-equal"), "add --apply, or set sync.group.offsets.enabled = true"),
        (("g", "--backwards"), "add --apply"),
    ):
        code, out, errors = await command.ask(*words)
        assert (code, out) == (2, "")
        assert complaint in errors
