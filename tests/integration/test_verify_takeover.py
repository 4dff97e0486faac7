"""A proof behind a takeover: what MM2 copied is not claimed, what was copied behind it is whole."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.config import load_config
from engine.errors import ConnectionLost
from engine.jobs.proof_terms import NothingToProve, ProofTerms, Verdict
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror, lanes_of
from tests.harness.mm2 import Mm2, mm2_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

TOPIC = "verified-takeover"
BY_MM2, BY_US = 300, 200
MORE = {"b.offset.flush.interval.ms": "3000", "tasks.max": "1", "emit.heartbeats.enabled": "false"}


async def until_at(mirror: Mirror, mm2: Mm2, records: int) -> None:
    """Wait until MM2 has copied so many."""
    async with asyncio.timeout(180), mirror.asking_target() as target:
        names = [one.target for one in mirror.lanes]
        while True:
            mm2.assert_running()
            try:
                if await target.leaders(names) and min((await target.offsets(names, -1)).values()) >= records:
                    return
            except ConnectionLost:  # a topic that was just created
                pass
            await asyncio.sleep(0.05)


async def test_what_mm2_copied_is_not_claimed(cluster_pair: Pair, spark: "SparkSession", tmp_path: Path) -> None:
    from engine.jobs import proof

    mirror = Mirror(*cluster_pair, alias=TOPIC, positions_partitions=25, flush_s=3600.0)
    mirror.lanes = lanes_of(TOPIC, mirror.copied(TOPIC), 1)
    await mirror.topic_on_source(TOPIC, 1)
    await produce(mirror.source, TOPIC, 0, numbered(BY_MM2))
    mm2 = Mm2(tmp_path / "mm2", mm2_properties(mirror, TOPIC, MORE))
    try:
        await until_at(mirror, mm2, BY_MM2)
    finally:
        await mm2.kill()
    config = load_config(tmp_path / "mm2" / "mm2.properties")
    terms = ProofTerms(flow=mirror.flow, topics=(TOPIC,))
    with pytest.raises(NothingToProve, match="no map"):
        await asyncio.to_thread(proof.run, spark, terms, config)
    await produce(mirror.source, TOPIC, 0, numbered(BY_US, first=BY_MM2))
    partitions = {mirror.map_topic: mirror.terms.positions_partitions}  # MM2 has made the one of positions
    await create_topics(mirror.target, partitions, configs={"cleanup.policy": "compact"})
    for _ in range(2):
        async with mirror.run() as run:
            await run.until_copied()
    report = await asyncio.to_thread(proof.run, spark, terms, config)
    (lane,) = report.lanes
    assert report.differences == ()
    assert lane.verdict is Verdict.WHOLE
    assert report.whole
    assert lane.records + lane.unmapped == BY_MM2 + BY_US
    assert lane.records >= BY_US
