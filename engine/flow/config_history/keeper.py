"""The history of one flow's configs in a running mirror: takes what rounds saw, and stores the rows until it succeeds.

    round --saw--> advance --rows--> queue --run--> HistoryStore (three tables)
    first round: held, until the store says what it has; then `advance` from that, so that nothing is missed

The rounds never wait for the store. Rows wait in memory, up to a bound. Beyond it all of them are dropped, and the next
round is compared with the store again: values are right then too, but what changed and changed back is not told.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable
from typing import Protocol

import msgspec

from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.base.storing import keep_storing
from engine.core.events.drift_events import (
    ConfigHistoryLost,
    ConfigHistoryUntidy,
    ConfigHistoryUnwritten,
    ManyDrifted,
    TopicDrifted,
)
from engine.core.events.events import AnyEvent
from engine.flow.config_history.advance import (
    HistoryFlow,
    HistoryStep,
    SeenRound,
    advance,
    first_state,
    mark_row,
)
from engine.flow.config_history.rows import AGAIN, SET_RIGHT, DriftRow, HistoryRows
from engine.flow.config_history.state import HistoryState, SideState

MOST_ROWS = 50_000
"""Rows that wait in memory. Not counted: a snapshot, which has a row for each config of each topic."""
_TOLD_EACH = 200
"""Topics with drift that get an event of their own in one round; the rest is counted."""
_NOT_SET = "not set"


class HistoryFailed(MirrorError):
    """The history could not be written or read: where, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why

    def __str__(self) -> str:
        return f"history of configs at {self.where}: {self.why}"


class HistoryBatch(msgspec.Struct, frozen=True):
    """Rows that are stored together. `number` grows for each `writer`, and `writer` never begins again."""

    writer: str
    number: int
    rows: HistoryRows


class HistoryStore(Protocol):
    """Where the history is kept; `where` names the place."""

    where: str

    async def load(self, flow: str) -> HistoryState | None:
        """Return the state of a flow as stored rows say; None if there are none. Raises HistoryFailed."""

    async def write(self, batch: HistoryBatch) -> None:
        """Store rows unless their batch is stored; they are durable when this returns. Raises HistoryFailed."""

    async def care(self, now_ms: int) -> None:
        """Tidy up stored rows when it is time; called after each write. Raises HistoryFailed."""


class ConfigHistory:
    """The history of one flow; `saw` and `forget` take no time and cannot fail."""

    def __init__(self, flow: HistoryFlow, store: HistoryStore) -> None:
        self.flow = flow
        self._store = store
        self._state: HistoryState | None = None
        self._held: SeenRound | None = None
        """The round that the state began with, until it is compared with what is stored."""
        self._looked_ms = 0
        self._queue: list[HistoryRows] = []
        self._older: list[HistoryRows] = []
        """Rows to be stored before the store is asked what it has."""
        self._batch: HistoryBatch | None = None
        """What is being written, or of which nobody knows whether it is written."""
        self._writer, self._number = uuid.uuid4().hex, 0
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()
        self._events: deque[AnyEvent] = deque(maxlen=1_000)
        self._lost = 0

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Return the events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    @property
    def waiting(self) -> int:
        """How many rows are not known to be stored yet."""
        queued = sum(map(len, (*self._older, *self._queue)))
        return queued + (len(self._batch.rows) if self._batch is not None else 0)

    def saw(self, seen: SeenRound) -> None:
        """Take what a round saw and wrote."""
        self._looked_ms = seen.at_ms
        if self._state is None:
            self._state, self._held = first_state(self.flow, seen), seen
        else:
            self._take(advance(self.flow, self._state, seen))
        self._trim()
        if self._held is not None or self._queue:
            self._some.set()

    def forget(self) -> None:
        """Note that another mirror owns the flow: before the next round, the store is asked again what it has."""
        if self._state is None:
            return
        if self._held is None:
            self._older += self._queue
        self._queue, self._state, self._held = [], None, None

    async def run(self) -> None:
        """Store rows until cancelled; retry a store that fails with a growing pause, and report the failure once."""
        await keep_storing(self._some, self._store_and_care, HistoryFailed, self._unwritten)

    async def _store_and_care(self) -> None:
        await self._store_all()
        await self._care()

    def _unwritten(self, failure: HistoryFailed) -> None:
        self._events.append(ConfigHistoryUnwritten(flow=self.flow.name, where=failure.where, why=failure.why))

    async def _care(self) -> None:
        try:
            await self._store.care(wall_ms())
        except HistoryFailed as failure:
            self._events.append(ConfigHistoryUntidy(flow=self.flow.name, where=failure.where, why=failure.why))

    async def flush(self) -> None:
        """Store now what waits, and that nothing else has changed up to the last round.

        Raises HistoryFailed; the rows then stay queued.
        """
        state = self._state
        if state is not None and self._looked_ms > state.marked_ms:
            self._queue.append(HistoryRows(values=(mark_row(self.flow, state, self._looked_ms),)))
            self._state = msgspec.structs.replace(state, marked_ms=self._looked_ms)
        await self._store_all()

    async def _store_all(self) -> None:
        async with self._writing:
            self._some.clear()
            try:
                await self._write_some(self._older)
                while (held := self._held) is not None:
                    await self._compare_with_store(held)
                    await self._write_some(self._older)
                await self._write_some(self._queue)
            except BaseException:
                self._some.set()
                raise

    async def _compare_with_store(self, held: SeenRound) -> None:
        """Make the rows between what is stored and the round that the state began with."""
        stored = await self._store.load(str(self.flow.name))
        step = await asyncio.to_thread(advance, self.flow, stored, held)
        if self._held is not held or self._state is None:
            return  # forgotten meanwhile
        self._held = None
        self._state, ended = _joined(step.state, self._state, held)
        self._queue = [rows for rows in (step.rows, *self._queue, ended) if len(rows)]
        self._tell(step.new_drift)

    def _take(self, step: HistoryStep) -> None:
        self._state = step.state
        if len(step.rows):
            self._queue.append(step.rows)
        self._tell(step.new_drift)

    def _tell(self, drift: Iterable[DriftRow]) -> None:
        by_topic: dict[str, list[DriftRow]] = {}
        for row in drift:
            by_topic.setdefault(row.topic, []).append(row)
        told = list(by_topic.values())
        self._events.extend(drifted(self.flow, rows) for rows in told[:_TOLD_EACH])
        if more := len(told[_TOLD_EACH:]):
            self._events.append(ManyDrifted(flow=self.flow.name, part="drift", count=more))

    def _trim(self) -> None:
        """Drop everything if too much waits; the next round is compared with the store."""
        queued = [rows for rows in (*self._older, *self._queue) if not _is_snapshot(rows)]
        if sum(map(len, queued)) > MOST_ROWS:
            self._lost += sum(map(len, (*self._older, *self._queue)))
            self._older, self._queue, self._batch, self._state, self._held = [], [], None, None, None

    async def _write_some(self, waiting: list[HistoryRows]) -> None:
        if self._batch is not None:
            await self._write(self._batch)
        if waiting:
            self._batch = HistoryBatch(self._writer, self._number, _together(waiting))
            self._number += 1
            waiting.clear()
            await self._write(self._batch)

    async def _write(self, batch: HistoryBatch) -> None:
        await self._store.write(batch)
        if self._batch is batch:
            self._batch = None
        if self._lost:
            self._events.append(ConfigHistoryLost(flow=self.flow.name, where=self._store.where, count=self._lost))
            self._lost = 0


def _joined(stored: HistoryState, now: HistoryState, held: SeenRound) -> tuple[HistoryState, HistoryRows]:
    """Add what stood in the store to a state that began without it; what has changed since stands no more."""
    at_ms = now.at_ms
    changes = [
        msgspec.structs.replace(row, outcome=AGAIN, updated_ms=at_ms, why="")
        for place, row in stored.changes.items()
        if place in now.changes
    ]
    drift = [
        msgspec.structs.replace(row, outcome=AGAIN, updated_ms=at_ms, settled_ms=at_ms, why="")
        for place, row in stored.drift.items()
        if place in now.drift
    ]
    state = msgspec.structs.replace(
        now,
        snapshot_ms=stored.snapshot_ms,
        source=_with_unread(now.source, stored.source, held.look.source.unread),
        copies=_with_unread(now.copies, stored.copies, held.look.copies.unread),
        changes={**stored.changes, **now.changes},
        drift={**stored.drift, **now.drift},
    )
    return state, HistoryRows(changes=changes, drift=drift)


def _with_unread(now: SideState, stored: SideState, unread: Iterable[str]) -> SideState:
    """Add topics that the first round could not read."""
    known = {name: stored.topics[name] for name in unread if name in stored.topics}
    return SideState(topics={**known, **now.topics}, defaults={**stored.defaults, **now.defaults})


def _is_snapshot(rows: HistoryRows) -> bool:
    return any(row.snapshot for row in rows.values)


def _together(waiting: Iterable[HistoryRows]) -> HistoryRows:
    rows = list(waiting)
    return HistoryRows(
        values=[row for one in rows for row in one.values],
        changes=[row for one in rows for row in one.changes],
        drift=[row for one in rows for row in one.drift],
    )


def drifted(flow: HistoryFlow, rows: list[DriftRow]) -> TopicDrifted:
    """Make the event about the drift of one topic that one round found."""
    return TopicDrifted(
        flow=flow.name,
        topic=rows[0].topic,
        target=rows[0].target,
        found={row.key: _said(row.found) for row in rows},
        expected={row.key: _said(row.expected) for row in rows},
        left={row.key: row.why for row in rows if row.outcome != SET_RIGHT},
    )


def _said(value: str | None) -> str:
    return _NOT_SET if value is None else value
