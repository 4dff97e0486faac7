"""A range of a log counted by its batch headers: what a reader of committed records would get."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.reports.log_content import ContentCounter, ContentRange, LogContent
from engine.wire.header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from tests.fakes.source_log import ABORT, BORN_MS, COMMIT, SourceLog


def span(
    first: int, end: int, *, without: frozenset[int] = frozenset(), since: int = -1, most_bytes: int = 1 << 30
) -> ContentRange:
    since = first if since < 0 else since
    return ContentRange(first=first, end=end, since=since, most_bytes=most_bytes, without=without)


def header(base: int, count: int, *, size_bytes: int = 100, bits: int = 0, producer_id: int = -1) -> BatchHeader:
    return BatchHeader(base, size_bytes - 12, 0, 2, 0, bits, count - 1, 50 + base, 99, producer_id, 0, 0, count)


def test_rolled_back_and_open_transactions_and_markers_do_not_count() -> None:
    log = SourceLog()
    log.data(3)
    log.aborted_data(2, 7)
    log.data(2)
    log.open_data(4, 8)
    found = log.content(span(0, log.end))
    assert (found.records, found.gone, found.oldest_ms, found.is_whole) == (5, 0, BORN_MS, True)
    assert log.content(span(3, 6)).is_empty


def test_a_marker_behind_the_range_decides_a_transaction_in_it() -> None:
    log = SourceLog()
    log.aborted_data(3, 7)
    assert log.content(span(0, 2)).records == 0


def test_a_batch_that_begins_before_the_range_counts_in_part() -> None:
    counter = ContentCounter(span(4, 12))
    counter.add(header(0, 8), None)
    counter.add(header(8, 8), None)
    content = counter.content(is_end_reached=False)
    assert content == LogContent(records=8, bytes=100, oldest_ms=50, read_to=12, end=12, records_end=12)


def test_what_compaction_has_taken_is_gone_and_not_empty() -> None:
    counter = ContentCounter(span(0, 10))
    counter.add(header(3, 2), None)
    found = counter.content(is_end_reached=True)
    assert (found.records, found.gone, found.is_empty) == (2, 8, False)
    assert not ContentCounter(span(0, 10)).content(is_end_reached=True).is_empty
    assert ContentCounter(span(10, 10)).content(is_end_reached=False).is_empty


def test_the_batches_of_one_producer_can_be_left_out() -> None:
    counter = ContentCounter(span(0, 6, without=frozenset({7})))
    counter.add(header(0, 3, producer_id=7), None)
    counter.add(header(3, 1, bits=CONTROL_BIT | TRANSACTIONAL_BIT, producer_id=7), 0)
    assert counter.next_offset == 4
    assert ContentCounter(span(0, 4, without=frozenset({7}))).content(is_end_reached=False).is_empty is False
    counter.add(header(4, 2), None)
    found = counter.content(is_end_reached=False)
    assert (found.records, found.gone, found.is_empty) == (2, 0, False)


def test_a_transaction_is_torn_if_it_has_records_on_both_sides() -> None:
    log = SourceLog()
    log.data(2, producer_id=1)  # 0, 1: goes on behind the border
    log.data(1, producer_id=2)  # 2: ends before it
    log.marker(2, COMMIT)  # 3
    log.data(1, producer_id=3)  # 4: is rolled back behind it
    log.open_data(1, 4)  # 5: stays open
    log.data(1, producer_id=5)  # 6: only its marker lies behind
    first = log.end
    for producer_id in (1, 3, 1, 2):
        log.data(1, producer_id=producer_id)
    log.aborted.append((3, 4, log.end))
    log.marker(3, ABORT)
    log.open_data(1, 4)
    for producer_id in (1, 2, 5):
        log.marker(producer_id, COMMIT)
    assert log.content(span(first, log.end, since=0)).torn == 1
    assert log.content(span(first, log.end)).torn == 0, "what is not read is not seen"
    assert log.content(span(first, log.end, since=0)).records == log.content(span(first, log.end)).records == 3


def test_what_is_read_before_the_range_does_not_count() -> None:
    counter = ContentCounter(span(6, 9, since=0))
    counter.add(header(1, 2), None)
    assert counter.content(is_end_reached=False) == LogContent(read_to=6, end=9)
    counter.add(header(7, 2), None)
    found = counter.content(is_end_reached=False)
    assert (found.records, found.gone, found.read_to) == (2, 1, 9)


def test_large_records_before_the_range_do_not_use_up_its_bytes() -> None:
    counter = ContentCounter(span(10, 14, since=0, most_bytes=300))
    for at in range(10):
        counter.add(header(at, 1), None)
        if counter.next_offset == 10:
            break
    assert (at, counter.is_done) == (2, False), "after as many bytes as it may read it goes on at the range"
    for at in range(9, 14):
        if not counter.is_done:
            counter.add(header(at, 1), None)
    found = counter.content(is_end_reached=False)
    assert (found.records, found.gone, found.read_to, found.is_whole) == (3, 0, 13, False)
    assert found.projected(10).records == 4


def test_a_transaction_whose_marker_was_not_read_before_the_range_is_not_torn() -> None:
    counter = ContentCounter(span(10, 12, since=0, most_bytes=100))
    counter.add(header(0, 1, bits=TRANSACTIONAL_BIT, producer_id=7), None)
    counter.add(header(10, 2, bits=TRANSACTIONAL_BIT, producer_id=7), None)
    counter.add(header(12, 1, bits=CONTROL_BIT | TRANSACTIONAL_BIT, producer_id=7), COMMIT)
    found = counter.content(is_end_reached=False)
    assert (found.records, found.torn) == (2, 0)


def test_a_range_that_was_not_read_to_its_end_is_never_empty() -> None:
    counter = ContentCounter(span(0, 9, most_bytes=200))
    counter.add(header(0, 4, bits=TRANSACTIONAL_BIT, producer_id=7), None)
    counter.add(header(4, 1, bits=CONTROL_BIT | TRANSACTIONAL_BIT, producer_id=7), ABORT)
    assert counter.is_done
    found = counter.content(is_end_reached=False)
    assert (found.records, found.is_whole) == (0, False)
    assert found.projected(0).records == 1, "records may follow what was rolled back"


@pytest.mark.parametrize(("read_to", "records"), [(4, 20), (10, 8), (0, 8)])
def test_a_count_that_was_cut_short_is_projected(read_to: int, records: int) -> None:
    found = LogContent(records=8, bytes=80, read_to=read_to, end=10).projected(0)
    assert (found.records, found.bytes) == (records, records * 10)


@given(st.lists(st.sampled_from(["data", "aborted", "open", "committed"]), max_size=6), st.data())
def test_a_count_agrees_with_a_reader(parts: list[str], data: st.DataObject) -> None:
    log = SourceLog()
    for number, part in enumerate(parts):
        match part:
            case "data":
                log.data(2)
            case "aborted":
                log.aborted_data(2, 10 + number)
            case "committed":
                log.data(2, producer_id=10 + number)
                log.marker(10 + number, 1)
            case _:
                log.open_data(2, 10 + number)
    first = data.draw(st.integers(0, log.end))
    end = data.draw(st.integers(first, log.end))
    open_from = log.open.values()
    seen = [
        record.offset
        for records in log.read(committed=False)
        for record in records
        if first <= record.offset < end
        and record.offset in log.wanted()
        and not any(at <= record.offset < at + 2 for at in open_from)
    ]
    assert log.content(span(first, end)).records == len(seen)


def test_a_range_that_begins_within_a_batch_tears_its_transaction_once() -> None:
    log = SourceLog()
    log.data(2, producer_id=7)
    log.data(4, producer_id=7)
    log.marker(7, COMMIT)
    assert [log.content(span(first, log.end, since=0)).torn for first in (0, 2, 4, 6, 7)] == [0, 1, 1, 0, 0]
