"""A target broker whose connection is lost: every request has its outcomes, in the order of the sends."""

import asyncio
import gc
import weakref
from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from engine.base.errors import ConnectionLost
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.flow.ports.ports import Append
from engine.kafka.client.connection import Answer, Connection
from engine.kafka.data import target
from engine.kafka.data.target import KafkaTargetBroker
from engine.kafka.protocol.codec import Produced
from policies.grants.rights import Grantee
from policies.model import TopicPartition


class Closing:
    """A connection that answers what was sent one by one while it is closed already, as asyncio's protocols do."""

    address = "nowhere:1"

    def __init__(self) -> None:
        self.pending: list[Answer] = []
        self.lost = False

    def supports(self, _api_key: int, _version: int) -> bool:
        return True

    def send(self, *_request: Any) -> None:
        if self.lost:
            raise ConnectionLost(self.address)
        self.pending.append(next(part for part in _request if callable(part)))

    def close(self) -> None:
        self.lost = True
        for answer in self.pending:
            answer(None)


def append(broker: KafkaTargetBroker, number: int, told: list[tuple[int, Outcome]], then: int | None = None) -> None:
    def on_outcomes(outcomes: Sequence[Outcome]) -> None:
        told.extend((number, outcome) for outcome in outcomes)
        if then is not None:
            append(broker, then, told)  # what an outbox does: it sends on at once

    broker.append([Append(TopicPartition("t", number), bytearray(b"batch"))], on_outcomes)


async def test_what_is_sent_while_the_connection_closes_has_its_outcome_after_what_was_sent_before() -> None:
    connection = Closing()
    broker = KafkaTargetBroker(cast("Connection", connection), {"t": UUID(int=1)}, timeout_s=1.0)
    told: list[tuple[int, Outcome]] = []
    append(broker, 1, told, then=3)
    append(broker, 2, told)
    connection.close()
    assert [number for number, _ in told] == [1, 2]
    await asyncio.sleep(0)
    assert [number for number, _ in told] == [1, 2, 3]
    assert {outcome.kind for _, outcome in told} == {OutcomeKind.UNKNOWN}


async def test_batches_whose_answer_cannot_be_read_have_an_outcome() -> None:
    connection = Closing()
    broker = KafkaTargetBroker(cast("Connection", connection), {"t": UUID(int=1)}, timeout_s=1.0)
    told: list[tuple[int, Outcome]] = []
    append(broker, 1, told)
    with pytest.raises(IndexError):
        connection.pending[0](memoryview(b"\0"))
    assert [(number, outcome.kind) for number, outcome in told] == [(1, OutcomeKind.UNKNOWN)]


class Closed(Closing):
    """A connection that is closed with nothing left to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()

    async def close(self) -> None:  # type: ignore[override]
        self.closed.set()


@pytest.mark.parametrize("how", ["closed by us", "lost"])
async def test_outcomes_that_a_quota_holds_back_come_before_the_next_connection(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "decode_produce", lambda *_answer: (3_600_000, {}))
    connection = Closed()
    broker = KafkaTargetBroker(cast("Connection", connection), {"t": UUID(int=1)}, timeout_s=1.0)
    told: list[tuple[int, Outcome]] = []
    append(broker, 1, told)
    connection.pending[0](memoryview(b""))
    assert (broker.throttled, told) == (True, [])
    if how == "lost":
        connection.closed.set()
        await broker.wait_lost()
    else:
        await broker.close()
    assert [number for number, _ in told] == [1]


class Payload(bytearray):
    """A bytearray that can be referred to weakly."""


async def test_bytes_that_a_lane_gives_up_are_free_before_the_answer() -> None:
    connection = Closing()
    broker = KafkaTargetBroker(cast("Connection", connection), {"t": UUID(int=1)}, timeout_s=1.0)
    payload = Payload(b"batch")
    known = weakref.ref(payload)
    broker.append([Append(TopicPartition("t", 0), payload)], lambda _outcomes: None)
    del payload
    gc.collect()
    assert known() is None
    assert len(connection.pending) == 1


@pytest.mark.parametrize(
    ("code", "name", "right"),
    [
        (29, "TopicAuthorizationFailed", "grant Write on topic t on cluster 'B' to User:mirror"),
        (31, "ClusterAuthorizationFailed", "grant IdempotentWrite on cluster 'B' to User:mirror"),
        (53, "TransactionalIdAuthorizationFailed", "grant Write on transactional id x on cluster 'B' to User:mirror"),
        (87, "InvalidRecord", ""),
    ],
)
async def test_an_append_that_is_not_allowed_names_the_missing_right(code: int, name: str, right: str) -> None:
    connection = Closing()
    broker = KafkaTargetBroker(cast("Connection", connection), {}, 1.0, Grantee("B", "mirror"))
    outcome = broker._outcome("t", "x", Produced(code, -1, -1, -1, ""))
    assert outcome.error_code == code
    assert outcome.message == (f"{name}; {right}" if right else name)
