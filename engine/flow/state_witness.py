"""Who has a flow, or is about to take it, as far as that can be known without the leader of its state topic.

A broker may be cut off from this mirror only. The owner cannot renew its lease then, and another mirror may take the
flow; but it has to announce itself first, with acks=all, and to wait longer than the owner's copiers go on without a
word. So followers in sync can say that nobody has come: while they do, the flow is as surely ours as after a renewal.

Rejected: to let copiers go on because lanes are fenced one by one. A failover without a mirror fences none.
"""

import asyncio
from collections.abc import Sequence

from engine.clock import wall_ms
from engine.core.outcome import Outcome, OutcomeKind
from engine.errors import ConnectionLost, KafkaRefusal, MirrorError
from engine.flow.partition_writer import PartitionWriter
from engine.flow.ports import Cluster
from engine.flow.state_terms import StateTerms
from engine.state import CANDIDATE, Candidate, Deployment, Holder, StateCodec, owner_of
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import TopicPartition

_LATER = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)


async def nobody_else(terms: StateTerms, cluster: Cluster, codec: StateCodec, ours: Deployment, first: int) -> bool:
    """Whether a follower tells that behind offset `first` nobody has announced itself or taken the flow."""
    try:
        async with asyncio.timeout(terms.witness_s):
            records = await cluster.read_followers(TopicPartition(terms.topic, 0), first)
        entries = codec.decode((record.key, record.value) for record in records)
    except (MirrorError, TimeoutError):
        return False
    owner = owner_of(entries)
    return CANDIDATE not in entries and (owner is None or not owner.replaces(ours))


async def announce(terms: StateTerms, cluster: Cluster, codec: StateCodec, holder: Holder) -> None:
    """Write down that this mirror waits for the flow. Raises ConnectionLost, KafkaRefusal."""
    now_ms = wall_ms()
    candidate = Candidate(instance_id=holder.instance_id, mirror=holder.mirror, where=holder.where, at_ms=now_ms)
    records = [Record(0, now_ms, key, value) for key, value in codec.encode({CANDIDATE: candidate}).items()]
    outcome = await _append_once(cluster, TopicPartition(terms.topic, 0), records, terms.request_timeout_s)
    if outcome.kind in _LATER:
        raise ConnectionLost(f"announcing this mirror in topic {terms.topic}: {outcome.message or outcome.kind.value}")
    if outcome.kind is not OutcomeKind.APPENDED:
        why = outcome.message or outcome.kind.value
        raise KafkaRefusal(f"appending to topic {terms.topic}", outcome.error_code, why, "grant Write on it")


async def _append_once(
    cluster: Cluster, partition: TopicPartition, records: Sequence[Record], request_timeout_s: float
) -> Outcome:
    writer = PartitionWriter(cluster, partition, request_timeout_s, by_name=True)
    try:
        return await writer.send(encode_batch(records, NONE))
    finally:
        await writer.close()
