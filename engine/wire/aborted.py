"""Finds batches of aborted transactions: by a fetch answer's list (Kafka's `CompletedFetch`), or by markers."""

import enum

from engine.wire.batch import BatchHeader

ABORT_MARKER = 0
COMMIT_MARKER = 1


class AbortedTransactions:
    """The list of aborted transactions of one fetched partition, consumed while its batches are read in order.

    Between the first offset of an aborted transaction and its marker, transactional batches of its producer id are
    aborted. Call `is_aborted` for every batch, in order, and `on_control` for every control batch.
    """

    def __init__(self, transactions: list[tuple[int, int]]) -> None:
        """Take (producer id, first offset) pairs in any order."""
        self._waiting = sorted(((first, producer) for producer, first in transactions), reverse=True)
        self._open: set[int] = set()

    @property
    def none_left(self) -> bool:
        """Whether no batch from here on was rolled back."""
        return not self._waiting and not self._open

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the records of this batch were rolled back."""
        self._advance(header.last_offset)
        return header.is_transactional and header.producer_id in self._open

    def on_control(self, header: BatchHeader, control: int) -> None:
        """Note a control batch; an abort marker ends the transaction of its producer id."""
        self._advance(header.last_offset)
        if control == ABORT_MARKER:
            self._open.discard(header.producer_id)

    def _advance(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[-1][0] <= offset:
            self._open.add(waiting.pop()[1])


class Fate(enum.Enum):
    """The outcome of a batch's transaction."""

    COMMITTED = "committed"
    """Committed, or in no transaction."""
    ABORTED = "aborted"
    OPEN = "open"
    """Its transaction has not ended as far as was read."""


class Fates:
    """The fates of the batches of one partition, by the markers after them.

    A marker ends the open transaction of its producer id at any epoch (Kafka's `ProducerStateManager.completeTxn`).
    Unlike the list of a fetch answer, markers are also known above the last stable offset. Below it no transaction is
    open: a batch without a marker there was committed, and compaction removed the marker.
    """

    def __init__(self) -> None:
        self.stable = -1
        """The newest known last stable offset."""
        self._open: dict[int, set[int]] = {}
        self._aborted: set[int] = set()

    def note(self, header: BatchHeader, control: int | None) -> None:
        """Note the next batch of the log; `control` is the type of a control batch, else None."""
        if control is None:
            if header.is_transactional:
                self._open.setdefault(header.producer_id, set()).add(header.base_offset)
        elif control in (ABORT_MARKER, COMMIT_MARKER):
            ended = self._open.pop(header.producer_id, set())
            if control == ABORT_MARKER:
                self._aborted.update(ended)

    def of(self, base_offset: int) -> Fate:
        """Return the fate of the batch at a base offset."""
        if base_offset in self._aborted:
            return Fate.ABORTED
        if base_offset >= self.stable and any(base_offset in offsets for offsets in self._open.values()):
            return Fate.OPEN
        return Fate.COMMITTED
