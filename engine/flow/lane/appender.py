"""Protocols of what an outbox sends: streams that append batches to one target partition in order."""

from typing import Any, Protocol

from engine.core.lane.outcome import Outcome
from engine.core.lane.pending_batch import BufferShare
from engine.flow.ports.ports import Payload
from policies.model import TopicPartition


class ReadyBatch(Protocol):
    """One batch, ready to be sent."""

    payload: Payload
    lease: BufferShare | None

    def detach(self) -> None:
        """Copy the bytes out of the receive buffer, if they are in one."""

    def let_go(self) -> None:
        """Give the bytes up, if they are in a receive buffer: if the batch fails, it is fetched again."""


class Appender(Protocol):
    """A stream of batches for one target partition: a lane's records, or a lane's positions."""

    partition: TopicPartition
    transactional_id: str
    """The transactional id of its batches' transaction; empty: no transaction."""

    def next_batch(self, *, queues: bool) -> ReadyBatch | None:
        """Hand out the next stamped batch; None while nothing may be sent.

        `queues`: requests queue at the broker, which would take more in larger batches.
        """

    def on_outcome(self, batch: Any, outcome: Outcome) -> None:
        """Take the outcome of one batch; `batch` is the same object that `next_batch` handed out."""
