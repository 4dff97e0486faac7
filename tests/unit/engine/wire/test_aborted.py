"""The aborted list, as Kafka's CompletedFetch reads it."""

from engine.wire.aborted import ABORT_MARKER, COMMIT_MARKER, AbortedTransactions, Fate, Fates
from engine.wire.batch import BatchHeader


def _batch(first: int, last: int, producer_id: int, transactional: bool = True, control: bool = False) -> BatchHeader:
    attributes = 0x10 * transactional | 0x20 * control
    return BatchHeader(first, 49, 0, 2, 0, attributes, last - first, 0, 0, producer_id, 0, 0, last - first + 1)


def test_nothing_is_aborted_without_a_list() -> None:
    aborted = AbortedTransactions([])
    assert not aborted.is_aborted(_batch(0, 9, 7))
    aborted.on_control(_batch(10, 10, 7, control=True), ABORT_MARKER)
    assert not aborted.is_aborted(_batch(11, 12, 7))


def test_from_first_offset_to_marker_and_only_that_producer() -> None:
    aborted = AbortedTransactions([(8, 30), (7, 10)])
    assert not aborted.is_aborted(_batch(0, 9, 7)), "the transaction before, committed"
    assert aborted.is_aborted(_batch(10, 14, 7))
    assert not aborted.is_aborted(_batch(15, 16, 8)), "8's aborted transaction begins later"
    assert not aborted.is_aborted(_batch(17, 18, 7, transactional=False)), "plain batches of the same id"
    assert aborted.is_aborted(_batch(19, 19, 7))
    aborted.on_control(_batch(20, 20, 7, control=True), ABORT_MARKER)
    assert not aborted.is_aborted(_batch(21, 29, 7))
    assert aborted.is_aborted(_batch(30, 30, 8))


def test_a_transaction_that_begins_inside_a_batch_taints_it() -> None:
    assert AbortedTransactions([(7, 12)]).is_aborted(_batch(10, 14, 7))


def test_a_commit_marker_ends_nothing() -> None:
    aborted = AbortedTransactions([(7, 10)])
    assert aborted.is_aborted(_batch(10, 11, 7))
    aborted.on_control(_batch(12, 12, 9, control=True), COMMIT_MARKER)
    assert aborted.is_aborted(_batch(13, 13, 7))


def test_the_same_producer_aborts_twice() -> None:
    aborted = AbortedTransactions([(7, 10), (7, 20)])
    assert aborted.is_aborted(_batch(10, 10, 7))
    aborted.on_control(_batch(11, 11, 7, control=True), ABORT_MARKER)
    assert not aborted.is_aborted(_batch(12, 19, 7))
    assert aborted.is_aborted(_batch(20, 20, 7))


def test_a_marker_alone_consumes_the_list_up_to_itself() -> None:
    aborted = AbortedTransactions([(7, 10)])
    aborted.on_control(_batch(11, 11, 7, control=True), ABORT_MARKER)
    assert not aborted.is_aborted(_batch(12, 13, 7))


def _of(fates: Fates, *offsets: int) -> list[Fate]:
    return [fates.of(offset) for offset in offsets]


def test_fates_are_told_by_the_markers_behind() -> None:
    fates = Fates()
    for header in (_batch(0, 1, 7), _batch(2, 3, 8), _batch(4, 5, 7), _batch(6, 7, 7, transactional=False)):
        fates.note(header, None)
    assert _of(fates, 0, 2, 4, 6) == [Fate.OPEN, Fate.OPEN, Fate.OPEN, Fate.COMMITTED]
    fates.note(_batch(8, 8, 7), ABORT_MARKER)
    assert _of(fates, 0, 2, 4, 6) == [Fate.ABORTED, Fate.OPEN, Fate.ABORTED, Fate.COMMITTED]
    fates.note(_batch(9, 9, 8), COMMIT_MARKER)
    fates.note(_batch(10, 11, 7), None)
    fates.note(_batch(12, 12, 7), 5)
    assert _of(fates, 0, 2, 10) == [Fate.ABORTED, Fate.COMMITTED, Fate.OPEN]
    fates.note(_batch(13, 13, 7), COMMIT_MARKER)
    fates.note(_batch(14, 14, 7), ABORT_MARKER)
    assert _of(fates, 0, 2, 10) == [Fate.ABORTED, Fate.COMMITTED, Fate.COMMITTED]


def test_nothing_below_the_last_stable_offset_is_open() -> None:
    fates = Fates()
    fates.note(_batch(0, 1, 7), None)
    fates.note(_batch(5, 6, 7), None)
    fates.stable = 5
    assert _of(fates, 0, 5) == [Fate.COMMITTED, Fate.OPEN]
