"""Short reads of a log: the records of an answer, and the error of a batch that cannot be inflated."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.errors import BatchTooLarge, ConnectionLost, MalformedBatch
from engine.flow.ports.ports import FetchAnswer, FetchOptions, PartitionFetch, Slice
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.logs import Log, _inflated, read_batches, read_headers, read_log
from engine.wire.batch import read_header
from engine.wire.bounded import InflatedTooLarge, InflateError
from policies.model import TopicPartition
from tests.fakes.source_log import SourceLog

T0 = TopicPartition("t", 0)
FETCH = FetchOptions(max_wait_s=0.0, min_bytes=0, max_bytes=1000, read_committed=False)


@pytest.mark.parametrize(
    ("failure", "error"),
    [(InflatedTooLarge("gzip", 20), BatchTooLarge), (InflateError("gzip: broken"), MalformedBatch)],
)
async def test_a_batch_that_cannot_be_inflated(
    monkeypatch: pytest.MonkeyPatch, failure: InflateError, error: type[Exception]
) -> None:
    log, limits = SourceLog(), list[int]()
    log.data(3)
    batch = memoryview(bytearray(log.fetch(0, 1)[0]))

    def raw_records(_buffer: object, _at: int, _header: object, limit_bytes: int) -> bytes:
        limits.append(limit_bytes)
        raise failure

    monkeypatch.setattr("engine.kafka.data.logs.raw_records", raw_records)
    with pytest.raises(error, match="t-0 at offset 0: gzip"):
        await _inflated(batch, 0, read_header(batch, 0), T0, 20)
    assert limits == [20, 20]


class _Throttled:
    """A broker that answers with nothing so many times, as one does whose quota is used up."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def fetch(self, wanted: Sequence[PartitionFetch], _options: FetchOptions, _room: object) -> FetchAnswer:
        self.left -= 1
        slices = [] if self.left >= 0 else [Slice(wanted[0].partition, 0, 0, 5, 5, 0, [])]
        return FetchAnswer(memoryview(b""), slices, 2.5 if self.left else 0.0)


async def test_a_broker_whose_quota_is_used_up_is_asked_again_when_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    paused = list[float]()

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr("engine.kafka.data.logs.pause", pause)
    monkeypatch.setattr("engine.kafka.data.logs.now_s", lambda: sum(paused))
    log, wanted = _Read(SourceLog()), PartitionFetch(T0, 0, -1, -1, 1000)
    for_a_while: Any = _Throttled(3)
    answer = await log._answer(for_a_while, wanted, FETCH)
    assert (answer.slices[0].high_watermark, paused) == (5, [2.5, 2.5, 0.1])
    for_long: Any = _Throttled(1000)
    with pytest.raises(ConnectionLost, match="t-0 on cluster 'a': raymirror's quota for reading is used up"):
        await log._answer(for_long, wanted, FETCH)


class _Read(Log):
    """Reads of a log that is a fake, two batches an answer."""

    def __init__(self, log: SourceLog, empty: int = 0) -> None:
        client: Any = SimpleNamespace(decoding=asyncio.Lock(), alias="a")
        super().__init__(client, Metadata("", -1, {}, {}))
        self._log, self.asked, self._empty = log, list[FetchOptions](), empty

    def take_the_place_of_logs(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Answer all reads of logs; return the client to read with."""

        async def of(_client: object, _topic: str) -> Log:
            return self

        monkeypatch.setattr(Log, "of", of)
        return None

    async def read(self, partition: TopicPartition, offset: int, options: FetchOptions) -> tuple[memoryview, Slice]:
        self.asked.append(options)
        data, aborted = self._log.fetch(offset, 2, committed=options.read_committed)
        if len(self.asked) <= self._empty:
            data = b""
        end = self._log.end
        return memoryview(bytearray(data)), Slice(partition, 0, len(data), end, self._log.last_stable, 0, aborted)


@pytest.mark.parametrize(
    ("committed", "first", "end", "behind", "offsets"),
    [
        (True, 0, 99, 6, [[0, 1, 2]]),
        (True, 1, 2, 3, [[1]]),
        (True, 6, 99, 9, [[7, 8]]),
        (True, 9, 99, 9, []),
        (False, 0, 99, 6, [[0, 1, 2], [3, 4, 5]]),
        (False, 9, 99, 11, [[9, 10]]),
    ],
)
async def test_an_answer_gives_what_a_reader_gets(
    monkeypatch: pytest.MonkeyPatch, committed: bool, first: int, end: int, behind: int, offsets: list[list[int]]
) -> None:
    """Records 0 to 2, 3 to 5 rolled back by the marker 6, 7 and 8, then a transaction that is open."""
    log = SourceLog()
    log.data(3)
    log.aborted_data(3, 7)
    log.data(2)
    log.open_data(2, 8)
    reads = _Read(log)

    client = reads.take_the_place_of_logs(monkeypatch)
    found, batches = await read_batches(client, T0, first, end, committed=committed)
    assert (found, [[one.offset for one in records] for _, records in batches]) == (behind, offsets)
    assert [(one.min_bytes, one.max_wait_s > 0) for one in reads.asked] == [(1, True)], "a broker may have to look"


async def test_records_that_a_broker_does_not_find_in_time_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an export of records in tiered storage would be short, and nobody would know."""
    log = SourceLog()
    log.data(3)
    reads = _Read(log, empty=2)

    client = reads.take_the_place_of_logs(monkeypatch)
    found = [one.offset async for some in read_log(client, T0, 0, 3, committed=True) for one in some]
    assert found == [0, 1, 2]
    assert [one.max_wait_s > 0 for one in reads.asked] == [False, True, True]


async def test_headers_that_a_broker_does_not_find_in_time_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a lane whose last record is in tiered storage takes it for deleted, or looks for its barrier for ever."""
    log = SourceLog()
    log.data(3)
    log.data(2)
    reads = _Read(log, empty=2)

    client = reads.take_the_place_of_logs(monkeypatch)
    found = await read_headers(client, T0, 0, 5)
    assert [(one.base_offset, one.next_offset) for one in found] == [(0, 3), (3, 5)]
    assert [one.max_wait_s > 0 for one in reads.asked] == [False, True, True]


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_of_a_single_offset_one_batch_is_fetched_unless_its_marker_is_needed(
    monkeypatch: pytest.MonkeyPatch, in_transaction: bool
) -> None:
    log = SourceLog()
    if in_transaction:
        log.aborted_data(3, 7)
    else:
        log.data(3)
    reads = _Read(log)

    client = reads.take_the_place_of_logs(monkeypatch)
    found = await read_headers(client, T0, 2, 3)
    assert (found[0].base_offset, found[0].is_control) == (0, in_transaction)
    assert [one.max_bytes == 1 for one in reads.asked] == ([True, False] if in_transaction else [True])
