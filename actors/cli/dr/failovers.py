"""Finds the failovers of a flow and its reverse for `raymirror dr status | history`: what their targets store of them.

A failover is no operation of two clusters, because one of them may be lost: the target alone has its event, and the
wanted state that keeps the flow stopped. The topic of events is compacted, so an old failover may be gone from it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.cli.dr.operated_flow import OperatedFlow
from actors.cli.failover.failover_outcome import renames
from actors.cli.failover.open_operation import reverse_now
from actors.model.events import KINDS, FailedOver
from actors.model.states import ReverseNow
from actors.observability.instants import clock_text
from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.kafka.admin.reach import SOURCE_WITHIN_S
from engine.services.target_view import TargetView
from engine.state.event_records import EventRecord
from engine.state.state import DESIRED, DesiredState, Value, desired_of
from policies.dr.operation_steps import FlowSide


class FailoverRow(msgspec.Struct, frozen=True, kw_only=True):
    """A failover. `stands`: it is the last one of its flow, and keeps it stopped still; `text`: its event, in words.

    `renamed`: copies have other names than their topics.
    """

    flow: str
    at_ms: int
    stands: bool
    text: str
    who: str = ""
    renamed: bool = False


class FoundFailovers(msgspec.Struct, frozen=True, kw_only=True):
    """The failovers of both directions, the oldest first. `unread`: by flow, why its failovers are not known.

    `reverse`: what keeps the stop of the flow that was asked about.
    """

    rows: tuple[FailoverRow, ...] = ()
    unread: dict[str, str] = {}
    reverse: ReverseNow = ReverseNow.NOTHING


async def read_failovers(found: OperatedFlow, away: Mapping[FlowSide, str]) -> FoundFailovers:
    """Read what the targets of a flow and of its reverse store; a target that is away or fails is `unread`."""
    reverse = found.reverse
    directions = (
        (found.config, found.flow, away.get(FlowSide.TARGET)),
        (reverse.config, reverse.flow, away.get(FlowSide.SOURCE)),
    )
    rows: list[FailoverRow] = []
    wanted: list[DesiredState] = []
    unread: dict[str, str] = {}
    for config, flow, why in directions:
        try:
            if not why:
                failovers, stated = await _read(config, flow)
                rows += failovers
                wanted.append(stated)
        except (MirrorError, TimeoutError) as failure:
            why = str(failure) or f"no answer within {SOURCE_WITHIN_S:.0f} s"
        if why:
            unread[str(flow.name)] = why
    reverse_is = ReverseNow.NOTHING
    if not renames(found.flow):
        reverse_is = ReverseNow.UNKNOWN if unread else reverse_now(*wanted)
    return FoundFailovers(rows=tuple(sorted(rows, key=lambda row: row.at_ms)), unread=unread, reverse=reverse_is)


async def _read(config: MirrorConfig, flow: FlowConfig) -> tuple[list[FailoverRow], DesiredState]:
    """Read the failovers of one flow, and its wanted state."""
    async with asyncio.timeout(SOURCE_WITHIN_S), TargetView(config, flow) as view:
        entries = await view.state()
        rows = rows_of(str(flow.name), await view.events(KINDS), entries.get(DESIRED))
        return rows, desired_of(entries)


def rows_of(flow: str, events: Iterable[EventRecord], wanted: Value | None) -> list[FailoverRow]:
    """Return the failovers of one flow; a switchover stops a flow with the same event, and is no failover."""
    rows = [
        FailoverRow(flow=flow, at_ms=one.at_ms, stands=False, text=one.text, renamed=one.event.outcome.renamed)
        for one in events
        if isinstance(one.event, FailedOver) and not one.event.outcome.switched
    ]
    if rows and isinstance(wanted, DesiredState) and wanted.failover_stands:
        rows[-1] = msgspec.structs.replace(rows[-1], stands=True, who=wanted.who)
    return rows


def show_failovers(rows: Sequence[FailoverRow]) -> None:
    """Print the failovers that still keep their flows stopped, the newest first; only that one says what to do."""
    standing = sorted((row for row in rows if row.stands), key=lambda row: row.at_ms, reverse=True)
    for row in standing:
        who = f" ({row.who})" if row.who else ""
        text = row.text if row is standing[0] else "a later failover has overtaken it"
        print(f"failover of {row.flow} at {clock_text(row.at_ms)}{who}: {text}")
