"""What an outbox needs of anything that appends to a target partition in order."""

from typing import Any, Protocol

from engine.core.outcome import Outcome
from engine.core.piece import Lease
from engine.flow.ports import Payload
from policies.model import TopicPartition


class Parcel(Protocol):
    """One batch, ready to be sent."""

    payload: Payload
    lease: Lease | None

    def detach(self) -> None:
        """Copy the bytes out of the receive buffer, if they are in one."""


class Appender(Protocol):
    """A stream of batches for one target partition: a lane's records, or a lane's positions."""

    partition: TopicPartition
    transactional_id: str
    """Of the transaction that its batches are in; empty: in none."""

    def next_parcel(self) -> Parcel | None:
        """Hand out the next stamped batch, None while nothing may be sent."""

    def on_outcome(self, parcel: Any, outcome: Outcome) -> None:
        """Take the answer of one batch, which is the very object that `next_parcel` handed out."""
