"""Proofs of real copies: a whole copy with everything that makes copies look different, and one fault per partition."""

import asyncio
import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.config.config import load_config
from engine.jobs.proof.beyond import ANOTHER_WRITER
from engine.jobs.proof.model import DifferenceKind, NothingToProve, ProofOptions, ProofStopped, ProofVerdict
from tests.harness.admin import create_topics, delete_records, delete_topic, partition_count
from tests.harness.compaction import COMPACTED, settle
from tests.harness.eventually import until_equal
from tests.harness.load import Sent, append, numbered, produce, producer
from tests.harness.mirror import Mirror
from tests.harness.proofs import lane, prove, write_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    # PySpark leaves the socket of each collected result to the collector of garbage.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TOPICS = tuple(f"verify-{name}" for name in ("turns", "cleaned", "cleaned-there", "eaten", "idle"))
"""Other tests have topics on the same source."""
COUNT, AT, T0_MS = 40, 17, 1_777_000_000_000
FOREVER = {"retention.ms": "-1"}
"""For records that are as old as T0_MS: brokers look every five minutes for what is too old."""
TURNED = 4 * 20 + 3
"""Records of `send_turns` that a reader of committed ones gets."""


async def test_a_copy_is_proven_once(mirror: Mirror, spark: "SparkSession", tmp_path: Path) -> None:
    await mirror.topic("verify-once")
    copied = await mirror.topic("verify-kept")
    await mirror.topic("verify-rest")
    await send_turns(mirror, "verify-once")
    await produce(mirror.source, "verify-kept", 0, numbered(90))
    async with mirror.run() as run:
        await run.until_copied()
    await delete_records(mirror.source, "verify-kept", {0: 30})
    await delete_records(mirror.target, copied, {0: 50})
    topics = "verify-once", "verify-kept", "verify-rest"
    report = await prove(spark, mirror, tmp_path, *topics)
    assert report.differences == ()
    assert report.whole
    assert {one.topic for one in report.lanes} == set(topics)
    turns, kept = lane(report, "verify-once"), lane(report, "verify-kept")
    assert (turns.records, turns.not_comparable, turns.without_record) == (TURNED, 0, 2 * 20 + 6)
    assert (kept.records, kept.not_comparable, kept.proven_to) == (40, 50, 90)
    report = await prove(spark, mirror, tmp_path, *topics)
    assert ([one.records for one in report.lanes], report.whole) == ([0, 0, 0], True)


async def test_a_proof_that_is_to_stop_stops(mirror: Mirror, spark: "SparkSession", tmp_path: Path) -> None:
    from engine.jobs.proof import on_spark as proof

    await mirror.topic("verify-stopped")
    await produce(mirror.source, "verify-stopped", 0, numbered(5))
    async with mirror.run() as run:
        await run.until_copied()
    options, config = (
        ProofOptions(flow=mirror.flow, topics=("verify-stopped",)),
        load_config(write_config(mirror, tmp_path)),
    )
    stop = threading.Event()
    stop.set()
    with pytest.raises(ProofStopped):
        await asyncio.to_thread(proof.run, spark, options, config, stop=stop)


async def test_what_neither_side_has_any_more_is_not_proven(
    mirror: Mirror, spark: "SparkSession", tmp_path: Path
) -> None:
    """Both sides hold the same, which is nothing: only the map tells that there was something."""
    copied = await mirror.topic("verify-gone")
    await produce(mirror.source, "verify-gone", 0, numbered(COUNT))
    async with mirror.run() as run:
        await run.until_copied()
    for cluster, topic in ((mirror.source, "verify-gone"), (mirror.target, copied)):
        await delete_topic(cluster, topic)
        await create_topics(cluster, {topic: 1})
        await until_equal(functools.partial(partition_count, cluster, topic), 1)
    report = await prove(spark, mirror, tmp_path, "verify-gone")
    assert not report.whole
    (one,) = report.differences
    assert (one.kind, one.source_offset, one.what) == (DifferenceKind.GONE, 0, f"and {COUNT - 1} behind it")
    found = lane(report, "verify-gone")
    assert (found.records, found.differences, found.proven_to) == (0, COUNT, 0)
    await produce(mirror.source, "verify-gone", 0, numbered(5))  # records of another topic, at offsets of the old one
    report = await prove(spark, mirror, tmp_path, "verify-gone")
    assert {one.kind for one in report.differences} == {DifferenceKind.GONE, DifferenceKind.MISSING}


async def test_the_command_proves_a_small_copy_without_spark_or_ray(mirror: Mirror, tmp_path: Path) -> None:
    """All kinds of what no reader gets are in it: markers, aborted transactions, and one that is open."""
    await mirror.topic("verify-small")
    await send_turns(mirror, "verify-small")
    async with mirror.run() as run:
        await run.until_copied()
    async with producer(mirror.source, transactional_id="verify-open") as client:
        await client.begin_transaction()
        await append(client, "verify-small", 0, numbered(3))
        path, kept = write_config(mirror, tmp_path), f"file:{tmp_path}/kept"
        words = "verify", path, "--topics", "verify-small", "--storage", kept, "--json"
        done = await asyncio.to_thread(watched, *words)
        await client.abort_transaction()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (told,) = json.loads(done.stdout)["flows"]
    assert (told["whole"], told["where"]) == (True, "process")
    assert [one["records"] for one in told["lanes"]] == [TURNED]
    assert told["why"] in done.stderr
    done = await asyncio.to_thread(watched, *words)
    (told,) = json.loads(done.stdout)["flows"]
    assert (told["whole"], [one["records"] for one in told["lanes"]]) == (True, [0]), "it is remembered"


async def test_what_lies_beyond_the_newest_positions_is_told(mirror: Mirror, tmp_path: Path) -> None:
    """Records that nobody has copied yet are no difference, those of another writer behind the copy are."""
    copied = await mirror.topic("verify-beyond")
    await produce(mirror.source, "verify-beyond", 0, numbered(5))
    async with mirror.run() as run:
        await run.until_copied("verify-beyond")
    await produce(mirror.source, "verify-beyond", 0, numbered(4, first=5))
    words = "verify", write_config(mirror, tmp_path), "--topics", "verify-beyond"
    done = await asyncio.to_thread(watched, *words)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "whole up to the newest positions: 5 records" in done.stdout
    assert "0 differences; 4 source offsets not copied yet" in done.stdout
    await produce(mirror.target, copied, 0, numbered(3))
    done = await asyncio.to_thread(watched, *words, "--json")
    assert done.returncode == 1, f"{done.stdout}\n{done.stderr}"
    (told,) = json.loads(done.stdout)["flows"]
    assert (told["whole"], told["waiting"], told["strangers"]) == (False, 4, 3)
    assert told["behind"] >= 3
    assert [(one["kind"], one["source_offset"]) for one in told["differences"]] == [("extra", -1)] * 3


def watched(*words: object) -> "subprocess.CompletedProcess[str]":
    """Run the command; it fails if Ray or Spark was imported, or a program started."""
    script = (
        "import subprocess, sys\n"
        "def no(*_words, **_terms):\n    raise AssertionError('a program is started')\n"
        "subprocess.Popen.__init__ = no\n"
        "from actors.cli.main import main\n"
        f"code = main({[str(word) for word in words]!r})\n"
        "heavy = {'ray', 'raydp', 'pyspark', 'py4j'} & set(sys.modules)\nassert not heavy, heavy\nsys.exit(code)\n"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)


async def send_turns(mirror: Mirror, topic: str) -> None:
    """Send transactions of 20 records each, four committed and two aborted, and three records with nulls."""
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    async with producer(mirror.source, transactional_id=topic) as client:
        for turn in range(6):
            await client.begin_transaction()
            await append(client, topic, 0, [one._replace(headers=headers) for one in numbered(20, first=turn * 20)])
            await (client.abort_transaction() if turn % 3 == 1 else client.commit_transaction())
    await produce(mirror.source, topic, 0, [Sent(None, b""), Sent(b"", b""), Sent(b"k", None)])


@pytest.mark.full
async def test_a_good_copy_is_whole_and_read_once(mirror: Mirror, spark: "SparkSession", tmp_path: Path) -> None:
    await mirror.topic("verify-turns")
    await mirror.topic("verify-cleaned", on_source=COMPACTED)
    copied = await mirror.topic("verify-cleaned-there", on_source={"cleanup.policy": "compact"}, on_target=COMPACTED)
    eaten = await mirror.topic("verify-eaten")
    await mirror.topic("verify-idle")
    await send_turns(mirror, "verify-turns")
    await produce(mirror.source, "verify-cleaned", 0, numbered(200, keys=20), compression_type="lz4")
    await settle(mirror.source, "verify-cleaned", keep=22)
    tombstones = [Sent(b"k%d" % n, None) for n in range(3)]
    await produce(mirror.source, "verify-cleaned-there", 0, [*numbered(200, keys=20), *tombstones])
    await produce(mirror.source, "verify-eaten", 0, numbered(90))
    async with mirror.run() as run:
        await run.until_copied()
    await delete_records(mirror.source, "verify-eaten", {0: 30})
    await delete_records(mirror.target, eaten, {0: 50})
    await settle(mirror.target, copied, keep=23)  # it writes other keys than ours, behind ours
    report = await prove(spark, mirror, tmp_path, *TOPICS)
    strange = {(one.topic, one.what) for one in report.differences}
    assert strange == {("verify-cleaned-there", ANOTHER_WRITER)}, "`settle` wrote it"
    assert not report.whole
    assert {one.topic for one in report.lanes} == set(TOPICS)
    turns = lane(report, "verify-turns")
    assert (turns.records, turns.not_comparable) == (TURNED, 0)
    assert turns.without_record == 2 * 20 + 6
    assert lane(report, "verify-cleaned").without_record > 100
    assert lane(report, "verify-cleaned-there").not_comparable >= 180
    kept = lane(report, "verify-eaten")
    assert (kept.records, kept.not_comparable, kept.proven_to) == (40, 50, 90)

    await produce(mirror.source, "verify-turns", 0, numbered(30, first=500))
    report = await prove(spark, mirror, tmp_path, "verify-turns", "verify-idle")
    assert (lane(report, "verify-turns").records, report.whole) == (0, True)
    async with mirror.run(drain=False) as run:  # cut off
        await run.until_copied("verify-turns")  # not where a stranger has written
    async with mirror.run() as run:  # another owner: another generation of the map, so all is read again
        await run.until_copied("verify-turns")
    report = await prove(spark, mirror, tmp_path, "verify-turns")
    assert (lane(report, "verify-turns").records, report.whole) == (TURNED + 30, True)


def altered(**fields: Any) -> Callable[[list[Sent]], list[Sent]]:
    return lambda sent: [*sent[:AT], sent[AT]._replace(**fields), *sent[AT + 1 :]]


# Where something is altered, it is by one bit.
FAULTS: tuple[tuple[str, Callable[[list[Sent]], list[Sent]], DifferenceKind | None], ...] = (
    ("none", lambda sent: sent, None),
    ("deleted", lambda sent: [*sent[:AT], *sent[AT + 1 :]], DifferenceKind.MISSING),
    ("doubled", lambda sent: [*sent[: AT + 1], *sent[AT:]], DifferenceKind.EXTRA),
    ("swapped", lambda sent: [*sent[:AT], sent[AT + 1], sent[AT], *sent[AT + 2 :]], DifferenceKind.REORDERED),
    ("key", altered(key=b"k16"), DifferenceKind.ALTERED),
    ("value", altered(value=b"v16 "), DifferenceKind.ALTERED),
    ("header", altered(headers=[("h", b"1"), ("h", None)]), DifferenceKind.ALTERED),
    ("header name", altered(headers=[("i", b"0"), ("h", None)]), DifferenceKind.ALTERED),
    ("header made empty", altered(headers=[("h", b"0"), ("h", b"")]), DifferenceKind.ALTERED),
    ("timestamp", altered(timestamp_ms=T0_MS + (AT ^ 1)), DifferenceKind.ALTERED),
    ("null made empty", altered(value=b""), DifferenceKind.ALTERED),
)


@pytest.mark.full
async def test_every_planted_fault_is_found(mirror: Mirror, spark: "SparkSession", tmp_path: Path) -> None:
    """The copies are made anew by hand, so what lies behind the newest position is another writer's."""
    sent = [
        one._replace(timestamp_ms=T0_MS + n, headers=[("h", b"0"), ("h", None)])
        for n, one in enumerate(numbered(COUNT))
    ]
    copied = await mirror.topic("verify-faulty", len(FAULTS), on_source=FOREVER, on_target=FOREVER)
    contents = [
        [one._replace(value=None) if name == "null made empty" and n == AT else one for n, one in enumerate(sent)]
        for name, _, _ in FAULTS
    ]
    async with producer(mirror.source) as client:
        for number, records in enumerate(contents):
            await append(client, "verify-faulty", number, records)
    async with mirror.run() as run:
        await run.until_copied()
    assert (await prove(spark, mirror, tmp_path, "verify-faulty")).whole

    await delete_topic(mirror.target, copied)
    await create_topics(mirror.target, {copied: len(FAULTS)}, configs=FOREVER)
    await until_equal(lambda: partition_count(mirror.target, copied), len(FAULTS))
    async with producer(mirror.target) as client:
        for number, (_, plant, kind) in enumerate(FAULTS):
            if kind is None:  # one offset further on: a record was there, and is none any more
                await append(client, copied, number, contents[number][:1])
                await delete_records(mirror.target, copied, {number: 1})
            await append(client, copied, number, plant(contents[number]))
    report = await prove(spark, mirror, tmp_path, "verify-faulty")
    assert not report.whole
    for number, (name, _, kind) in enumerate(FAULTS):
        here = [one for one in report.differences if one.partition == number]
        found = [one for one in here if one.what != ANOTHER_WRITER]
        if kind is None:  # the records are all there, and elsewhere than translated offsets say
            assert [one.kind for one in found] == [DifferenceKind.SHIFTED], name
            continue
        (one,) = found
        assert one.kind is kind, name
        if kind is DifferenceKind.EXTRA:
            assert one.target_offset in (AT, AT + 1)
        else:
            assert one.source_offset in ((AT, AT + 1) if kind is DifferenceKind.REORDERED else (AT,)), name
        if kind is DifferenceKind.ALTERED:
            assert one.what == name.split()[0].replace("header", "headers").replace("null", "value")
    words = "verify", write_config(mirror, tmp_path), "--topics", "verify-faulty", "--json"
    told = list[dict[str, Any]]()
    for wish, said in (("auto", "in this process, without Spark"), ("always", "starting a local Spark")):
        done = await asyncio.to_thread(command, *words, "--spark", wish)
        assert done.returncode == 1, f"{done.stdout}\n{done.stderr}"
        assert said in done.stderr
        told += json.loads(done.stdout)["flows"]
    assert [one["where"] for one in told] == ["process", "spark"]
    assert sum(one["what"] != ANOTHER_WRITER for one in told[0]["differences"]) == len(FAULTS)
    assert not told[0]["whole"]
    assert told[0].keys() == told[1].keys()
    same = [{name: one[name] for name in ("flow", "lanes", "differences", "whole")} for one in told]
    assert same[0] == same[1]


async def test_without_a_map_nothing_is_claimed(mirror: Mirror, spark: "SparkSession", tmp_path: Path) -> None:
    copied = await mirror.topic("verify-strange")
    await produce(mirror.source, "verify-strange", 0, numbered(5))
    await produce(mirror.target, copied, 0, numbered(5))
    with pytest.raises(NothingToProve, match="no map"):
        await prove(spark, mirror, tmp_path, "verify-strange")
    await mirror.topic("verify-ours")
    await produce(mirror.source, "verify-ours", 0, numbered(5))
    mirror.lanes = tuple(one for one in mirror.lanes if one.source.topic == "verify-ours")
    async with mirror.run() as run:
        await run.until_copied()
    report = await prove(spark, mirror, tmp_path, "verify-strange", "verify-ours")
    assert lane(report, "verify-ours").verdict is ProofVerdict.WHOLE
    assert (lane(report, "verify-strange").verdict, lane(report, "verify-strange").unmapped) == (
        ProofVerdict.UNPROVEN,
        5,
    )
    assert not report.whole


def command(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "actors", *map(str, words)], capture_output=True, text=True, check=False, timeout=300
    )
