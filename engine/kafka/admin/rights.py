"""Asks which rights on transactional ids a cluster grants, without side effects: no epoch rises, no topic is created.

A broker authorizes these requests before it looks for the id's coordinator, so any broker can answer.
"""

from typing import Any

from aiokafka.protocol.api import Request
from aiokafka.protocol.transaction import EndTxnRequest

from engine.base.errors import KafkaRefusal
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.protocol.faults import TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION, error_name
from engine.kafka.protocol.requests import DescribeTransactions

_NOBODY, _NO_EPOCH = -1, -1


async def missing_rights(client: ClusterClient, transactional_id: str) -> tuple[str, ...]:
    """Return which of Write and Describe are not granted on a transactional id; pass an id that is not in use.

    A broker older than 3.0 cannot be asked about Describe. Raises BrokerUnreachable, ConnectionLost; KafkaRefusal with
    UNSUPPORTED_VERSION if the brokers have no transactions.
    """
    connection = await client.any_connection()
    questions: list[tuple[str, Request[Any]]] = [
        ("Write", EndTxnRequest(transactional_id, _NOBODY, _NO_EPOCH, False)),
    ]
    if DescribeTransactions.spoken_by(connection):
        questions.append(("Describe", DescribeTransactions([transactional_id])))
    found = []
    for operation, question in questions:
        answer = await connection.call(question)
        code = answer.error_code if operation == "Write" else answer.states[0][0]
        if code == UNSUPPORTED_VERSION:
            asked = f"transactions on cluster {client.alias!r}"
            raise KafkaRefusal(asked, code, error_name(code), "needed: brokers with transactions")
        if code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            found.append(operation)
    return tuple(found)
