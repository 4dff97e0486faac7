"""Which outbox has batches of an appender without an answer: until all are answered, no other one sends for it.

Order of sends is order of appends on one connection only. A lane whose leader moves while answers are outstanding
would else have the next batch appended, or refused, before the last one, and take answers in another order than its
batches.
"""

from typing import Protocol

from engine.flow.lane.appender import Appender


class Carrier(Protocol):
    """An outbox, as much of it as is needed here."""

    def schedule_send(self, appender: Appender) -> None:
        """The appender may send something."""


class InFlightTracker:
    """Counts batches without an answer, by appender; all of them are in one outbox."""

    def __init__(self) -> None:
        self._held: dict[Appender, tuple[Carrier, int]] = {}
        self._waiting: dict[Appender, Carrier] = {}

    def refuses(self, appender: Appender, carrier: Carrier) -> bool:
        """Whether another outbox owes the appender answers; this one is kicked when the last of them has come."""
        refused = self.elsewhere(appender, carrier)
        if refused:
            self._waiting[appender] = carrier
        return refused

    def holds(self, appender: Appender, carrier: Carrier) -> bool:
        """Whether this outbox owes the appender an answer."""
        held = self._held.get(appender)
        return held is not None and held[0] is carrier

    def elsewhere(self, appender: Appender, carrier: Carrier) -> bool:
        """Whether another outbox than this one owes the appender an answer."""
        held = self._held.get(appender)
        return held is not None and held[0] is not carrier

    def sent(self, appender: Appender, carrier: Carrier) -> None:
        """One more batch has gone out."""
        held = self._held.get(appender)
        self._held[appender] = (carrier, held[1] + 1 if held is not None else 1)

    def answered(self, appender: Appender) -> None:
        """One batch has its outcome, whatever it is."""
        carrier, count = self._held.pop(appender)
        if count > 1:
            self._held[appender] = (carrier, count - 1)
        elif (waiting := self._waiting.pop(appender, None)) is not None:
            waiting.schedule_send(appender)

    def forget(self, appender: Appender) -> None:
        """The outbox that waits to send for the appender need not: it has ended, or goes on to yet another one."""
        self._waiting.pop(appender, None)
