"""Both logs of a proof without Spark: skipped records, and repeated requests."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from engine.base.errors import ConnectionLost, OffsetGone
from engine.jobs.proof.places import logs as proof_logs
from policies.model import TopicPartition

LANE = TopicPartition("t", 0)
Answer = int | Exception
"""The offset behind it, or what is raised."""


class Cluster:
    """A log that gives one answer after the other."""

    def __init__(self, answers: list[Answer], start: int) -> None:
        self.answers, self.start = answers, start
        self.asked: list[int] = []

    async def read(
        self, _client: Any, _partition: Any, first: int, _end: int, **_options: Any
    ) -> tuple[int, list[Any]]:
        self.asked.append(first)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer, []

    async def offsets(self, _client: Any, partitions: list[TopicPartition], _at: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.start)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    async def read(*answers: Answer, start: int = 0) -> tuple[list[int], list[int]]:
        """Read from 10 up to 50; return what was asked for, and the offsets behind the answers."""
        cluster = Cluster(list(answers), start)
        monkeypatch.setattr(proof_logs, "read_batches", cluster.read)
        monkeypatch.setattr(proof_logs, "list_offsets", cluster.offsets)
        client: Any = SimpleNamespace(alias="A")
        reader = proof_logs._LogReader(client, committed=True, inflated_bytes=1)
        return [behind async for behind, _ in reader.read(LANE, (10, 50))], cluster.asked

    return read


async def test_a_log_is_read_answer_by_answer(reads: Callable[..., Any]) -> None:
    assert await reads(30, 55) == ([30, 55], [10, 30])


async def test_where_it_gives_nothing_more_the_reading_ends(reads: Callable[..., Any]) -> None:
    assert await reads(30, 30) == ([30, 30], [10, 30])


async def test_what_retention_took_is_passed_over(reads: Callable[..., Any]) -> None:
    assert await reads(20, OffsetGone("x"), 50, start=40) == ([20, 40, 50], [10, 20, 40])
    assert await reads(OffsetGone("x"), start=90) == ([50], [10])


async def test_a_log_that_ends_before_has_nothing(reads: Callable[..., Any]) -> None:
    assert await reads(OffsetGone("x"), start=0) == ([50], [10])


async def test_a_leader_that_moved_is_asked_again(reads: Callable[..., Any]) -> None:
    assert await reads(30, ConnectionLost("x"), 50) == ([30, 50], [10, 30, 30])
