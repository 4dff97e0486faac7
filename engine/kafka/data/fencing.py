"""Ownership that the broker enforces: a transactional id per lane, plain idempotent batches, and a barrier.

InitProducerId of a new owner raises the epoch, but a leader learns the epoch only with the next append. The barrier
brings it there: AddPartitionsToTxn and EndTxn(abort), an empty transaction whose markers carry the new epoch. It is
complete when DescribeTransactions says CompleteAbort for this id and epoch, not when EndTxn answers.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.flow.ports.ports import NO_TRANSACTIONS, NOT_AUTHORISED, Producer
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import (
    AUTHORIZATION,
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_RETRY,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
    error_name,
)
from engine.kafka.protocol.requests import DescribeTransactions
from policies.grants.rights import ResourceKind
from policies.model import TopicPartition
from policies.sync.acl_sync import Operation

TRANSACTION_TIMEOUT_MS = 60_000
_POLL_S = 0.01
_POLL_MAX_S = 0.25
_POLL_GROWTH = 1.4
"""Each poll waits this much longer than the one before, so the end is noticed at most 40 % late."""
_PATIENCE_S = 60.0
_DONE = "CompleteAbort"
_BARRIER = ((AddPartitionsToTxnRequest.API_KEY, 0), (EndTxnRequest.API_KEY, 0))
_STATE = (DescribeTransactions.API_KEY, 0)
"""Key and version of requests."""


async def acquire(client: ClusterClient, transactional_id: str, partitions: Sequence[TopicPartition]) -> Producer:
    """Acquire the producer at a new epoch and complete a barrier. Raises KafkaRefusal, ConnectionLost."""
    producer = await enter(client, transactional_id)
    await barrier(client, transactional_id, producer, partitions)
    return producer


async def enter(client: ClusterClient, transactional_id: str) -> Producer:
    """Acquire the producer at a new epoch (InitProducerId). Raises KafkaRefusal, ConnectionLost.

    Also refused where the coordinator could not write the barrier of the next owner, which is part of the fence.
    """
    if not await client.coordinator_knows(transactional_id, *_BARRIER):
        asked, right = f"transactional id {transactional_id}", "needed: AddPartitionsToTxn and EndTxn"
        raise KafkaRefusal(asked, UNSUPPORTED_VERSION, error_name(UNSUPPORTED_VERSION), right)
    answer = await patiently(
        client, transactional_id, lambda: InitProducerIdRequest(transactional_id, TRANSACTION_TIMEOUT_MS)
    )
    return Producer(answer.producer_id, answer.producer_epoch, fenced=True)


async def barrier(
    client: ClusterClient, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
) -> None:
    """Write one abort marker of this epoch to every partition and wait until all are written."""
    await add_partitions(client, transactional_id, producer, partitions)
    await end(client, transactional_id, producer, committing=False)
    await _complete(client, transactional_id, producer, partitions)


async def add_partitions(
    client: ClusterClient, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
) -> None:
    """Add partitions to the producer's transaction; waits for the markers of the previous transaction."""
    who = (transactional_id, producer.producer_id, producer.epoch)
    await patiently(client, transactional_id, lambda: AddPartitionsToTxnRequest(*who, _by_topic(partitions)))


async def end(client: ClusterClient, transactional_id: str, producer: Producer, *, committing: bool) -> None:
    """End the producer's transaction; on return the outcome is final, although its markers may come later.

    Uses version 0, which keeps the epoch: from version 5 on (KIP-890) each end raises it, and sequences restart at 0.
    """
    who = (transactional_id, producer.producer_id, producer.epoch)
    await patiently(client, transactional_id, lambda: EndTxnRequest(*who, committing))


def why_unfenced(refusal: KafkaRefusal) -> str:
    """Return why a cluster gives no transactional id, if that is what it refuses; else empty.

    A missing right on a topic is no such refusal: the right comes back, and the lane must be fenced then.
    """
    if refusal.code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return f"{NOT_AUTHORISED}: {refusal}"
    return NO_TRANSACTIONS if refusal.code == UNSUPPORTED_VERSION else ""


async def unfenced(client: ClusterClient, why: str) -> Producer:
    """Acquire a plain producer id; without transactional ids, stale owners are only detected, not fenced.

    Raises KafkaRefusal, also if the cluster has no idempotent producers: without sequences, a repeated append doubles.
    """
    answer = await (await client.any_connection()).call(InitProducerIdRequest(None, TRANSACTION_TIMEOUT_MS))
    if answer.error_code in COORDINATOR_RETRY:  # a young broker has no block of producer ids yet
        raise ConnectionLost(f"InitProducerId on cluster {client.alias!r}: {error_name(answer.error_code)}")
    if answer.error_code != NONE:
        right = "needed: idempotent producers"
        if answer.error_code in AUTHORIZATION:
            right = client.grantee.needs(Operation.IDEMPOTENT_WRITE, ResourceKind.CLUSTER)
        raise KafkaRefusal("InitProducerId", answer.error_code, error_name(answer.error_code), right)
    return Producer(answer.producer_id, answer.producer_epoch, fenced=False, unfenced_by=why)


def _by_topic(partitions: Sequence[TopicPartition]) -> list[tuple[str, list[int]]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return list(topics.items())


async def patiently(client: ClusterClient, transactional_id: str, build: Any) -> Any:
    """Ask the coordinator repeatedly while it moves or still completes the previous owner's transaction."""
    pause_s = _POLL_S
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            answer = await client.coordinator_call(transactional_id, build())
            code, topic = _worst(answer)
            if code == NONE:
                return answer
            if not _passes(code):
                raise _refusal(client, transactional_id, code, topic)
            if code != CONCURRENT_TRANSACTIONS:
                client.forget_coordinator(transactional_id)
            await asyncio.sleep(pause_s)
            pause_s = min(_POLL_MAX_S, pause_s * _POLL_GROWTH)


def _worst(answer: Any) -> tuple[int, str]:
    """Return the error of an answer, and its topic; AddPartitionsToTxn has an error per partition, others have one.

    Where one partition is refused, the coordinator answers OPERATION_NOT_ATTEMPTED for all others (KafkaApis,
    handleAddPartitionsToTxnRequest): the cause counts, and of several causes one that does not go away by waiting.
    """
    if hasattr(answer, "error_code"):
        return int(answer.error_code), ""
    codes = [(code, topic) for topic, rows in answer.errors for _, code in rows if code != NONE]
    causes = [one for one in codes if one[0] != OPERATION_NOT_ATTEMPTED]
    lasting = [one for one in causes if not _passes(one[0])]
    return next(iter((*lasting, *causes, *codes)), (NONE, ""))


def _passes(code: int) -> bool:
    """Whether an error goes away by itself; some brokers do not know a new topic for a moment."""
    return code in COORDINATOR_RETRY or code == UNKNOWN_TOPIC_OR_PARTITION


def _refusal(client: ClusterClient, transactional_id: str, code: int, topic: str = "") -> KafkaRefusal:
    right = ""
    if code in AUTHORIZATION and topic:
        right = client.grantee.needs_on_topic(Operation.WRITE, topic)
    elif code in AUTHORIZATION:
        right = client.grantee.needs(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transactional_id)
    return KafkaRefusal(f"transactional id {transactional_id}", code, error_name(code), right)


async def _complete(
    client: ClusterClient, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
) -> None:
    pause_s = _POLL_S
    if not await client.coordinator_knows(transactional_id, _STATE):
        # A coordinator before 3.0. It answers CONCURRENT_TRANSACTIONS until the markers are written. This new
        # transaction ends at once.
        await add_partitions(client, transactional_id, producer, partitions)
        await end(client, transactional_id, producer, committing=False)
        return
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            answer = await client.coordinator_call(transactional_id, DescribeTransactions([transactional_id]))
            code, _, state, _, _, producer_id, epoch, _, _ = answer.states[0]
            if code == NONE and (producer_id, epoch) != (producer.producer_id, producer.epoch):
                raise KafkaRefusal(
                    f"transactional id {transactional_id}", 90, "ProducerFenced", "a newer owner took the lane"
                )
            if code == NONE and state == _DONE:
                return
            if code not in COORDINATOR_RETRY and code != NONE:
                raise _refusal(client, transactional_id, code)
            await asyncio.sleep(pause_s)
            pause_s = min(_POLL_MAX_S, pause_s * _POLL_GROWTH)
