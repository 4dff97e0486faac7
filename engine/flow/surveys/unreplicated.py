"""Finds records that leaders have appended and their followers do not have yet: nobody can read them, but they will be.

Kafka tells the high watermark as the end of a log. Asked where the present leader epoch ends, a leader answers with the
end of its own log instead (LeaderEpochFileCache.endOffsetFor). A record between the two was accepted, and is
acknowledged once a slow follower has it or has left the in-sync replicas (`replica.lag.time.max.ms`, 30 s by default).
"""

from collections.abc import Mapping

from engine.flow.ports.ports import Cluster
from policies.model import TopicPartition


async def unreplicated(cluster: Cluster, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return where leaders' own logs end, for the partitions where that lies behind these ends.

    A leader that does not say it (before Kafka 2.1) counts as one with nothing more. Raises ConnectionLost,
    BrokerUnreachable.
    """
    led = await cluster.leaders(sorted(ends)) if ends else {}
    epochs = {one: leader.epoch for one, leader in led.items() if leader.epoch >= 0}
    found = await cluster.epoch_ends(epochs) if epochs else {}
    return {one: told.end for one, told in found.items() if told.end > ends[one]}
