"""The history of a flow in a running mirror: the store that fails, is away at the start, or was written by another."""

import asyncio

import pytest

from engine.base.clock import pause
from engine.core.events.drift_events import (
    ConfigHistoryLost,
    ConfigHistoryUntidy,
    ConfigHistoryUnwritten,
    ManyDrifted,
    TopicDrifted,
)
from engine.flow.config_history import keeper
from engine.flow.config_history.advance import SeenRound
from engine.flow.config_history.keeper import ConfigHistory, HistoryBatch, HistoryFailed
from engine.flow.config_history.look import Values
from engine.flow.config_history.rows import ConfigValueRow, DriftRow, SourceChangeRow
from engine.flow.config_history.state import ConfigOf, HistoryState, restored, stored_value
from engine.flow.config_history.values import WriteTried
from tests.unit.engine.flow.config_history.rounds import FLOW, history_flow, look
from tests.unit.engine.flow.stage import until

KEY = "retention.ms"
PLACE = ConfigOf("orders", KEY)


class FakeTables:
    """Rows in memory; `failing` is raised by every method, `failing_care` by that one."""

    where = "memory"

    def __init__(self) -> None:
        self.batches: dict[tuple[str, int], HistoryBatch] = {}
        self.failing: HistoryFailed | None = None
        self.failing_care: HistoryFailed | None = None
        self.loads = 0

    async def load(self, flow: str) -> HistoryState | None:
        assert flow == str(FLOW)
        self.loads += 1
        await pause(0.1)
        self._fail(self.failing)
        return restored(map(stored_value, self.values), self.changes, self.drift)

    async def write(self, batch: HistoryBatch) -> None:
        await pause(0.1)
        self._fail(self.failing)
        assert len(batch.rows)
        self.batches.setdefault((batch.writer, batch.number), batch)

    async def care(self, now_ms: int) -> None:
        self._fail(self.failing_care)

    @staticmethod
    def _fail(failure: HistoryFailed | None) -> None:
        if failure is not None:
            raise failure

    @property
    def values(self) -> list[ConfigValueRow]:
        return [row for one in self.batches.values() for row in one.rows.values]

    @property
    def changes(self) -> list[SourceChangeRow]:
        return [row for one in self.batches.values() for row in one.rows.changes]

    @property
    def drift(self) -> list[DriftRow]:
        return [row for one in self.batches.values() for row in one.rows.drift]


class Running:
    """A mirror's history, round after round."""

    def __init__(self, tables: FakeTables | None = None, at_ms: int = 0) -> None:
        self.tables = tables or FakeTables()
        self.history = ConfigHistory(history_flow(), self.tables)
        self.at_ms = at_ms

    def saw(
        self, source: dict[str, Values], copies: dict[str, Values], tried: dict[ConfigOf, WriteTried] | None = None
    ) -> None:
        self.at_ms += 1_000
        self.history.saw(
            SeenRound(
                began_ms=self.at_ms - 100,
                at_ms=self.at_ms,
                written_ms=self.at_ms + 50,
                look=look(source, copies),
                tried=tried or {},
            )
        )

    def own(self, source: str, copy: str, *, fixed: bool = True) -> None:
        """See one topic; what differs was set right, or was not."""
        tried = {PLACE: WriteTried(source, "" if fixed else "denied")} if source != copy else None
        self.saw({"orders": {KEY: source}}, {"orders": {KEY: copy}}, tried)


async def test_the_first_round_is_stored_and_then_what_changes() -> None:
    run = Running()
    run.own("5", "5")
    await run.history.flush()
    assert {row.value for row in run.tables.values if row.topic} == {"5"}
    run.own("7", "9")
    await run.history.flush()
    assert run.history.waiting == 0
    assert [(row.new, row.outcome) for row in run.tables.changes] == [("7", "copied")]
    assert [(row.found, row.outcome) for row in run.tables.drift] == [("9", "set_right")]
    (event,) = run.history.take_events()
    assert event == TopicDrifted(
        flow=FLOW, topic="orders", target="A.orders", found={KEY: "9"}, expected={KEY: "7"}, left={}
    )
    assert "retention.ms is 9 instead of 7 (set right)" in event.text()
    assert run.tables.loads == 1


async def test_what_was_changed_while_no_mirror_ran_is_told_and_stored() -> None:
    first = Running()
    first.own("5", "5")
    await first.history.flush()
    second = Running(first.tables, at_ms=60_000)
    second.own("5", "9", fixed=False)
    assert second.history.take_events() == (), "nobody knows yet what was stored"
    await second.history.flush()
    (event,) = second.history.take_events()
    assert isinstance(event, TopicDrifted)
    assert event.left == {KEY: "denied"}
    (row,) = first.tables.drift
    assert (row.after_ms, row.seen_ms, row.outcome) == (900, 61_000, "failed")
    second.own("5", "9")
    await second.history.flush()
    assert [row.outcome for row in first.tables.drift] == ["failed", "set_right"]


async def test_a_store_that_is_away_at_the_start_delays_nothing_and_loses_nothing() -> None:
    first = Running()
    first.own("5", "5")
    first.own("5", "8", fixed=False)
    await first.history.flush()
    second = Running(first.tables, at_ms=60_000)
    second.tables.failing = HistoryFailed("memory", "no route")
    second.own("6", "8", fixed=False)
    second.own("6", "9")  # another drift; the one that is stored has ended
    with pytest.raises(HistoryFailed):
        await second.history.flush()
    second.tables.failing = None
    await second.history.flush()
    second.own("6", "6")
    await second.history.flush()
    assert [(row.new, row.outcome) for row in first.tables.changes] == [("6", "failed"), ("6", "copied")]
    assert sorted((row.found, row.outcome) for row in first.tables.drift) == [
        ("8", "equal_again"),
        ("8", "failed"),
        ("8", "failed"),  # with another expectation
        ("9", "set_right"),
    ]
    state = await first.tables.load(str(FLOW))
    assert state is not None
    assert state.copies.topics == {"orders": {KEY: "6"}}


async def test_a_store_that_fails_is_told_once_and_retried_and_gets_each_row_once() -> None:
    run = Running()
    run.tables.failing = HistoryFailed("memory", "disk full")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run.history.run())
        run.own("5", "5")
        await pause(600.0)
        told = run.history.take_events()
        assert told == (ConfigHistoryUnwritten(flow=FLOW, where="memory", why="disk full"),)
        run.own("5", "9")
        await pause(600.0)
        run.tables.failing = None
        await until(lambda: run.history.waiting == 0 and bool(run.tables.drift))
        task.cancel()
    (batch, *_) = run.tables.batches.values()
    assert batch.number == 0
    assert len(run.tables.drift) == 1
    assert sum(row.origin == "mark" for row in run.tables.values) == 2


async def test_what_waits_is_bounded_and_values_are_right_again_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "MOST_ROWS", 20)
    run = Running()
    run.own("1", "1")
    await run.history.flush()
    run.tables.failing = HistoryFailed("memory", "away")
    for number in range(2, 20):
        run.own(str(number), str(number - 1))
        assert run.history.waiting <= 20
    run.own("20", "20")
    run.tables.failing = None
    await run.history.flush()
    (lost,) = (one for one in run.history.take_events() if isinstance(one, ConfigHistoryLost))
    assert lost.count > 20
    state = await run.tables.load(str(FLOW))
    assert state is not None
    assert state.source.topics == state.copies.topics == {"orders": {KEY: "20"}}
    assert run.tables.loads == 3


async def test_another_owner_of_the_flow_continues_and_so_does_this_one_later() -> None:
    run = Running()
    run.own("5", "5")
    await run.history.flush()
    run.own("6", "5")
    run.history.forget()
    run.history.forget()
    other = Running(run.tables, at_ms=10_000)
    await run.history.flush()
    assert [row.new for row in run.tables.changes] == ["6"], "what this mirror saw is stored"
    other.own("7", "6")
    await other.history.flush()
    run.at_ms = 20_000
    run.own("7", "7")
    await run.history.flush()
    assert [row.new for row in run.tables.changes] == ["6", "7"], "the other mirror has told of it"
    assert run.tables.drift == []


async def test_a_round_that_is_forgotten_while_the_store_is_asked_leaves_no_row() -> None:
    run = Running()
    run.own("5", "5")
    async with asyncio.TaskGroup() as group:
        group.create_task(run.history.flush())
        await pause(0.05)
        run.history.forget()
    assert run.tables.batches == {}
    run.own("6", "6")
    await run.history.flush()
    assert {row.value for row in run.tables.values if row.topic} == {"6"}


async def test_at_its_end_the_store_knows_until_when_nothing_has_changed() -> None:
    run = Running()
    run.own("5", "5")
    await run.history.flush()
    run.own("5", "5")
    assert run.history.waiting == 0
    await run.history.flush()
    await run.history.flush()
    marks = [(row.at_ms, row.after_ms) for row in run.tables.values if row.origin == "mark"]
    assert marks == [(1_000, 900), (2_000, 1_900)]


async def test_many_topics_with_drift_are_counted() -> None:
    run = Running()
    names = [f"t{number}" for number in range(205)]
    run.saw({name: {KEY: "5"} for name in names}, {name: {KEY: "5"} for name in names})
    await run.history.flush()
    run.saw({name: {KEY: "5"} for name in names}, {name: {} for name in names})
    *each, many = run.history.take_events()
    assert len(each) == 200
    assert many == ManyDrifted(flow=FLOW, part="drift", count=5)
    assert isinstance(each[0], TopicDrifted)
    assert each[0].found == {KEY: "not set"}


async def test_what_cannot_be_tidied_is_told_and_rows_are_stored() -> None:
    run = Running()
    run.tables.failing_care = HistoryFailed("memory", "past days cannot be folded")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run.history.run())
        run.own("5", "5")
        await until(lambda: bool(run.tables.batches))
        await pause(10.0)
        task.cancel()
    assert run.history.take_events() == (
        ConfigHistoryUntidy(flow=FLOW, where="memory", why="past days cannot be folded"),
    )
