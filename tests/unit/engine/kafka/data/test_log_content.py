"""A range of a partition counted over several answers of a broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.errors import ConnectionLost
from engine.core.reports.log_content import ContentRange, LogContent
from engine.flow.ports.ports import FetchOptions, Slice
from engine.kafka.client.metadata import Metadata
from engine.kafka.data.log_content import read_content
from engine.kafka.data.logs import Log
from policies.model import TopicPartition
from tests.fakes.source_log import SourceLog

T0 = TopicPartition("t", 0)


class Answers(Log):
    """A log that is a fake, one batch an answer; `empty`: how many answers to each offset have nothing at first."""

    def __init__(self, log: SourceLog, empty: int = 0) -> None:
        client: Any = SimpleNamespace()
        super().__init__(client, Metadata("", -1, {}, {}))
        self._log, self.asked, self._empty = log, list[int](), empty

    async def read(self, partition: TopicPartition, offset: int, options: FetchOptions) -> tuple[memoryview, Slice]:
        assert not options.read_committed, "the markers say what is committed"
        self.asked.append(offset)
        data, _ = self._log.fetch(offset, 1, committed=False)
        if self.asked.count(offset) <= self._empty:
            data = b""
        ends = self._log.end, self._log.last_stable
        return memoryview(bytearray(data)), Slice(partition, 0, len(data), *ends, 0, [])


async def count(
    monkeypatch: pytest.MonkeyPatch, log: SourceLog, end: int, most_bytes: int = 1 << 20, empty: int = 0
) -> tuple[LogContent, list[int]]:
    answers = Answers(log, empty)

    async def of(_client: object, _topic: str) -> Any:
        return answers

    monkeypatch.setattr(Log, "of", of)
    client: Any = SimpleNamespace()
    wanted = ContentRange(first=0, end=end, since=0, most_bytes=most_bytes)
    found = await read_content(client, T0, wanted)
    return found, answers.asked


async def test_it_reads_to_the_end_of_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SourceLog()
    log.data(3)
    log.aborted_data(2, 7)
    log.data(4)
    found, asked = await count(monkeypatch, log, 8)
    assert (found.records, found.is_whole, asked) == (5, True, [0, 3, 5, 6])


async def test_what_the_cleaner_has_taken_at_the_end_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SourceLog()
    log.data(3)
    log.end = 9
    found, asked = await count(monkeypatch, log, 9)
    assert (found.records, found.gone, found.is_whole, asked[:2], set(asked)) == (3, 6, True, [0, 3], {0, 3})


async def test_a_log_that_ends_before_the_range_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader may not know yet how far its log is committed: what it does not show is not gone."""
    log = SourceLog()
    log.data(3)
    with pytest.raises(ConnectionLost, match="t-0: its leader has only 3 of 9"):
        await count(monkeypatch, log, 9)


async def test_records_that_a_broker_does_not_find_in_time_are_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SourceLog()
    log.data(3)
    log.data(2)
    found, asked = await count(monkeypatch, log, 5, empty=2)
    assert (found.records, found.gone, asked) == (5, 0, [0, 0, 0, 3, 3, 3])


async def test_it_stops_at_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SourceLog()
    log.data(3)
    log.data(3)
    found, asked = await count(monkeypatch, log, 6, most_bytes=1)
    assert (found.records, found.is_whole, asked) == (3, False, [0])
