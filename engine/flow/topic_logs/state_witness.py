"""Asks followers whether another mirror owns a flow or is about to take it, without the leader of its state topic.

A broker may be cut off from this mirror only. The owner cannot renew its lease then, and another mirror may take the
flow. But that mirror must first announce itself, with acks=all, and then wait longer than the owner's copiers continue
without a renewal. So in-sync followers can confirm that no mirror has announced itself: while they do, this mirror owns
the flow as surely as after a renewal.

Rejected: to let copiers continue because lanes are fenced one by one. A failover without a mirror fences no lane.
"""

import asyncio
from collections.abc import Sequence

from engine.base.clock import wall_ms
from engine.base.errors import ConnectionLost, KafkaRefusal, MirrorError
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster
from engine.flow.ports.state_options import StateOptions
from engine.state.state import CANDIDATE, Candidate, Deployment, StateCodec, StateHolder, owner_of
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition

_LATER = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)


async def nobody_else(options: StateOptions, cluster: Cluster, codec: StateCodec, ours: Deployment, first: int) -> bool:
    """Whether a follower confirms that since offset `first` no other mirror has announced itself or taken the flow."""
    try:
        async with asyncio.timeout(options.witness_s):
            records = await cluster.read_followers(TopicPartition(options.topic, 0), first)
        entries = codec.decode((record.key, record.value) for record in records)
    except (MirrorError, TimeoutError):
        return False
    owner = owner_of(entries)
    return CANDIDATE not in entries and (owner is None or not owner.replaces(ours))


async def announce(options: StateOptions, cluster: Cluster, codec: StateCodec, holder: StateHolder) -> None:
    """Write to the state topic that this mirror waits for the flow. Raises ConnectionLost, KafkaRefusal."""
    now_ms = wall_ms()
    candidate = Candidate(instance_id=holder.instance_id, mirror=holder.mirror, where=holder.where, at_ms=now_ms)
    records = [Record(0, now_ms, key, value) for key, value in codec.encode({CANDIDATE: candidate}).items()]
    outcome = await _append_once(cluster, TopicPartition(options.topic, 0), records, options.request_timeout_s)
    if outcome.kind in _LATER:
        raise ConnectionLost(
            f"announcing this mirror in topic {options.topic}: {outcome.message or outcome.kind.value}"
        )
    if outcome.kind is not OutcomeKind.APPENDED:
        why = outcome.message or outcome.kind.value
        raise KafkaRefusal(f"appending to topic {options.topic}", outcome.error_code, why, "")


async def _append_once(
    cluster: Cluster, partition: TopicPartition, records: Sequence[Record], request_timeout_s: float
) -> Outcome:
    writer = PartitionWriter(cluster, partition, request_timeout_s, by_name=True)
    try:
        return await writer.send(encode_batch(records, NONE))
    finally:
        await writer.close()
