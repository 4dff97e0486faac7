"""Reads the state of a mirror that does not run from its targets: what is known, as of when, and what is unknown."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from actors.model.events import KINDS
from actors.model.states import Desired
from actors.model.status import EventLine
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.drain import Ends
from engine.core.reports.drill_report import DrillReport
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.target_view import TargetView
from engine.state.state import DESIRED, DesiredState, owner_of

NOT_ASKED = "the source was not asked"
POSITIONS, STATE, GROUPS, EVENTS = "positions", "state", "consumer groups", "events"
DRILL = "last drill"
"""The parts of a target that are read one by one."""


class KnownPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One source partition by its last position. None if unknown; times are Unix ms.

    Everything below `source_next` is on the target, and more may be; so `lag_records` is an upper bound.
    """

    flow: str
    topic: str
    partition: int
    target_topic: str
    source_next: int | None
    source_end: int | None
    lag_records: int | None
    as_of_ms: int | None
    why: str


class KnownOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The mirror that had the flow last. `at_ms`: its last sign of life; `released`: it ended in order."""

    mirror: str
    where: str
    since_ms: int
    at_ms: int
    released: bool


class KnownFlow(msgspec.Struct, frozen=True, kw_only=True):
    """One flow by what its target holds; times are Unix ms. None if it could not be read, or was never written.

    `unknown`: the parts that could not be read, and why. `answered`: whether the target answered at all.
    """

    flow: str
    desired: str | None = None
    paused_topics: tuple[str, ...] = ()
    owner: KnownOwner | None = None
    groups: int | None = None
    checkpoint_ms: int | None = None
    partitions: tuple[KnownPartition, ...] | None = None
    events: tuple[EventLine, ...] | None = None
    drill: DrillReport | None = None
    """The last drill."""
    unknown: dict[str, str] = {}
    answered: bool = True

    @property
    def is_state_known(self) -> bool:
        """Whether the state (wanted state and owner) was read: then a field that is None was never written."""
        return self.answered and STATE not in self.unknown

    @property
    def is_unread(self) -> bool:
        return not self.answered or self.unknown.keys() >= {POSITIONS, STATE, GROUPS, EVENTS}


class KnownMirror(msgspec.Struct, frozen=True, kw_only=True):
    """All flows of a configuration at `at_ms` (Unix time), while no mirror runs; `why` none was found."""

    running: bool
    why: str
    at_ms: int
    flows: tuple[KnownFlow, ...]


def read_targets(
    config: MirrorConfig,
    flows: Iterable[FlowConfig],
    why: str,
    *,
    since_ms: int = 0,
    asks_source: bool = False,
) -> KnownMirror:
    """Read what targets hold of some flows, one by one; parts that cannot be read are `unknown`. Raises nothing.

    `asks_source`: also ask the sources for their end offsets, in bounded time.
    """

    async def all_flows() -> tuple[KnownFlow, ...]:
        return tuple([await _read_target(config, flow, since_ms, asks_source=asks_source) for flow in flows])

    return KnownMirror(running=False, why=why, at_ms=wall_ms(), flows=asyncio.run(all_flows()))


async def _read_target(config: MirrorConfig, flow: FlowConfig, since_ms: int, *, asks_source: bool) -> KnownFlow:
    try:
        async with TargetView(config, flow) as view:
            reading = Reading(str(flow.name), view, since_ms, asks_source=asks_source)
            return await reading.all()
    except MirrorError as failure:
        unknown = {f"cluster {flow.name.target!r}": str(failure)}
        return KnownFlow(flow=str(flow.name), unknown=unknown, answered=False)


class Reading:
    """Reads the parts of one flow's target separately: a part that cannot be read does not hide the others."""

    def __init__(self, flow: str, view: TargetView, since_ms: int, *, asks_source: bool) -> None:
        self._view, self._since_ms, self._asks_source = view, since_ms, asks_source
        self._found = KnownFlow(flow=flow)
        self._unknown: dict[str, str] = {}

    async def all(self) -> KnownFlow:
        """Read all parts. Raises no MirrorError."""
        parts = {
            POSITIONS: self._positions,
            STATE: self._state,
            GROUPS: self._groups,
            EVENTS: self._events,
            DRILL: self._drill,
        }
        for name, read in parts.items():
            try:
                changes = await read()
            except MirrorError as failure:
                self._unknown[name] = str(failure)
            else:
                self._found = msgspec.structs.replace(self._found, **changes)
        return msgspec.structs.replace(self._found, unknown=self._unknown)

    async def _positions(self) -> dict[str, Any]:
        known = await self._view.positions()
        self._unknown |= known.unread
        ends = await self._view.ends(known) if self._asks_source else Ends(gone=NOT_ASKED)
        return {"partitions": _partitions(self._found.flow, known, ends)}

    async def _state(self) -> dict[str, Any]:
        entries = await self._view.state()
        wanted, owner = entries.get(DESIRED), owner_of(entries)
        found: dict[str, Any] = {}
        if isinstance(wanted, DesiredState):
            found = {"desired": wanted.state, "paused_topics": wanted.paused_topics}
        elif owner is not None:
            found = {"desired": Desired.RUNNING.value}  # a mirror's default if nothing is written
        if owner is not None:
            names = ("mirror", "where", "since_ms", "at_ms", "released")
            found["owner"] = KnownOwner(**{name: getattr(owner, name) for name in names})
        return found

    async def _groups(self) -> dict[str, Any]:
        told = await self._view.groups()
        return {"groups": told.groups, "checkpoint_ms": told.newest_ms if told.newest_ms >= 0 else None}

    async def _drill(self) -> dict[str, Any]:
        return {"drill": await self._view.last_drill()}

    async def _events(self) -> dict[str, Any]:
        records = await self._view.events(KINDS, self._since_ms)
        return {
            "events": tuple(
                EventLine(
                    at_ms=one.at_ms,
                    severity=one.severity,
                    flow=self._found.flow,
                    text=one.text,
                    about=one.about,
                    kind=one.kind,
                )
                for one in records
            )
        }


def _partitions(flow: str, known: LastKnown, ends: Ends) -> tuple[KnownPartition, ...]:
    """Return every partition that has a position, and the partitions without one that the source lists."""
    rows = [_partition(flow, one, ends) for one in known.lanes]
    missing = (ends.ends.keys() | ends.unknown.keys()) - {one.lane for one in known.lanes}
    rows += [
        KnownPartition(
            flow=flow,
            topic=lane.topic,
            partition=lane.partition,
            target_topic="",
            source_next=None,
            source_end=ends.ends.get(lane),
            lag_records=None,
            as_of_ms=None,
            why="it has no position that could be read: it was not copied yet, or its position could not be read",
        )
        for lane in missing
    ]
    return tuple(sorted(rows, key=lambda row: (row.topic, row.partition)))


def _partition(flow: str, one: KnownLane, ends: Ends) -> KnownPartition:
    end = ends.ends.get(one.lane)
    why = one.why
    if not why and end is None:
        unknown = NOT_ASKED if ends.gone == NOT_ASKED else ends.why_unknown(one.lane)
        why = f"the end of the source partition is not known: {unknown}"
    elif not why:
        why = "no mirror runs"
    return KnownPartition(
        flow=flow,
        topic=one.lane.topic,
        partition=one.lane.partition,
        target_topic=one.target.topic,
        source_next=one.source_next if one.source_next >= 0 else None,
        source_end=end,
        lag_records=None if end is None or one.source_next < 0 else max(0, end - one.source_next),
        as_of_ms=one.at_ms if one.at_ms >= 0 else None,
        why=why,
    )
