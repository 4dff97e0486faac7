"""Creates copies that the target lacks, many at a time, with the configs of their sources."""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.base.errors import KafkaRefusal
from engine.base.parts import parts_by_weight
from engine.config.settings import FlowConfig
from engine.kafka.admin.admin import describe_each
from engine.kafka.admin.unknown_configs import UnknownConfigs, create_with_known
from engine.kafka.client.cluster import ClusterClient
from policies.sync.creation import Create, plan_topic
from policies.sync.topic_configs import wanted_configs

MOST_RECORDS: Final = 8_000
"""Records that a request to create topics may add to a KRaft cluster's log.

A controller takes 10,000 at most. It refuses a larger request as a whole; one of Kafka 3.3 or 3.4 resigns at it
(QuorumController.appendRecords).
"""
Made = dict[str, bool | KafkaRefusal]
"""By source topic: whether its copy was made (False: it is there), or why not. A topic that is missing is asked for
again later.
"""


async def create_copies(
    source: ClusterClient,
    target: ClusterClient,
    flow: FlowConfig,
    topics: Sequence[str],
    partitions: Mapping[str, int],
    unknown: UnknownConfigs,
) -> Made:
    """Create the copies of some topics, which have so many partitions; a refused topic does not stop the others.

    Configs that the target does not know are left out; `unknown` learns which these are. Raises ConnectionLost,
    BrokerUnreachable: then nobody knows which were made.
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
    told: Made = {}
    for part in parts_by_weight(sorted(new), lambda remote: _records(new[remote]), MOST_RECORDS):
        told |= (await create_with_known(target, {remote: new[remote] for remote in part}, unknown)).made
    return made | {topic: told[remote] for topic, remote in remotes.items() if remote in told}


def _records(new: Create) -> int:
    """Return how many records the creation of a topic adds: for itself, each of its configs and of its partitions."""
    return 1 + len(new.configs) + new.partitions
