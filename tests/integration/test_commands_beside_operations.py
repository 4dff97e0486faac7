"""Commands that are given while an operation of the same flow is at work: the second one never breaks the first."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.flow_file import IDENTITY
from tests.harness.load import numbered, produce, producer
from tests.harness.operator import Operator, ended, reaches

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

RECORDS = 50
_OPEN_MS = 900_000
"""The longest time for which brokers let a transaction be open."""


async def started(folder: Path, alias: str, source: EmbeddedCluster, target: EmbeddedCluster) -> Operator:
    """Run a mirror that has copied everything."""
    one = Operator(folder, alias, source, target, IDENTITY)
    await create_topics(source, {one.topic: 1})
    await produce(source, one.topic, 0, numbered(RECORDS))
    await one.runs(one.config, RECORDS)
    return one


@asynccontextmanager
async def draining(one: Operator) -> AsyncIterator[asyncio.subprocess.Process]:
    """Begin a switchover that waits in its drain for as long as the block runs: a transaction is open on the source."""
    options = {"transactional_id": f"{one.alias}-x", "transaction_timeout_ms": _OPEN_MS}
    async with producer(one.source, **options) as client, client.transaction():
        await client.send(one.topic, b"decided later", partition=0)
        await client.flush()
        words = ("--config", str(one.config), "--fence", "none", "--timeout", "1800", "--yes", "--json")
        process = await one.begins("dr", "switchover", one.flow, *words)
        await reaches(process, "drain")
        yield process


async def test_a_failover_is_refused_during_a_switchover_which_ends_in_order(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = await started(tmp_path, "beside", source_cluster, target_cluster)
    try:
        async with draining(one) as switchover:
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
    one = await started(tmp_path, "despite", source_cluster, target_cluster)
    try:
        async with draining(one) as switchover:
            done = await one.fails_over("--despite-operation", "--now")
            assert done.returncode in (0, 4), done.stderr
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
    one = await started(tmp_path, "twice", source_cluster, target_cluster)
    await stock.commit(source_cluster, "twice-busy", one.topic, {0: 10})
    words = ("failover", one.flow, "--config", str(one.config), "--json")
    try:
        async with stock.joined(target_cluster, "twice-busy", one.topic):  # the first one waits for that group
            first = await one.begins(*words, "--timeout", "1800")
            await one.until(lambda flow: flow["desired"] == "paused")
            other, address = one.elsewhere()
            second = await one.gives(*words, "--address", address, shell=other)
        code, out, errors = await ended(first)
        assert (second.returncode, second.stdout) == (2, ""), second.stderr
        assert "are driven by command 'failover' beside mirror" in second.stderr
        assert "wait until that command ends" in second.stderr
        assert code == 0, errors
        assert json.loads(out)["stopped"]
        await one.ends()
    finally:
        one.close()
