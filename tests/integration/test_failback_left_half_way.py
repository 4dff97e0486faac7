"""A failback whose command was killed: what other commands may do meanwhile, and what it exports if the source grew."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.admin import create_topics, own_configs
from tests.harness.flow_file import IDENTITY, QUIET, flow_settings, write_settings
from tests.harness.load import Sent, append, numbered, produce, producer
from tests.harness.operator import Operator

pytestmark = [pytest.mark.integration, pytest.mark.full]

SHARED, LATE, NEW = numbered(40), numbered(9, first=100), numbered(20, first=200)
DAY_MS = "86400000"
FENCED = ("--fenced-by-hand", "--yes")


async def failed_over(
    folder: Path, alias: str, source: EmbeddedCluster, target: EmbeddedCluster, partitions: int = 1
) -> Operator:
    """Copy a flow that keeps names, fail it over, and let both clusters have records alone."""
    one = Operator(folder, alias, source, target, IDENTITY)
    await create_topics(source, {one.topic: partitions}, configs={"retention.ms": DAY_MS})
    await produce(source, one.topic, 0, SHARED)
    await one.copies(one.config, one.flow, len(SHARED))
    done = await one.fails_over()
    assert done.returncode == 0, done.stderr
    await produce(target, one.topic, 0, NEW)
    await produce(source, one.topic, 0, LATE)
    return one


def values(*parts: list[Sent]) -> list[bytes]:
    return [one.value or b"" for part in parts for one in part]


async def test_behind_its_point_of_no_return_nothing_copies_the_flow_and_no_lent_retention_spreads(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = await failed_over(tmp_path, "past", source_cluster, target_cluster)
    folder = str(tmp_path / "export")
    await one.kills_at("turn", "failback", *FENCED, "--export", folder)
    assert await retentions(one) == ("-1", DAY_MS)
    for words in (
        ("run", str(one.config), "--forget-failover", one.flow),
        ("failover", one.flow, "--config", str(one.config)),
    ):
        done = await one.gives(*words)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "has not ended" in done.stderr
        assert f"go on with it: raymirror dr failback '{one.flow}'" in done.stderr
        assert "--abort" not in done.stderr
    await nothing_spreads_to_a_third_cluster(one)
    code, told = await one.types("failback", *FENCED)
    assert code == 0, told
    assert await retentions(one) == (DAY_MS, DAY_MS)
    assert await one.values(source_cluster) == values(SHARED, LATE, NEW)
    done = await one.gives("plan", str(one.turned()), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["flows"][0]["changes"] == []


async def retentions(one: Operator) -> tuple[str, str]:
    """Return what the topic has of its own on the source and on the target."""
    found = [(await own_configs(each, [one.topic]))[one.topic] for each in (one.source, one.target)]
    return found[0]["retention.ms"], found[1]["retention.ms"]


async def nothing_spreads_to_a_third_cluster(one: Operator) -> None:
    """Sync the configs of the source to a copy of another flow: what is lent to the source stays there."""
    copy = f"{one.alias}.{one.topic}"
    await create_topics(one.target, {copy: 1}, configs={"retention.ms": DAY_MS})
    more = {**QUIET, "sync.topic.acls.enabled": "false"}
    settings = flow_settings(one.alias, one.source, one.target, more, to="third")
    path = write_settings(one.config.with_name("third.properties"), settings)
    done = await one.gives("apply", str(path), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (await own_configs(one.target, [copy]))[copy] == {"retention.ms": DAY_MS}


async def test_all_that_is_copied_late_is_exported_if_the_source_grows(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    one = await failed_over(tmp_path, "grew", source_cluster, target_cluster, partitions=2)
    words = (*FENCED, "--export", str(tmp_path / "export"))
    async with writing(one) as written:
        code, told = await one.types("failback", *words)
    assert (code, "somebody still writes to the source" in told) == (1, True), told
    assert (f"{one.topic}-0: it ended at" in told, f"{one.topic}-1" in told) == (True, False), told
    first, second = numbered(3, first=300), numbered(4, first=400)
    await one.kills_at("export", "failback", *words)
    await produce(source_cluster, one.topic, 0, first)
    await one.kills_at("late-copy", "failback", *words)
    await produce(source_cluster, one.topic, 0, second)
    code, told = await one.types("failback", *words)
    assert code == 0, told
    alone = values(LATE, written, first, second)
    (row,) = (row for row in told["partitions"] if row["partition"] == 0)
    assert row["diverged"] == len(alone)
    assert exported(tmp_path / "export", f"{one.topic}-0.jsonl") == set(alone)
    assert await one.values(source_cluster) == values(SHARED) + alone + values(NEW)
    assert sorted(await one.values(target_cluster)) == sorted(values(SHARED, NEW) + alone)


@asynccontextmanager
async def writing(one: Operator) -> AsyncIterator[list[Sent]]:
    """Write to the first partition of the source all the time; give what was written."""
    sent: list[Sent] = []

    async def write() -> None:
        async with producer(one.source, linger_ms=0) as client:
            while True:
                record = numbered(1, first=1000 + len(sent))
                sent.append(record[0])
                await asyncio.shield(append(client, one.topic, 0, record))
                await asyncio.sleep(0.02)  # as a producer does: fast enough to be seen by every look

    task = asyncio.create_task(write())
    try:
        yield sent
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def exported(folder: Path, name: str) -> set[bytes]:
    """Return the values of all whole exports of a partition."""
    found = set[bytes]()
    for path in folder.glob(f"*/{name}"):
        for line in path.read_text().splitlines()[1:-1]:
            found.add(base64.b64decode(json.loads(line)["value"]))
    return found
