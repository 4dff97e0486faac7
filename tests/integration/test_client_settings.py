"""Settings of MM2's clients on real brokers: another compression for every batch, connections with limits."""

import asyncio

import msgspec
import pytest

from engine.config.security import HandshakeOptions
from engine.config.tuning.client_tuning import ClientTuning
from engine.kafka.client.cluster import ClusterClient
from engine.wire.codecs import GZIP, NONE, ZSTD
from tests.harness.compare import assert_identical
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror
from tests.harness.segments import batches

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
async def test_every_batch_gets_the_wished_compression(mirror: Mirror, codec: int) -> None:
    topic = f"wished-{codec}"
    copied = await mirror.topic(topic)
    mirror.options = msgspec.structs.replace(mirror.options, codec=codec)
    sent = 0
    for compression in (None, "lz4", "zstd", "gzip"):
        await produce(mirror.source, topic, 0, numbered(400, first=sent), compression_type=compression)
        sent += 400
        async with mirror.run() as run:
            await run.until_copied()
    assert {one.attributes & 7 for one in batches(mirror.source, topic)} > {codec, NONE}
    assert await assert_identical(mirror.source, mirror.target, topic, copied) == sent
    made = [one for one in batches(mirror.target, copied) if not one.is_control]
    assert {one.attributes & 7 for one in made} == {codec}


async def test_a_client_with_settings_of_its_own_connects_and_replaces_what_was_idle(mirror: Mirror) -> None:
    host, port = mirror.source.bootstrap_servers.split(",")[0].rsplit(":", 1)
    tuning = ClientTuning(
        canonical_names=host == "localhost", idle_s=0.2, send_bytes=65_536, receive_bytes=65_536, answer_s=20.0
    )
    client = ClusterClient("A", [(host, int(port))], HandshakeOptions(client_id="me", tuning=tuning))
    try:
        await client.open()
        node = client.nodes[0]
        first = await client.control(node)
        assert await client.control(node) is first
        async with asyncio.timeout(30):
            while not first.is_stale:  # noqa: ASYNC110 - time must pass
                await asyncio.sleep(0.05)
        second = await client.control(node)
        assert second is not first
        assert (await client.metadata([])).brokers
        assert first.closed.is_set()
    finally:
        await client.close()
