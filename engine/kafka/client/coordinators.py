"""Finds the coordinator of a transactional id; any broker knows it."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiokafka.protocol.coordination import FindCoordinatorRequest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.kafka.client.connection import Connection
from engine.kafka.protocol.faults import COORDINATOR_RETRY, NONE, error_name
from policies.grants.rights import Grantee, ResourceKind
from policies.sync.acl_sync import Operation

_TRANSACTION = 1


class Brokers(Protocol):
    """The part of a cluster's client that this module needs."""

    grantee: Grantee

    async def any_says(self, ask: Callable[[Connection], Awaitable[Any]]) -> Any:
        """Ask one broker after the other a question that any of them can answer."""


async def find_coordinator(brokers: Brokers, transactional_id: str) -> int:
    """Return the broker that coordinates a transactional id.

    Raises ConnectionLost, BrokerUnreachable; KafkaRefusal if raymirror may not use the id.
    """
    request = FindCoordinatorRequest(transactional_id, _TRANSACTION)
    answer = await brokers.any_says(lambda connection: connection.call(request))
    if answer.error_code in COORDINATOR_RETRY:
        raise ConnectionLost(f"coordinator of {transactional_id}: {error_name(answer.error_code)}")
    if answer.error_code != NONE:
        raise KafkaRefusal(
            f"transactional id {transactional_id}",
            answer.error_code,
            error_name(answer.error_code),
            brokers.grantee.needs(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transactional_id),
        )
    return int(answer.coordinator_id)
