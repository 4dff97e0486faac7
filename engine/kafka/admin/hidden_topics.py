"""Tells topics that a cluster hides for lack of a right from topics that do not exist.

A broker leaves out of the list of all topics those that raymirror may not describe. Asked by name, it refuses them,
without saying whether they exist (KafkaApis.handleTopicMetadataRequest).
"""

from collections.abc import Iterable

from engine.base.errors import KafkaRefusal
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.client.metadata import Metadata
from engine.kafka.protocol.faults import AUTHORIZATION, error_name
from policies.sync.acl_sync import Operation


async def hidden_topics(client: ClusterClient, wanted: Iterable[str], told: Metadata) -> dict[str, KafkaRefusal]:
    """Return those of `wanted` that the cluster hides, with the refusals; `told` lists all topics that it shows.

    Raises ConnectionLost, BrokerUnreachable.
    """
    missing = sorted(topic for topic in wanted if topic not in told.topics)
    if not missing:
        return {}
    by_name = await client.metadata(missing)
    refusals = {topic: refused_by(client, by_name, topic, Operation.READ) for topic in missing}
    return {topic: refusal for topic, refusal in refusals.items() if refusal is not None}


def refused_by(client: ClusterClient, named: Metadata, topic: str, operation: Operation) -> KafkaRefusal | None:
    """Return the refusal of a topic that was asked for by name; None if it is shown, or does not exist.

    `operation`: what raymirror does with the topic; it includes Describe.
    """
    found = named.topics.get(topic)
    if found is None or found.error_code not in AUTHORIZATION:
        return None
    asked, code = f"topic {topic} on cluster {client.alias!r}", found.error_code
    return KafkaRefusal(asked, code, error_name(code), client.grantee.needs_on_topic(operation, topic))
