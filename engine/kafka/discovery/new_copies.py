"""Creates copies that the target lacks, many at a time, with the configs of their sources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.base.errors import KafkaRefusal
from engine.base.parts import parts, parts_by_weight
from engine.config.settings import FlowConfig
from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from engine.kafka.admin.admin import create_topics, describe_each
from engine.kafka.client.cluster import ClusterClient
from policies.sync.creation import Create, plan_topic
from policies.sync.topic_configs import wanted_configs

MOST_PARTITIONS: Final = 2_000
"""Partitions of one request to create topics: a controller takes no more than 10,000 changes at once."""
Made = dict[str, bool | KafkaRefusal]
"""By source topic: whether its copy was made (False: it is there), or why not."""


def in_requests(partitions: Mapping[str, int]) -> Iterator[list[str]]:
    """Split topics (name: number of partitions) so that the copies of each part are created by one request."""
    for part in parts_by_weight(sorted(partitions), partitions.__getitem__, MOST_PARTITIONS):
        yield from parts(part, TOPICS_AT_ONCE)


async def create_copies(
    source: ClusterClient, target: ClusterClient, flow: FlowConfig, topics: Sequence[str], partitions: Mapping[str, int]
) -> Made:
    """Create the copies of some topics, which have so many partitions; a refused topic does not stop the others.

    Raises ConnectionLost, BrokerUnreachable: then nobody knows which were made.
    """
    made: Made = {}
    remotes: dict[str, str] = {}
    new: dict[str, Create] = {}
    for topic, configs in (await describe_each(source, topics)).items():
        if isinstance(configs, KafkaRefusal):
            made[topic] = configs
            continue
        plan = plan_topic(partitions[topic], None, flow.replication_factor, wanted_configs(configs, flow.config_rules))
        assert isinstance(plan, Create)
        remotes[topic] = flow.naming.remote_topic(flow.name.source, topic)
        new[remotes[topic]] = plan
    told = await create_topics(target, new) if new else {}
    return made | {topic: told[remote] for topic, remote in remotes.items()}
