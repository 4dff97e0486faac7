"""Reads what a broker has refused from its log file: the appends of fenced producers."""

import re
from typing import NamedTuple

from deploy.local.cluster import EmbeddedCluster

# ProducerAppendInfo.checkProducerEpoch: InvalidProducerEpochException, error 47 on the wire.
_FENCED = re.compile(
    r"InvalidProducerEpochException: Epoch of producer (\d+) at offset \d+ in (\S+)-(\d+) is (\d+),"
    r" which is < the last seen epoch (\d+)"
)


class Refusal(NamedTuple):
    """One append that came with an epoch older than the one the partition had seen."""

    partition: int
    producer_id: int
    epoch: int
    last_epoch: int


def fenced_appends(cluster: EmbeddedCluster, *topics: str) -> list[Refusal]:
    """List the appends to some topics that brokers of a cluster refused for their producer's epoch, in order."""
    found = [one for log in cluster.log_files for one in _FENCED.findall(log.read_text())]
    return [
        Refusal(int(partition), int(producer_id), int(epoch), int(last_epoch))
        for producer_id, name, partition, epoch, last_epoch in found
        if name in topics
    ]
