"""Commands that are given while an operation of the same flow is at work: the second one never breaks the first."""

import asyncio
import json
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.eventually import until
from tests.harness.flow_file import IDENTITY
from tests.harness.load import numbered, produce
from tests.harness.operator import Operator
from tests.harness.shell import DEADLINE_S

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

RECORDS = 50


class HeldFence:
    """A fence command that does not end while the fence is held, so that a switchover stands in its second step."""

    def __init__(self, folder: Path) -> None:
        self._asked, self._held, self.script = folder / "asked", folder / "held", folder / "fence.sh"
        self.script.write_text(
            f'#!/bin/sh\ntouch "{self._asked}"\nwhile [ -e "{self._held}" ]; do sleep 0.1; done\nexit 0\n'
        )
        self.script.chmod(self.script.stat().st_mode | stat.S_IXUSR)

    @asynccontextmanager
    async def holds(self, one: Operator) -> AsyncIterator[subprocess.Popen[str]]:
        """Begin a switchover; the block runs while its fence is being made."""
        self._held.touch()
        words = ("--config", str(one.config), "--fence", "command", "--yes", "--json")
        process = one.begins("dr", "switchover", one.flow, *words)
        try:
            await until(self._asked.exists, "the switchover makes its fence")
            yield process
        finally:
            self._held.unlink()


async def started(
    folder: Path, alias: str, source: EmbeddedCluster, target: EmbeddedCluster
) -> tuple[Operator, HeldFence]:
    """Run a mirror that has copied everything."""
    fence = HeldFence(folder)
    one = Operator(folder, alias, source, target, IDENTITY | {"raymirror.dr.fence.command": str(fence.script)})
    await create_topics(source, {one.topic: 1})
    await produce(source, one.topic, 0, numbered(RECORDS))
    await one.runs(one.config, RECORDS)
    return one, fence


async def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for the end of a command: exit code, output and complaints."""
    out, errors = await asyncio.to_thread(process.communicate, timeout=DEADLINE_S)
    return process.returncode, out, errors


async def test_a_failover_is_refused_during_a_switchover_which_ends_in_order(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one, fence = await started(tmp_path, "beside", source_cluster, target_cluster)
    try:
        async with fence.holds(one) as switchover:
            done = await one.fails_over()
            assert (done.returncode, done.stdout) == (2, ""), done.stderr
            assert "switchover" in done.stderr
            assert "has not ended" in done.stderr
            assert f"raymirror dr abort '{one.flow}'" in done.stderr
            assert one.shell.status()["flows"][0]["desired"] == "running"
            forgets = await one.gives("resume", one.flow, "--forget-failover")
            assert (forgets.returncode, "has not ended" in forgets.stderr) == (2, True), forgets.stderr
        code, out, errors = await ended(switchover)
        assert code == 0, errors
        assert json.loads(out)["state"] == "finished"
        await one.ends()
    finally:
        one.close()


async def test_after_a_failover_despite_a_switchover_the_flow_stays_failed_over(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one, fence = await started(tmp_path, "despite", source_cluster, target_cluster)
    try:
        async with fence.holds(one) as switchover:
            done = await one.fails_over("--despite-operation")
            assert done.returncode == 0, done.stderr
            assert "has not ended" in done.stderr
            assert json.loads(done.stdout)["stopped"]
        code, _, errors = await ended(switchover)
        assert (code, f"raymirror dr abort '{one.flow}'" in errors) == (1, True), errors
        await one.ends()
        code, told = await one.types("abort")
        assert (code, told["state"]) == (0, "aborted")
        done = await one.gives("run", str(one.config))
        assert done.returncode == 1, done.stdout
        assert "was failed over" in done.stdout + done.stderr
        assert f"raymirror dr failback '{one.flow}'" in done.stdout + done.stderr
    finally:
        one.close()


async def test_of_two_failovers_at_once_on_two_machines_one_is_refused(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one, _ = await started(tmp_path, "twice", source_cluster, target_cluster)
    await stock.commit(source_cluster, "twice-busy", one.topic, {0: 10})
    words = ("failover", one.flow, "--config", str(one.config), "--json")
    try:
        async with stock.joined(target_cluster, "twice-busy", one.topic):  # the first one waits for that group
            first = one.begins(*words, "--timeout", "40")
            await asyncio.to_thread(one.shell.until, lambda status: status["flows"][0]["desired"] == "paused")
            other, address = one.elsewhere()
            second = await asyncio.to_thread(other, *words, "--address", address)
            assert first.poll() is None, "the first one did not wait for the group"
            code, out, errors = await ended(first)
        assert (second.returncode, second.stdout) == (2, ""), second.stderr
        assert "are driven by command 'failover' beside mirror" in second.stderr
        assert "wait until that command ends" in second.stderr
        assert code == 4, errors
        assert json.loads(out)["stopped"]
        await one.ends()
    finally:
        one.close()
