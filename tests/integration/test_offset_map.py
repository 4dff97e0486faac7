"""The offset map on real clusters: killed and resumed, rebuilt from the topics alone, compared with both logs."""

import asyncio
import random

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import KafkaRefusal
from engine.core.offset_map import map_runs
from engine.core.offset_map.offset_map import How
from engine.core.position.position_keys import PositionKeys
from engine.flow.topic_logs.map_reader import MapOptions, MapReader
from engine.kafka.admin.internal_topics import MAP_CONFIGS, ensure_internal_topic
from policies.model import TopicPartition
from tests.harness.admin import create_topics, partition_count
from tests.harness.compaction import COMPACTED
from tests.harness.load import Sent, append, produce, producer
from tests.harness.mirror import Mirror, cluster_client
from tests.harness.offsets import places

pytestmark = pytest.mark.integration

_TURNS, _RECORDS, _KEYS = 40, 3, 100


async def fill(mirror: Mirror, topic: str, dice: random.Random, first: int) -> None:
    """Append small transactions over few keys, some of them aborted; every value is there once."""
    async with producer(mirror.source, transactional_id=topic) as client:
        for turn in range(first, first + _TURNS):
            await client.begin_transaction()
            keys = [b"k%d" % dice.randrange(_KEYS) for _ in range(_RECORDS)]
            sent = [Sent(key, b"%d-%d" % (turn, at)) for at, key in enumerate(keys)]
            await append(client, topic, 0, sent)
            await (client.abort_transaction() if turn % 7 == 3 else client.commit_transaction())


async def clean(mirror: Mirror, topic: str, turn: int) -> dict[bytes, int]:
    """Wait until the cleaner has left holes, and return what is there then and was before; no value is of two turns."""
    seen: dict[bytes, int] = {}
    async with asyncio.timeout(120):
        rolled = 0
        while True:
            found = await places(mirror.source, topic)
            cleaned = len(seen.keys() - found.keys())
            seen |= found
            if cleaned > 20:
                return seen
            await produce(mirror.source, topic, 0, [Sent(b"roll", b"roll-%d-%d" % (turn, rolled))])
            rolled += 1
            await asyncio.sleep(0.15)  # segment.ms of the topic


async def test_the_map_is_rebuilt_from_topics_after_kills(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 8)
    topic, dice = "mapped", random.Random(5)
    copied = await mirror.topic(topic, on_source=COMPACTED)
    lane = TopicPartition(topic, 0)
    source: dict[bytes, int] = {}
    for turn in range(3):
        await fill(mirror, topic, dice, turn * _TURNS)
        source |= await places(mirror.source, topic)  # before the cleaner takes what this run may copy
        if turn:
            source |= await clean(mirror, topic, turn)
        async with mirror.run(drain=turn == 2) as run:  # twice just cut off, with a position from some time before
            await run.until_copied()
    target = await places(mirror.target, copied)
    truth = {source[value]: offset for value, offset in target.items()}
    assert len(truth) == len(target) > 150

    async with mirror.asking_target() as cluster:
        partitions = mirror.options.positions_partitions
        options = MapOptions(
            positions_topic=mirror.positions_topic,
            positions_partitions=partitions,
            position_keys=PositionKeys(mirror.flow.source),
            keep_runs=1,
        )
        reader = MapReader(options, cluster)
        await reader.follow()
        known, head = reader.map_of(lane), reader.head(lane)
        assert known is not None
        assert head is not None
        assert known.begins is not None
        assert known.begins.first
        assert head.blocks > 0
        known.thin(0)
        asked = set[int]()
        for offset in range(head.source_next + 1):
            answer = reader.translate(lane, offset)
            if answer.how is How.UNREAD:
                asked.add(answer.block)
                await reader.recall(lane, [answer.block])
                answer = reader.translate(lane, offset)
            expected = min((place for at, place in truth.items() if at >= offset), default=head.target_next)
            assert answer.offset == expected, (offset, answer, head)
            assert (answer.how is How.RUN) == (offset in truth)
        assert asked == set(range(head.blocks))
        ends = await cluster.offsets([TopicPartition(copied, 0)], -1)
        assert head.target_next <= ends[TopicPartition(copied, 0)]


async def test_the_map_topic_is_made_as_the_positions_topic_is(target_cluster: EmbeddedCluster) -> None:
    client = cluster_client("B", target_cluster.bootstrap_servers)
    await client.open()
    try:
        for _ in range(2):  # made, then found as it should be
            await ensure_internal_topic(client, "raymirror-map.made.internal", 1, MAP_CONFIGS, partitions=5)
        assert await partition_count(target_cluster, "raymirror-map.made.internal") == 5
        narrow = "raymirror-map.narrow.internal"
        await create_topics(target_cluster, {narrow: 2}, configs=MAP_CONFIGS)
        with pytest.raises(
            KafkaRefusal, match=r"has 2 partitions, but needs 5 .37.; delete it, or create it again with 5 "
        ):
            await ensure_internal_topic(client, narrow, 1, MAP_CONFIGS, partitions=5)
    finally:
        await client.close()
