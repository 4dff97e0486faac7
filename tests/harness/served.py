"""Bytes of records that brokers served, per client, from their own request logs."""

import json
import re

from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster

LOG_REQUESTS = {"kafka.request.logger": "DEBUG"}
"""Log levels of a cluster whose brokers log each request that they answer."""
_FETCH = 1
_LINE = re.compile(rb"Completed request:(\{.*\}) \(kafka\.request\.logger\)$")


def fetched_bytes(cluster: EmbeddedCluster, client_id: str) -> dict[int, int]:
    """Return the bytes of record sets that each broker has answered this client's fetches with so far."""
    return {broker.node_id: _fetched_bytes(broker, client_id) for broker in cluster.brokers}


def _fetched_bytes(broker: Broker, client_id: str) -> int:
    total = 0
    with broker.log_file.open("rb") as lines:
        for line in lines:
            found = _LINE.search(line.rstrip())
            if found is None:
                continue
            logged = json.loads(found[1])
            head = logged["requestHeader"]
            if head["requestApiKey"] == _FETCH and head["clientId"] == client_id:
                total += sum(
                    partition["recordsSizeInBytes"]
                    for topic in logged["response"]["responses"]
                    for partition in topic["partitions"]
                )
    return total
