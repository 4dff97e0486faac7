"""Answers of a cluster to readers: the same cases on the fake and on a real broker."""

from collections.abc import Sequence

import pytest

from engine.base.errors import ConnectionLost, OffsetGone
from engine.core.reports.log_content import ContentRange
from engine.flow.ports.ports import FetchAnswer, FetchOptions, PartitionFetch, Producer, Slice, SourceBroker
from engine.wire.batch import read_header, split_batches
from policies.model import TopicPartition
from tests.contract.stage import BORN_MS, RealStage, Stage, batch, send

pytestmark = pytest.mark.contract

_EARLIEST, _LATEST = -2, -1
_COMMITTED = FetchOptions(max_wait_s=0.0)
_ALL = FetchOptions(max_wait_s=0.0, read_committed=False)


class Fresh:
    """New memory for every answer."""

    def room(self, size: int) -> memoryview:
        """Return new memory."""
        return memoryview(bytearray(size))


async def connect(stage: Stage, where: TopicPartition) -> SourceBroker:
    leader = (await stage.port.leaders([where]))[where]
    return await stage.port.source_broker(leader.node)


async def fetch(
    broker: SourceBroker,
    where: TopicPartition,
    offset: int,
    options: FetchOptions = _COMMITTED,
    max_bytes: int = 1 << 20,
) -> tuple[FetchAnswer, Slice]:
    answer = await broker.fetch([PartitionFetch(where, offset, -1, -1, max_bytes)], options, Fresh())
    return answer, answer.slices[0]


async def look(
    stage: Stage, where: TopicPartition, offset: int, options: FetchOptions = _COMMITTED
) -> tuple[list[tuple[int, int]], Slice]:
    """Fetch once: (base offset, next offset) of the batches, and the slice."""
    broker = await connect(stage, where)
    try:
        answer, found = await fetch(broker, where, offset, options)
    finally:
        await broker.close()
    return spans(answer, found), found


def spans(answer: FetchAnswer, found: Slice) -> list[tuple[int, int]]:
    batches = split_batches(answer.buffer, found.start, found.end, *found.partition)
    return [(header.base_offset, header.next_offset) for _, header in batches]


async def filled(stage: Stage, counts: Sequence[int]) -> TopicPartition:
    where = await stage.source()
    for count in counts:
        await stage.data(where, count)
    return where


async def test_a_fetch_says_where_the_log_begins_and_ends(stage: Stage) -> None:
    where = await filled(stage, [3, 4])
    batches, found = await look(stage, where, 0)
    assert batches == [(0, 3), (3, 7)]
    assert (found.log_start, found.last_stable_offset, found.high_watermark) == (0, 7, 7)
    assert (found.fault, found.aborted, found.preferred_replica, found.diverging) == (None, [], -1, None)


async def test_a_fetch_in_mid_batch_brings_the_whole_batch(stage: Stage) -> None:
    where = await filled(stage, [3, 4])
    assert (await look(stage, where, 4))[0] == [(3, 7)]


async def test_a_fetch_at_the_end_brings_nothing(stage: Stage) -> None:
    where = await filled(stage, [3])
    batches, found = await look(stage, where, 3)
    assert (batches, found.start, found.fault) == ([], found.end, None)


async def test_what_has_not_changed_is_left_out_until_it_does(stage: Stage) -> None:
    where, other = await filled(stage, [3]), TopicPartition(stage.name, 99)
    broker = await connect(stage, where)
    options = FetchOptions(max_wait_s=0.0, min_bytes=0)

    async def told(*wanted: PartitionFetch) -> list[tuple[TopicPartition, int, int, bool]]:
        found = (await broker.fetch(wanted, options, Fresh())).slices
        return [(one.partition, one.high_watermark, one.log_start, one.end > one.start) for one in found]

    at_end, missing = PartitionFetch(where, 3, -1, -1, 1 << 20), PartitionFetch(other, 0, -1, -1, 1 << 20)
    assert await told(at_end) == [(where, 3, 0, False)]
    assert await told(at_end) == []
    # What is asked for from elsewhere is fetched from there, and again until it is asked for from behind it.
    again = PartitionFetch(where, 1, -1, -1, 1 << 20)
    assert await told(again) == [(where, 3, 0, True)]
    assert await told(again) == [(where, 3, 0, True)]
    assert await told(at_end) == []
    # A fault is told each time, and stops nothing else.
    for _ in range(2):
        assert await told(at_end, missing) == [(other, -1, -1, False)]
    await stage.drop_before(where, 2)
    assert await told(at_end) == [(where, 3, 2, False)]
    assert await told(at_end) == []
    await stage.data(where, 4)
    assert await told(at_end) == [(where, 7, 2, True)]
    # What was not asked for in between is told anew.
    await told(missing)
    behind = PartitionFetch(where, 7, -1, -1, 1 << 20)
    assert (where, 7, 2, False) in await told(behind, missing)
    assert await told(behind) == []
    await broker.close()


async def test_a_small_fetch_is_cut_anywhere_but_in_its_first_batch(stage: Stage) -> None:
    where = await filled(stage, [3, 4])
    broker = await connect(stage, where)
    answer, found = await fetch(broker, where, 0)
    first = read_header(answer.buffer, found.start).size_bytes
    for limit, size in ((1, first), (first, first), (first + 30, first + 30)):
        answer, found = await fetch(broker, where, 0, max_bytes=limit)
        assert found.end - found.start == size
        assert spans(answer, found) == [(0, 3)]
    await broker.close()


@pytest.mark.parametrize("offset", [1, 8])
async def test_out_of_range(stage: Stage, offset: int) -> None:
    where = await filled(stage, [3, 4])
    await stage.drop_before(where, 3)
    batches, found = await look(stage, where, offset)
    assert found.fault is not None
    assert (batches, found.fault.code, found.fault.name) == ([], 1, "OffsetOutOfRange")
    assert (found.fault.out_of_range, found.fault.retry) == (True, False)
    assert (found.high_watermark, found.last_stable_offset, found.log_start) == (-1, -1, -1)


async def test_the_log_start_moves(stage: Stage) -> None:
    where = await filled(stage, [3, 4])
    await stage.drop_before(where, 3)
    batches, found = await look(stage, where, 3)
    assert (batches, found.log_start) == ([(3, 7)], 3)
    assert await stage.port.offsets([where], _EARLIEST) == {where: 3}


async def test_aborted_transactions_are_listed_for_committed_reads_only(stage: Stage) -> None:
    where = await filled(stage, [2])
    await stage.aborted(where, 3)
    await stage.data(where, 2)
    await stage.aborted(where, 1)
    every = [(0, 2), (2, 5), (5, 6), (6, 8), (8, 9), (9, 10)]
    for offset in (0, 5):
        assert [first for _, first in (await look(stage, where, offset))[1].aborted] == [2, 8]
    assert sorted({*(await look(stage, where, 0))[0], *(await look(stage, where, 6))[0]}) == every
    assert [first for _, first in (await look(stage, where, 6))[1].aborted] == [8]
    assert (await look(stage, where, 0, _ALL))[1].aborted == []


async def test_an_open_transaction_holds_committed_reads_back(stage: Stage) -> None:
    where = await filled(stage, [2])
    await stage.open(where, 3)
    await stage.data(where, 2)
    batches, found = await look(stage, where, 0)
    assert (batches, found.last_stable_offset, found.high_watermark) == ([(0, 2)], 2, 7)
    batches, found = await look(stage, where, 2)
    assert (batches, found.last_stable_offset, found.fault) == ([], 2, None)
    batches, found = await look(stage, where, 0, _ALL)
    assert (batches, found.last_stable_offset) == ([(0, 2), (2, 5), (5, 7)], 2)
    assert await stage.port.offsets([where], _LATEST) == {where: 7}
    open_since = [one.open_since_offset for one in (await stage.port.producers([where]))[where]]
    assert [offset for offset in open_since if offset >= 0] == [2]


async def test_what_was_aborted_behind_an_open_transaction(stage: Stage) -> None:
    where = await filled(stage, [2])
    await stage.open(where, 3)
    await stage.aborted(where, 1)
    batches, found = await look(stage, where, 0)
    assert (batches, found.last_stable_offset, found.high_watermark) == ([(0, 2)], 2, 7)
    assert [first for _, first in found.aborted] == [5]


async def test_what_does_not_exist_is_to_be_looked_up_again(stage: Stage) -> None:
    where = await filled(stage, [1])
    broker = await connect(stage, where)
    for missing in (TopicPartition(where.topic, 99), TopicPartition("no-such-topic", 0)):
        _, found = await fetch(broker, missing, 0)
        assert found.fault is not None
        assert (found.partition, found.fault.code, found.fault.retry) == (missing, 3, True)
        for question in (
            stage.port.offsets([missing], _LATEST),
            stage.port.producers([missing]),
            stage.port.read_headers(missing, 0, 1),
        ):
            with pytest.raises(ConnectionLost, match="has no leader"):
                await question
    assert await stage.port.read_records("no-such-topic") == []
    await broker.close()


async def test_fetches_from_a_topic_created_anew_fail(stage: Stage) -> None:
    where = await filled(stage, [3])
    broker = await connect(stage, where)
    before = (await stage.port.leaders([where]))[where]
    await stage.recreate(where)
    after = (await stage.port.leaders([where]))[where]
    assert after.topic_id not in ("", before.topic_id)
    _, found = await fetch(broker, where, 0)
    assert found.fault is not None
    assert (found.fault.code, found.fault.retry) == (100, True)
    await broker.close()


async def test_brokers_agree_about_the_id_of_a_topic_that_was_made_anew(stage: Stage) -> None:
    where = await stage.source()
    before = (await stage.port.leaders([where]))[where]
    assert await stage.port.settled_id(where.topic) == before.topic_id
    await stage.recreate(where)
    after = (await stage.port.leaders([where]))[where]
    assert await stage.port.settled_id(where.topic) == after.topic_id != before.topic_id


async def test_leaders_name_the_topic(stage: Stage) -> None:
    first = await stage.target()
    other = TopicPartition(first.topic, 1)
    found = await stage.port.leaders([first, other, TopicPartition(first.topic, 2)])
    assert found.keys() == {first, other}
    assert found[first].topic_id == found[other].topic_id != ""
    assert all(leader.node >= 0 and leader.epoch >= 0 for leader in found.values())


async def test_offsets_at_a_timestamp(stage: Stage) -> None:
    where = await filled(stage, [3, 4])
    for timestamp_ms, offset in ((BORN_MS - 1, 0), (BORN_MS + 2, 2), (BORN_MS + 5, 5), (BORN_MS + 7, -1)):
        assert await stage.port.offsets([where], timestamp_ms) == {where: offset}
    assert await stage.port.offsets([where], _EARLIEST) == {where: 0}
    assert await stage.port.offsets([where], _LATEST) == {where: 7}


async def test_headers_of_a_tail(stage: Stage) -> None:
    where = await stage.target()
    producer = await stage.port.acquire(f"{stage.name}-id", [where])
    broker = await stage.port.target_broker((await stage.port.leaders([where]))[where].node)
    for sequence in (0, 3):
        await send(broker, (where, batch(producer, sequence, 3)))
    await broker.close()
    found = await stage.port.read_headers(where, 2, 100)
    assert [(one.base_offset, one.next_offset, one.base_sequence, one.record_span) for one in found] == [
        (1, 4, 0, 3),
        (4, 7, 3, 3),
    ]
    assert {(one.producer_id, one.producer_epoch, one.is_control) for one in found} == {
        (producer.producer_id, producer.epoch, False)
    }
    assert await stage.port.read_headers(where, 7, 7) == []
    with pytest.raises(OffsetGone, match="at 50: the log does not hold that offset"):
        await stage.port.read_headers(where, 50, 60)


async def test_the_time_of_the_first_record_from_an_offset_on(stage: Stage) -> None:
    where = await filled(stage, [3])
    await stage.aborted(where, 1)
    await stage.data(where, 2)
    told = [await stage.port.read_time(where, offset) for offset in range(8)]
    assert told == [BORN_MS, BORN_MS, BORN_MS, BORN_MS + 3, BORN_MS + 5, BORN_MS + 5, BORN_MS + 5, -1]
    with pytest.raises(OffsetGone, match="at 50: the log does not hold that offset"):
        await stage.port.read_time(where, 50)
    with pytest.raises(ConnectionLost, match="has no leader"):
        await stage.port.read_time(TopicPartition("no-such-topic", 0), 0)


def span(first: int, end: int, most_bytes: int = 1 << 20) -> ContentRange:
    return ContentRange(first=first, end=end, since=first, most_bytes=most_bytes)


async def test_a_range_is_counted_as_a_reader_of_committed_records_sees_it(stage: Stage) -> None:
    where = await filled(stage, [3])
    await stage.aborted(where, 2)  # 3, 4 and the marker 5
    await stage.data(where, 4)
    await stage.open(where, 2)
    assert await stage.port.stable_ends([where]) == {where: 10}
    counts: list[tuple[int, int, int, bool]] = []
    for first, end in ((0, 12), (2, 8), (3, 6), (12, 12)):
        found = await stage.port.read_content(where, span(first, end))
        counts.append((found.records, found.gone, found.oldest_ms, found.is_empty))
    assert counts == [(7, 0, BORN_MS, False), (3, 0, BORN_MS, False), (0, 0, -1, True), (0, 0, -1, True)]
    cut = await stage.port.read_content(where, span(0, 12, most_bytes=1))
    assert (cut.is_whole, cut.read_to > 0) == (isinstance(stage, RealStage), True)  # a broker answers with more
    with pytest.raises(OffsetGone):
        await stage.port.read_content(where, span(50, 60))
    with pytest.raises(ConnectionLost, match="has no leader"):
        await stage.port.stable_ends([TopicPartition("no-such-topic", 0)])


async def test_records_of_a_compacted_topic(stage: Stage) -> None:
    first = await stage.target({"cleanup.policy": "compact"})
    other = TopicPartition(first.topic, 1)
    producer = await stage.port.acquire(f"{stage.name}-id", [first, other])
    broker = await stage.port.target_broker((await stage.port.leaders([first]))[first].node)
    await send(broker, (first, batch(producer, 0, keys=[b"a", b"b"])), (other, batch(producer, 0, keys=[b"c"])))
    await stage.port.keep_alive(f"{stage.name}-id", producer, [first])
    await send(broker, (first, batch(producer, 2, keys=[b"a"], value=b"again")))
    await broker.close()
    records = await stage.port.read_records(first.topic)
    assert records == [(b"a", b"v"), (b"b", b"v"), (b"a", b"again"), (b"c", b"v")]


async def test_records_of_a_small_topic_since_an_instant_begin_with_the_first_as_young(stage: Stage) -> None:
    first = await stage.target()
    other, nobody = TopicPartition(first.topic, 1), Producer(-1, -1, fenced=False)  # no barrier: its marker is of today
    broker = await stage.port.target_broker((await stage.port.leaders([first]))[first].node)
    await send(broker, (first, batch(nobody, -1, keys=[b"a", b"b"])), (other, batch(nobody, -1, keys=[b"c"])))
    await send(broker, (first, batch(nobody, -1, keys=[b"a"], value=b"older")))
    await broker.close()
    every = [(b"a", b"v"), (b"b", b"v"), (b"a", b"older"), (b"c", b"v")]
    assert await stage.port.read_records(first.topic, since_ms=0) == every
    assert await stage.port.read_records(first.topic, since_ms=BORN_MS + 1) == every[1:3]
    assert await stage.port.read_records(first.topic, since_ms=BORN_MS + 2) == []


async def read_log(stage: Stage, where: TopicPartition, first: int, end: int, *, committed: bool = True) -> list[int]:
    """Read a stretch of a log: the offsets of its records."""
    answers = stage.port.read_log(where, first, end, committed=committed)
    return [record.offset async for records in answers for record in records]


async def test_a_stretch_of_a_log_is_read_record_by_record(stage: Stage) -> None:
    where = await filled(stage, [3, 4, 2])
    assert await read_log(stage, where, 0, 9) == list(range(9))
    assert await read_log(stage, where, 2, 5) == [2, 3, 4]
    assert await read_log(stage, where, 9, 9) == []
    assert await read_log(stage, where, 5, 20) == [5, 6, 7, 8]
    first = [record async for records in stage.port.read_log(where, 4, 5, committed=True) for record in records]
    assert [(one.offset, one.key, one.timestamp) for one in first] == [(4, b"4", BORN_MS + 4)]


async def test_a_stretch_with_an_aborted_transaction_is_read_with_it_or_without(stage: Stage) -> None:
    where = await filled(stage, [2])
    await stage.aborted(where, 3)  # 2, 3, 4 and the marker 5
    await stage.data(where, 1)
    assert await read_log(stage, where, 0, 7) == [0, 1, 6]
    assert await read_log(stage, where, 0, 7, committed=False) == [0, 1, 2, 3, 4, 6]
