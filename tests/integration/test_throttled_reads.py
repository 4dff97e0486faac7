"""Short reads under a quota: a broker whose quota is used up answers a fetch with no data (KIP-219)."""

from collections.abc import Iterator

import pytest

from deploy.local.cluster import EmbeddedCluster
from engine.config.security import HandshakeOptions
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.data.logs import read_topic
from tests.harness.admin import create_topics
from tests.harness.load import numbered, produce

pytestmark = pytest.mark.integration

CLIENT_ID, TOPIC = "throttled-reader", "throttled-reads"
RECORDS, RECORD_BYTES = 1_300, 2_000
QUOTA = 200_000
"""Bytes a second: a broker lets go of ten seconds' worth at once, which is less than there is."""


@pytest.fixture
def narrow(target_cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A target that lets one client read little."""
    words = ("kafka.admin.ConfigCommand", "--bootstrap-server", target_cluster.bootstrap_servers, "--alter")
    whom = ("--entity-type", "clients", "--entity-name", CLIENT_ID)
    target_cluster.tool(*words, *whom, "--add-config", f"consumer_byte_rate={QUOTA}")
    yield target_cluster
    target_cluster.tool(*words, *whom, "--delete-config", "consumer_byte_rate")


async def test_a_read_that_is_throttled_waits_and_is_whole(narrow: EmbeddedCluster) -> None:
    await create_topics(narrow, {TOPIC: 1})
    await produce(narrow, TOPIC, 0, numbered(RECORDS, size_bytes=RECORD_BYTES))
    host, port = narrow.bootstrap_servers.split(",")[0].rsplit(":", 1)
    client = ClusterClient("B", [(host, int(port))], HandshakeOptions(client_id=CLIENT_ID))
    await client.open()
    try:
        records = await read_topic(client, TOPIC)
    finally:
        await client.close()
    assert [key for key, _ in records] == [b"k%d" % number for number in range(RECORDS)]
