"""Brokers that lack what Apache's of today have: copies are whole, and `check` says what each lack costs."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from actors.cli.main import main
from deploy.local.cluster import EmbeddedCluster, running_clusters
from engine.base.errors import KafkaRefusal
from engine.core.events.events import LaneRefused, OwnershipLost, Resumed, SourceGap, UnfencedOwnership
from engine.flow.ports.ports import NO_TRANSACTIONS
from engine.kafka.admin.admin import create_topic
from engine.kafka.admin.settings import KafkaSettings
from tests.harness.admin import create_topics, own_configs
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce, produce_batch
from tests.harness.mirror import Mirror, Run, cluster_client
from tests.harness.refusing import (
    ADD_PARTITIONS,
    ALTER_CONFIGS,
    CREATE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LEADER_EPOCHS,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    RefusingProxy,
    Rules,
    no_transactional_id,
    unsupported_end,
    without,
)

pytestmark = pytest.mark.integration

E = TypeVar("E")
PARTITIONS = 2
_ANOTHER_MAKE = Rules(
    frozenset({ADD_PARTITIONS, END_TXN, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, INCREMENTAL_ALTER_CONFIGS, 48, 69}),
    {METADATA: 9, FETCH: 11, PRODUCE: 8, 35: 1},
)
"""A broker that is not Apache's: no transactions, no DescribeProducers, no topic ids, no IncrementalAlterConfigs."""
_AS_2_1 = Rules(
    frozenset({INCREMENTAL_ALTER_CONFIGS, DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, 48, 69}),
    {METADATA: 7, FETCH: 10, LIST_OFFSETS: 4, LEADER_EPOCHS: 2, PRODUCE: 7, 8: 6, 9: 5, FIND_COORDINATOR: 2, 35: 1},
)
"""What brokers of Kafka 2.1 offer."""
_UNSUPPORTED = Rules(answers={INIT_PRODUCER_ID: no_transactional_id, END_TXN: unsupported_end})
"""Brokers that offer transactions, and answer that they do not support them."""


@asynccontextmanager
async def fronted(
    source: EmbeddedCluster, target: EmbeddedCluster, at_source: Rules, at_target: Rules
) -> AsyncIterator[tuple[RefusingProxy, RefusingProxy]]:
    """Put a proxy in front of both clusters; raymirror must never send what is not offered."""
    async with RefusingProxy(source, at_source) as first, RefusingProxy(target, at_target) as second:
        yield first, second
    assert (first.unasked, second.unasked) == ([], [])


async def filled(mirror: Mirror, topic: str, first: int = 0) -> None:
    for partition in range(PARTITIONS):
        await produce(mirror.source, topic, partition, numbered(200, first=first, size_bytes=200))


async def copied_in_two_runs(mirror: Mirror, topic: str, *, drain: bool = True) -> list[Run]:
    """Copy in two runs, the first drained or cut off, and compare all records."""
    copied = await mirror.topic(topic, PARTITIONS)
    await filled(mirror, topic)
    runs: list[Run] = []
    for first in (0, 200):
        async with mirror.run(drain=drain or first > 0) as run:
            await run.until_copied()
            run.progress()  # a run that is cut off tells no more
            runs.append(run)
        if not first:
            await filled(mirror, topic, 200)
    assert await assert_identical(mirror.source, mirror.target, topic, copied) == PARTITIONS * 400
    for run in runs:
        assert not events(run, SourceGap)
        assert not events(run, LaneRefused)
    return runs


def events(run: Run, kind: type[E]) -> list[E]:
    """Return the events of one kind that a run has told."""
    return [one for one in run.events if isinstance(one, kind)]


def asked(folder: Path, servers: Mapping[str, str], topic: str, *more: str) -> Path:
    """Write the configuration of one flow from `one` to `two`."""
    lines = ["clusters = one, two", *(f"{alias}.bootstrap.servers = {at}" for alias, at in servers.items())]
    lines += ["one->two.enabled = true", f"one->two.topics = {topic}", "replication.factor = 1"]
    lines += ["offset.storage.replication.factor = 1", "emit.heartbeats.enabled = false", *more, ""]
    path = folder / "mm2.properties"
    path.write_text("\n".join(lines))
    return path


async def test_brokers_of_another_make(mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No transactions, no DescribeProducers, no topic ids, no IncrementalAlterConfigs: 0 lost, 0 doubled, all said."""
    topic = "another-make"
    async with fronted(mirror.source, mirror.target, _ANOTHER_MAKE, _ANOTHER_MAKE) as (source, target):
        mirror.source_servers, mirror.target_servers = source.bootstrap_servers, target.bootstrap_servers
        for run in await copied_in_two_runs(mirror, topic, drain=False):
            told = events(run, UnfencedOwnership)
            assert {one.lane.partition for one in told} == set(range(PARTITIONS))
            assert {one.reason for one in told} == {NO_TRANSACTIONS}
            assert not events(run, OwnershipLost)
        servers = {"one": source.bootstrap_servers, "two": target.bootstrap_servers}
        path = asked(tmp_path, servers, topic)
        assert await asyncio.to_thread(main, ["check", str(path), "--json"]) == 0
        said = capsys.readouterr()
    found = {one["cluster"]: {row["name"]: row for row in one["abilities"]} for one in json.loads(said.out)["clusters"]}
    lacking = {name for name, row in found["two"].items() if not row["has"]}
    assert {"transactions", "topic ids", "producers of a partition", "changing single configs"} <= lacking
    assert not found["one"].keys() & {"transactions", "writing"}, "a source needs none"
    (line,) = [line for line in said.err.splitlines() if "lacks 'transactions'" in line]
    assert "does not refuse a stale writer" in line
    assert "AddPartitionsToTxn, EndTxn" in line


@pytest.mark.full
@pytest.mark.parametrize("drain", [True, False], ids=["drained", "cut off"])
@pytest.mark.parametrize(
    ("at_source", "at_target"),
    [
        pytest.param(_AS_2_1, Rules(), id="source as 2.1"),
        pytest.param(Rules(), without(DESCRIBE_PRODUCERS), id="no DescribeProducers"),
        pytest.param(Rules(), without(DESCRIBE_TRANSACTIONS), id="no DescribeTransactions"),
        pytest.param(Rules(most={METADATA: 9}), Rules(most={METADATA: 9}), id="no topic ids"),
        pytest.param(Rules(), Rules(most={PRODUCE: 7}), id="no record errors"),
        pytest.param(Rules(most={FETCH: 11}), Rules(), id="no diverging epochs in Fetch"),
        pytest.param(Rules(frozenset({LEADER_EPOCHS}), {FETCH: 11}), Rules(), id="no history"),
        pytest.param(Rules(), without(DESCRIBE_CONFIGS), id="no DescribeConfigs"),
    ],
)
async def test_each_lack_that_needs_no_transactions_given_up(
    mirror: Mirror, at_source: Rules, at_target: Rules, drain: bool
) -> None:
    async with fronted(mirror.source, mirror.target, at_source, at_target) as (source, target):
        mirror.source_servers, mirror.target_servers = source.bootstrap_servers, target.bootstrap_servers
        for run in await copied_in_two_runs(mirror, mirror.flow.source, drain=drain):
            assert not events(run, UnfencedOwnership)


@pytest.mark.full
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(without(ADD_PARTITIONS), id="AddPartitionsToTxn"),
        pytest.param(without(END_TXN), id="EndTxn"),
        pytest.param(without(FIND_COORDINATOR), id="FindCoordinator"),
        pytest.param(_UNSUPPORTED, id="refused"),
    ],
)
async def test_each_way_to_lack_transactions(
    mirror: Mirror, rules: Rules, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copies are whole without a fence; exactly-once mode is refused by `check`, and by a lane that runs anyway."""
    topic = mirror.flow.source
    async with fronted(mirror.source, mirror.target, Rules(), rules) as (source, target):
        mirror.source_servers, mirror.target_servers = source.bootstrap_servers, target.bootstrap_servers
        for run in await copied_in_two_runs(mirror, topic):
            assert {one.reason for one in events(run, UnfencedOwnership)} == {NO_TRANSACTIONS}
        servers = {"one": source.bootstrap_servers, "two": target.bootstrap_servers}
        assert await asyncio.to_thread(main, ["check", str(asked(tmp_path, servers, topic))]) == 0
        assert "lacks 'transactions'" in capsys.readouterr().err
        atomic = asked(tmp_path, servers, topic, "two.exactly.once.source.support = enabled")
        assert await asyncio.to_thread(main, ["check", str(atomic)]) == 2
        assert "disable exactly.once.source.support" in capsys.readouterr().err
        exact = Mirror(mirror.source, mirror.target, f"{topic}-exact", commit_s=0.1)
        exact.target_servers = target.bootstrap_servers
        await exact.open()
        await exact.topic(f"{topic}-exact", 1)
        async with exact.run(drain=False) as run:
            refused = await run.until_told(LaneRefused)
            assert "the target has no transactions" in refused.text()


@pytest.mark.full
async def test_a_former_owner_that_is_not_fenced_stands_down(mirror: Mirror) -> None:
    """A stale writer: its lease is over, another copier has its lanes, and no broker would refuse it."""
    topic = "stale-writer"
    copied = await mirror.topic(topic, PARTITIONS)
    await filled(mirror, topic)
    async with fronted(mirror.source, mirror.target, Rules(), without(ADD_PARTITIONS)) as (_, target):
        mirror.target_servers = target.bootstrap_servers
        async with mirror.run(epoch=1, drain=False) as old:
            await old.until_copied()
            old.copier.hold()
            async with mirror.run(epoch=2) as new:
                await new.until(lambda: len({one.lane for one in new.told(Resumed)}) == PARTITIONS, "the newer has all")
                await filled(mirror, topic, 200)
                await new.until_copied()
                old.copier.unhold()
                await old.until(lambda: len({one.lane for one in old.told(OwnershipLost)}) == PARTITIONS, "it is told")
    assert await assert_identical(mirror.source, mirror.target, topic, copied) == PARTITIONS * 400


@pytest.mark.full
@pytest.mark.parametrize(
    ("at_source", "at_target", "says"),
    [
        (without(FETCH), Rules(), "cluster 'one' lacks 'reading': broker 1 does not offer Fetch"),
        (Rules(most={FETCH: 9}), Rules(), "cluster 'one' lacks 'reading': broker 1 does not offer Fetch 10 or newer"),
        (Rules(), without(INIT_PRODUCER_ID), "cluster 'two' lacks 'writing': broker 1 does not offer InitProducerId"),
        (Rules(), without(PRODUCE), "cluster 'two' lacks 'writing'"),
        (Rules(), without(CREATE_TOPICS), "create these topics, or add their partitions, with the cluster's own tools"),
        (without(DESCRIBE_CONFIGS), Rules(), "create their copies yourself"),
    ],
    ids=["no Fetch", "old Fetch", "no producer ids", "no Produce", "no CreateTopics", "no DescribeConfigs"],
)
async def test_what_no_flow_can_do_without_is_refused_before_a_start(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    at_source: Rules,
    at_target: Rules,
    says: str,
) -> None:
    topic = f"refused-{abs(hash(says)) % 1000}"
    await create_topics(source_cluster, {topic: 1})
    async with fronted(source_cluster, target_cluster, at_source, at_target) as (source, target):
        servers = {"one": source.bootstrap_servers, "two": target.bootstrap_servers}
        assert await asyncio.to_thread(main, ["check", str(asked(tmp_path, servers, topic))]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.full
async def test_configs_are_merged_where_brokers_replace_all(target_cluster: EmbeddedCluster) -> None:
    """AlterConfigs replaces all configs of a topic: those that the change does not name stay."""
    topics = ["merged-a", "merged-b"]
    await create_topics(
        target_cluster, dict.fromkeys(topics, 1), configs={"retention.ms": "1000", "segment.ms": "2000"}
    )
    change: dict[str, str | None] = {"retention.ms": "3000", "segment.ms": None, "cleanup.policy": "compact"}
    async with RefusingProxy(target_cluster, without(INCREMENTAL_ALTER_CONFIGS)) as proxy:
        client = cluster_client("b", proxy.bootstrap_servers)
        await client.open()
        refused = await KafkaSettings(client).alter({"merged-a": change, "merged-b": {"max.message.bytes": "5000"}})
        await client.close()
    assert (refused, proxy.unasked) == ({}, [])
    assert await own_configs(target_cluster, topics) == {
        "merged-a": {"retention.ms": "3000", "cleanup.policy": "compact"},
        "merged-b": {"retention.ms": "1000", "segment.ms": "2000", "max.message.bytes": "5000"},
    }
    async with RefusingProxy(target_cluster, without(INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS)) as proxy:
        client = cluster_client("b", proxy.bootstrap_servers)
        await client.open()
        assert "needed: brokers of Kafka 2.3" in (await KafkaSettings(client).alter({"merged-a": change}))["merged-a"]
        await client.close()


@pytest.mark.full
async def test_a_strict_target(
    source_cluster: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Timestamps forced, batches small, no auto-created topics, writes throttled: the same records, in order."""
    overrides = {
        "log.message.timestamp.type": "LogAppendTime",
        "message.max.bytes": "20000",
        "auto.create.topics.enable": "false",
    }
    strict = EmbeddedCluster("strict", tmp_path / "strict", overrides=overrides, heap_mib=512)
    topic = "into-a-strict-target"
    with running_clusters(strict):
        words = ("kafka.admin.ConfigCommand", "--bootstrap-server", strict.bootstrap_servers, "--alter")
        quota = ("--entity-type", "clients", "--entity-default", "--add-config", "producer_byte_rate=500000")
        await asyncio.to_thread(strict.tool, *words, *quota)
        mirror = Mirror(source_cluster, strict, topic)
        await mirror.open()
        copied = await mirror.topic(topic, PARTITIONS)
        for partition in range(PARTITIONS):
            for first in range(0, 1500, 150):
                await produce_batch(source_cluster, topic, partition, numbered(150, first=first, size_bytes=600))
        async with mirror.run() as run:
            await run.until_copied()
        assert await assert_identical(source_cluster, strict, topic, copied, timestamps=False) == PARTITIONS * 1500
        servers = {"one": source_cluster.bootstrap_servers, "two": strict.bootstrap_servers}
        assert (
            await asyncio.to_thread(main, ["check", str(asked(tmp_path, servers, topic, "replication.factor = 1"))])
            == 0
        )
        said = capsys.readouterr().err
        assert "stamps records when they are appended" in said
        assert "takes batches up to 20,000 bytes" in said
        assert "limits raymirror's writes to" in said
        client = cluster_client("b", strict.bootstrap_servers)
        await client.open()
        assert (await client.metadata(["nobody-made-this"])).topics["nobody-made-this"].partitions == {}
        with pytest.raises(KafkaRefusal, match="InvalidReplicationFactor"):
            await create_topic(client, "too-many", 1, 5, {})
        await client.close()
