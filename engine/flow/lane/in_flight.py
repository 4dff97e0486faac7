"""Tracks which outbox has unanswered batches of an appender: until all are answered, no other outbox sends for it.

Only on one connection is the order of sends the order of appends. If the leader moves while answers are outstanding,
another connection could append or refuse the next batch before the last one, and its answers would come out of order.
"""

from typing import Protocol

from engine.flow.lane.appender import Appender


class Carrier(Protocol):
    """The part of an outbox that the tracker calls."""

    def schedule_send(self, appender: Appender) -> None:
        """The appender may send something."""


class InFlightTracker:
    """Counts unanswered batches by appender; all batches of one appender are in one outbox."""

    def __init__(self) -> None:
        self._held: dict[Appender, tuple[Carrier, int]] = {}
        self._waiting: dict[Appender, Carrier] = {}

    def refuses(self, appender: Appender, carrier: Carrier) -> bool:
        """Whether another outbox still waits for answers; this outbox is scheduled after the last of them."""
        refused = self.elsewhere(appender, carrier)
        if refused:
            self._waiting[appender] = carrier
        return refused

    def holds(self, appender: Appender, carrier: Carrier) -> bool:
        """Whether this outbox waits for an answer for the appender."""
        held = self._held.get(appender)
        return held is not None and held[0] is carrier

    def elsewhere(self, appender: Appender, carrier: Carrier) -> bool:
        """Whether another outbox than this one waits for an answer for the appender."""
        held = self._held.get(appender)
        return held is not None and held[0] is not carrier

    def sent(self, appender: Appender, carrier: Carrier) -> None:
        """Count one more batch in flight."""
        held = self._held.get(appender)
        self._held[appender] = (carrier, held[1] + 1 if held is not None else 1)

    def answered(self, appender: Appender) -> None:
        """Count one batch that has its outcome."""
        carrier, count = self._held.pop(appender)
        if count > 1:
            self._held[appender] = (carrier, count - 1)
        elif (waiting := self._waiting.pop(appender, None)) is not None:
            waiting.schedule_send(appender)

    def forget(self, appender: Appender) -> None:
        """Forget the outbox that waits to send for the appender: the appender has ended, or moves to another outbox."""
        self._waiting.pop(appender, None)
