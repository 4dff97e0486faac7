"""Stores the operations of two clusters in a state topic on each of them, for one driver at a time.

Each topic has its own lease and its own fence. A driver takes both, merges what it finds, and writes every change to
both before it acts on it. So an older driver that still runs makes no effect that its successor does not know: one of
the two brokers refuses the write that announces it. If a cluster does not answer, the other one's topic is used alone;
whether a step may run then is the table's decision (`policies.dr.operation_steps`).
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from engine.base.errors import FlowHeld, MirrorError, StateTaken
from engine.base.tasks import first_cause, run_all
from engine.flow.operations.errors import OperationHeld, OperationTaken
from engine.state.state import Key, OperationEntry, OperationNotes, Value, notes_key, operation_key
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation, NotesPlace, driven_by, in_force, outdated, running

KEPT = 20
"""Ended operations that stay in the history."""
DEAD_AFTER_S = 15.0
"""A driver without a sign of life for this long is dead, and another one may drive."""
SURE_S = 7.5
"""A driver acts only if it has renewed its lease within this time."""
EFFECT_S = 5.0
"""One effect takes at most this long, so that it ends before another driver may drive."""
_PART_BYTES = 128 * 1024
Row = TypeVar("Row", bound=msgspec.Struct)


class OperationLog(Protocol):
    """One state topic, as `StateLog` with the scope of operations has it."""

    @property
    def unrenewed_s(self) -> float:
        """Seconds since the lease was last known to be held."""

    async def open(self) -> None:
        """Take the topic. Raises FlowHeld and what else StateLog.open raises."""

    def load(self) -> dict[Key, Value]:
        """Return all entries."""

    async def put(self, entries: Mapping[Key, Value | None]) -> None:
        """Write entries, and wait until they are durable. Raises StateTaken, KafkaRefusal, BrokerUnreachable."""

    async def run(self) -> None:
        """Renew the lease until cancelled. Raises StateTaken."""

    async def close(self) -> None:
        """Give the lease back."""


class OperationStore:
    """The operations of a flow and of its reverse. `logs`: the topics of the clusters that answer.

    `open` takes them in the given order, so two drivers must give the same order: by the aliases of the clusters.
    """

    def __init__(self, flow: str, logs: Mapping[FlowSide, OperationLog], *, sure_s: float = SURE_S) -> None:
        self._flow, self._logs, self._sure_s = flow, logs, sure_s
        self._operations: dict[str, DrOperation] = {}

    @property
    def operations(self) -> tuple[DrOperation, ...]:
        """All that are stored, the oldest first."""
        return tuple(self._operations.values())

    @property
    def current(self) -> DrOperation | None:
        """The operation that has not ended."""
        return running(self.operations)

    async def open(self) -> None:
        """Take all topics and merge their copies. Raises OperationHeld and what else the logs raise."""
        try:
            async with asyncio.TaskGroup() as group:
                for task in await self._take(group):
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise first_cause(failures) from None
        self._operations = in_force(operations_of(log.load()) for log in self._logs.values())
        for log in self._logs.values():
            await self._level(log)

    async def _take(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Take one topic after the other, and renew what is taken meanwhile: a dead driver is waited for at each."""
        renewing: list[asyncio.Task[None]] = []
        for log in self._logs.values():
            try:
                await log.open()
            except FlowHeld as held:
                raise OperationHeld(self._flow, held.holder, held.topic) from held
            renewing.append(group.create_task(self._renew(log)))
        return renewing

    async def _level(self, log: OperationLog) -> None:
        """Write to a topic what only the other one knows: it may be the one that answers the next time."""
        there = {one.id: one.order for one in operations_of(log.load())}
        entries: dict[Key, Value | None] = {}
        for one in self.operations:
            if there.get(one.id, (-1, -1)) >= one.order:
                continue
            for name, place in one.notes.items():
                entries |= dict(zip(_keys(one.id, name, place), self._parts_of(one, name), strict=True))
            entries[operation_key(one.id)] = OperationEntry(operation=one)
        if entries:
            await log.put(entries)

    async def run(self) -> None:
        """Renew the leases until cancelled. Raises OperationTaken."""
        await run_all(*(self._renew(log) for log in self._logs.values()))

    async def _renew(self, log: OperationLog) -> None:
        try:
            await log.run()
        except StateTaken as taken:
            raise OperationTaken(self._flow, f"{taken.holder} has taken it over") from taken

    async def close(self) -> None:
        """Give the leases back, so that the next driver need not wait."""
        for log in reversed(list(self._logs.values())):
            await log.close()

    def assure(self) -> None:
        """Raise OperationTaken if a lease was not renewed lately: another driver may act already."""
        worst_s = max((log.unrenewed_s for log in self._logs.values()), default=0.0)
        if worst_s > self._sure_s:
            raise OperationTaken(self._flow, f"its lease was not renewed for {worst_s:.1f} s")

    # --- operations --------------------------------------------------------------------------------------------------

    async def claim(self, operation: DrOperation, who: str) -> DrOperation:
        """Write an operation as this driver's, with its notes, to all topics; older drivers' writes are behind it."""
        term = max((one.term for one in self.operations), default=0) + 1
        notes = {name: self._raw_notes(operation, name) for name in operation.notes}
        return await self._save(driven_by(operation, term, who), notes)

    async def save(
        self, operation: DrOperation, notes: Mapping[str, Sequence[msgspec.Struct]] | None = None
    ) -> DrOperation:
        """Write an operation, and notes under new names or instead of those with that name, to all topics.

        Returns it as it is stored. Raises OperationTaken, KafkaRefusal, BrokerUnreachable: then a copy may be written.
        """
        raw = {name: [msgspec.Raw(msgspec.json.encode(row)) for row in rows] for name, rows in (notes or {}).items()}
        return await self._save(operation, raw)

    async def _save(self, operation: DrOperation, notes: Mapping[str, Sequence[msgspec.Raw]]) -> DrOperation:
        number, entries = operation.number + 1, dict[Key, Value | None]()
        places, replaced = dict(operation.notes), list[Key]()
        for name, rows in notes.items():
            parts = list(_parts(rows))
            if name in places:
                replaced += _keys(operation.id, name, places[name])
            places[name] = NotesPlace(number, len(parts))
            entries |= dict(zip(_keys(operation.id, name, places[name]), map(_notes, parts), strict=True))
        stored = msgspec.structs.replace(operation, number=number, notes=places)
        entries[operation_key(operation.id)] = OperationEntry(operation=stored)
        entries |= dict.fromkeys(key for key in replaced if key not in entries)
        await self._put(entries)
        self._operations[stored.id] = stored
        return stored

    async def prune(self, keep: int = KEPT) -> None:
        """Remove the oldest ended operations, and notes that no operation names. Raises as `save` does."""
        gone = {one.id for one in outdated(self.operations, keep)}
        named = {
            key
            for one in self.operations
            if one.id not in gone
            for key in (
                operation_key(one.id),
                *(key for name in one.notes for key in _keys(one.id, name, one.notes[name])),
            )
        }
        found = {key: value for log in self._logs.values() for key, value in log.load().items()}
        entries: dict[Key, Value | None] = {
            key: None
            for key, value in found.items()
            if isinstance(value, OperationEntry | OperationNotes) and key not in named
        }
        if entries:
            await self._put(entries)
        self._operations = {name: one for name, one in self._operations.items() if name not in gone}

    def notes(self, operation: DrOperation, name: str, kind: type[Row]) -> tuple[Row, ...] | None:
        """Return the rows that an operation has under a name; None if it has none. Raises NotesLost."""
        if name not in operation.notes:
            return None
        return tuple(msgspec.json.decode(row, type=kind) for row in self._raw_notes(operation, name))

    def _raw_notes(self, operation: DrOperation, name: str) -> list[msgspec.Raw]:
        return [row for part in self._parts_of(operation, name) for row in part.rows]

    def _parts_of(self, operation: DrOperation, name: str) -> list[OperationNotes]:
        for log in self._logs.values():
            parts = notes_of(log.load(), operation.id, name, operation.notes[name])
            if parts is not None:
                return parts
        raise NotesLost(operation.id, name)

    async def _put(self, entries: Mapping[Key, Value | None]) -> None:
        self.assure()
        try:
            await run_all(*(log.put(entries) for log in self._logs.values()))
        except StateTaken as taken:
            raise OperationTaken(self._flow, f"{taken.holder} has taken it over") from taken


class NotesLost(MirrorError):
    """Notes that an operation names are on no cluster that answers: operation, notes."""

    exit_code = 1

    def __init__(self, operation: str, name: str) -> None:
        super().__init__(operation, name)
        self.operation, self.name = operation, name

    def __str__(self) -> str:
        return (
            f"the notes {self.name!r} of operation {self.operation} are on no cluster that answers: the state topic has"
            " lost records; try again when both clusters answer"
        )


def operations_of(entries: Mapping[Key, Value]) -> Iterator[DrOperation]:
    """Yield the operations among the entries of a topic."""
    for value in entries.values():
        if isinstance(value, OperationEntry):
            yield value.operation


def notes_of(entries: Mapping[Key, Value], operation: str, name: str, place: NotesPlace) -> list[OperationNotes] | None:
    """Return all parts of notes, None if one is missing."""
    parts = [entries.get(key) for key in _keys(operation, name, place)]
    found = [part for part in parts if isinstance(part, OperationNotes)]
    return found if len(found) == len(parts) else None


def _keys(operation: str, name: str, place: NotesPlace) -> list[Key]:
    return [notes_key(operation, name, place.version, part) for part in range(place.parts)]


def _notes(rows: Sequence[msgspec.Raw]) -> OperationNotes:
    return OperationNotes(rows=tuple(rows))


def _parts(rows: Iterable[msgspec.Raw]) -> Iterator[list[msgspec.Raw]]:
    """Split rows, so that each entry stays well below the size that a broker accepts."""
    part, size = list[msgspec.Raw](), 0
    for row in rows:
        if part and size + len(bytes(row)) > _PART_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += len(bytes(row))
    if part:
        yield part
