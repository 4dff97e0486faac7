"""A range of a partition counted over several answers of a broker."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.reports.log_content import ContentRange, LogContent
from engine.flow.ports.ports import FetchOptions, Slice
from engine.kafka.data.log_content import read_content
from engine.kafka.data.logs import Log
from policies.model import TopicPartition
from tests.fakes.source_log import SourceLog

T0 = TopicPartition("t", 0)


class Answers:
    """A log that is a fake, one batch an answer."""

    def __init__(self, log: SourceLog) -> None:
        self._log, self.asked = log, list[int]()

    async def read(self, partition: TopicPartition, offset: int, options: FetchOptions) -> tuple[memoryview, Slice]:
        assert not options.read_committed, "the markers say what is committed"
        self.asked.append(offset)
        data, _ = self._log.fetch(offset, 1, committed=False)
        ends = self._log.end, self._log.last_stable
        return memoryview(bytearray(data)), Slice(partition, 0, len(data), *ends, 0, [])


async def count(
    monkeypatch: pytest.MonkeyPatch, log: SourceLog, end: int, most_bytes: int = 1 << 20
) -> tuple[LogContent, list[int]]:
    answers = Answers(log)

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


async def test_it_stops_where_the_log_has_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SourceLog()
    log.data(3)
    found, asked = await count(monkeypatch, log, 9)
    assert (found.records, found.gone, found.is_whole, asked) == (3, 6, True, [0, 3])


async def test_it_stops_at_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SourceLog()
    log.data(3)
    log.data(3)
    found, asked = await count(monkeypatch, log, 6, most_bytes=1)
    assert (found.records, found.is_whole, asked) == (3, False, [0])
