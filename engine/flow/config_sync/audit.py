"""Keeps the audit trail of configs, topics and ACLs: one row for each change that was tried, until it is stored.

    rounds, discovery --rows--> AuditTrail --batches, retried until they are written--> AuditStore (a table)

A batch keeps its number and its rows until it is known to be written, so the store can tell that it comes again. Rows
behind it wait in memory, up to a bound. Rows beyond it are lost; an event says how many.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.base.storing import keep_storing
from engine.core.events.config_events import AuditLost, AuditRests, AuditUntidy, AuditUnwritten
from engine.core.events.events import AnyEvent, TopicCreated, TopicFailed
from engine.flow.config_sync.sync import ChangeOutcome
from policies.model import FlowName
from policies.sync.acl_sync import AddAcl, Operation, Permission
from policies.sync.config_sync import Change, Conflict, CreateTopic, DropConfig, GrowTopic, SetConfig, why_of
from policies.words import counted

DONE, FAILED, LEFT = "done", "failed", "left"
"""Outcomes: `left` is a conflict, which raymirror does not fix."""
MOST_ROWS = 20_000


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a copy: when (Unix time), in which run, by whom, of what, from what to what, why, how it ended.

    `topic`: the name on the source; `target`: the name on the target. `detail`: the broker's error if the change
    failed, what is missing if it was done in part, or the difference if it was left.
    """

    at_ms: int
    run: str
    flow: str
    who: str
    topic: str
    target: str
    change: str
    name: str = ""
    before: str = ""
    after: str = ""
    why: str = ""
    outcome: str = DONE
    detail: str = ""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that all rows of one round share."""

    id: str
    at_ms: int
    flow: FlowName
    who: str

    def row(self, **fields: str) -> AuditRow:
        """Make a row of this run."""
        return AuditRow(at_ms=self.at_ms, run=self.id, flow=str(self.flow), who=self.who, **fields)


def new_run(flow: FlowName, who: str) -> Run:
    """Begin a run now."""
    at_ms = wall_ms()
    return Run(id=f"{at_ms}-{uuid.uuid4().hex[:6]}", at_ms=at_ms, flow=flow, who=who)


class AuditFailed(MirrorError):
    """Rows could not be written or read: where, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why

    def __str__(self) -> str:
        return f"audit trail at {self.where}: {self.why}"


class AuditBatch(msgspec.Struct, frozen=True):
    """Rows that are stored together. `number` grows for each `writer`, and `writer` never begins again."""

    writer: str
    number: int
    rows: tuple[AuditRow, ...]


def only_batch(rows: Iterable[AuditRow]) -> AuditBatch:
    """Make the batch of a writer that writes once."""
    return AuditBatch(uuid.uuid4().hex, 0, tuple(rows))


class AuditStore(Protocol):
    """Where rows are kept; `where` names the place."""

    where: str

    async def write(self, batch: AuditBatch) -> None:
        """Store rows unless their batch is stored; they are durable when this returns. Raises AuditFailed."""

    async def care(self, now_ms: int) -> None:
        """Tidy up stored rows when it is time; called after each write. Raises AuditFailed."""


def rows_of(run: Run, outcomes: Iterable[ChangeOutcome], conflicts: Iterable[Conflict] = ()) -> list[AuditRow]:
    """Return the rows of what a run did, and of the conflicts that it left."""
    rows = [
        msgspec.structs.replace(
            _row(run, one.change),
            outcome=FAILED if one.failure else DONE,
            detail=one.failure or one.lacks,
            why=why_of(one.change),
        )
        for one in outcomes
    ]
    return rows + [
        run.row(
            topic=one.topic,
            target=one.target,
            change="conflict",
            name=one.kind.value,
            why="raymirror never lowers, shrinks or moves anything by itself",
            outcome=LEFT,
            detail=one.what,
        )
        for one in conflicts
    ]


def _row(run: Run, change: Change) -> AuditRow:
    topic, target, kind, name, before, after = _of(change)
    return run.row(topic=topic, target=target, change=kind, name=name, before=before, after=after)


def _of(change: Change) -> tuple[str, str, str, str, str, str]:
    """Return source name, target name, kind of change, changed item, value before, value after."""
    match change:
        case CreateTopic():
            configs = "".join(f" {name}={value}" for name, value in sorted(change.configs.items()))
            made = (
                f"{counted(change.partitions, 'partition')}, {counted(change.replication_factor, 'replica')}{configs}"
            )
            return change.topic, change.target, "create_topic", "", "", made
        case GrowTopic():
            return change.topic, change.target, "grow_topic", "partitions", str(change.before), str(change.partitions)
        case SetConfig():
            return change.topic, change.target, "set_config", change.name, change.before, change.value
        case DropConfig():
            return change.topic, change.target, "drop_config", change.name, change.before, ""
        case AddAcl():
            name = f"{_word(Permission, change.binding.permission)} {_word(Operation, change.binding.operation)}"
            return change.because.name, change.binding.name, "add_acl", name, "", str(change.binding)


def _word(kind: type[Operation] | type[Permission], code: int) -> str:
    try:
        return kind(code).name
    except ValueError:
        return str(code)


def discovered(run: Run, events: Iterable[AnyEvent]) -> list[AuditRow]:
    """Return the rows of what discovery did: it creates topics and adds partitions as soon as it sees them."""
    rows = []
    for event in events:
        match event:
            case TopicCreated():
                row = run.row(
                    topic=event.topic,
                    target=event.target,
                    change="grow_topic" if event.before else "create_topic",
                    name="partitions",
                    before=str(event.before or ""),
                    after=str(event.partitions),
                    why="the source topic has this number of partitions"
                    if event.before
                    else "the flow copies this topic",
                )
            case TopicFailed():
                row = run.row(
                    topic=event.topic,
                    target="",
                    change="prepare_topic",
                    why="the flow copies this topic",
                    outcome=FAILED,
                    detail=event.what,
                )
            case _:
                continue
        rows.append(row)
    return rows


class AuditTrail:
    """The audit trail of one flow; without a store, one event says so when there is a first row to keep."""

    def __init__(self, flow: FlowName, who: str, store: AuditStore | None) -> None:
        self.flow, self.who = flow, who
        self._store = store
        self._rows: deque[AuditRow] = deque()
        self._batch: AuditBatch | None = None
        """What is being written, or of which nobody knows whether it is written."""
        self._writer, self._number = uuid.uuid4().hex, 0
        self._some = asyncio.Event()
        self._writing = asyncio.Lock()
        self._events: list[AnyEvent] = []
        self._lost = 0
        self._told = False

    @property
    def waiting(self) -> int:
        """How many rows are not known to be written yet."""
        return len(self._rows) + (len(self._batch.rows) if self._batch is not None else 0)

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Return the events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def add(self, rows: Sequence[AuditRow]) -> None:
        """Queue rows to be written; if too many wait, the oldest are lost."""
        if not rows:
            return
        if self._store is None:
            if not self._told:
                self._told = True
                self._events.append(AuditRests(flow=self.flow, key="raymirror.storage"))
            return
        self._rows.extend(rows)
        self._trim()
        self._some.set()

    async def run(self) -> None:
        """Write until cancelled; retry a store that fails with a growing pause, and report the failure once."""
        await keep_storing(self._some, self._flush_and_care, AuditFailed, self._unwritten)

    async def _flush_and_care(self) -> None:
        await self.flush()
        await self._care()

    def _unwritten(self, failure: AuditFailed) -> None:
        self._events.append(AuditUnwritten(flow=self.flow, where=failure.where, count=self.waiting, why=failure.why))

    async def _care(self) -> None:
        """Have the store tidy up; a failure does not keep rows from being written."""
        if self._store is None:
            return
        try:
            await self._store.care(wall_ms())
        except AuditFailed as failure:
            self._events.append(AuditUntidy(flow=self.flow, where=failure.where, why=failure.why))

    async def flush(self) -> None:
        """Write all waiting rows now. Raises AuditFailed; the rows then stay queued."""
        async with self._writing:
            if self._store is None:
                return
            if self._batch is not None:
                await self._write(self._store, self._batch)
            if self._rows:
                self._batch = AuditBatch(self._writer, self._number, tuple(self._rows))
                self._number += 1
                self._rows.clear()
                await self._write(self._store, self._batch)

    async def _write(self, store: AuditStore, batch: AuditBatch) -> None:
        self._some.clear()
        try:
            await store.write(batch)
        except BaseException:
            self._some.set()
            raise
        self._batch = None
        if self._lost:
            self._events.append(AuditLost(flow=self.flow, where=store.where, count=self._lost))
            self._lost = 0

    def _trim(self) -> None:
        while len(self._rows) > MOST_ROWS:
            self._rows.popleft()
            self._lost += 1
