"""Which batches of a fetch response belong to aborted transactions (Kafka's `CompletedFetch`)."""

from engine.wire.batch import BatchHeader

ABORT_MARKER = 0
COMMIT_MARKER = 1


class AbortedTransactions:
    """The aborted list of one fetched partition, consumed while its batches are walked in order.

    From its first offset to its abort marker, a transactional batch of that producer id is aborted. Ask `is_aborted`
    for every batch, in order; tell `on_control` every control batch.
    """

    def __init__(self, transactions: list[tuple[int, int]]) -> None:
        """Take (producer id, first offset) pairs in any order."""
        self._waiting = sorted(((first, producer) for producer, first in transactions), reverse=True)
        self._open: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Say whether the records of this batch were rolled back."""
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
