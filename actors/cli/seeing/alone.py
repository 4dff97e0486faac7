"""Prints what the targets of a configuration hold, for `status`, `lag` and `events` if no mirror runs."""

import argparse
import sys

import msgspec
from rich.console import RenderableType

from actors.cli.common import exits
from actors.model.states import UnknownFlow
from actors.observability.alone import KnownFlow, KnownMirror, KnownPartition, read_targets
from actors.observability.colours import stdout_console
from actors.observability.instants import clock_text
from actors.observability.sentences import drill_result
from actors.observability.shared_reasons import SharedReasons
from actors.observability.tables import plain_table
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from policies.words import counted

EVENTS = 8
"""Number of events of each flow that `status` shows: as many as for a running mirror."""


def flows_of(config: MirrorConfig, name: str | None) -> tuple[FlowConfig, ...]:
    """Return the flow with this name, or all flows for None. Raises UnknownFlow."""
    found = tuple(flow for flow in config.flows if name in (None, str(flow.name)))
    if not found:
        raise UnknownFlow(str(name), tuple(str(flow.name) for flow in config.flows))
    return found


def status_alone(args: argparse.Namespace, why: str) -> int:
    """Print what is known about every flow. Raises ConfigError."""
    config = load_config(args.config)
    found = read_targets(config, config.flows, why)
    if args.json:
        print(msgspec.json.encode(found).decode())
    else:
        for flow in found.flows:
            show_flow(flow, found.at_ms)
    if args.fail_if:
        print(
            "raymirror status: --fail-if holds: the lag of a mirror that does not run is not known",
            file=sys.stderr,
        )
    return say("status", found)


def lag_alone(args: argparse.Namespace, why: str) -> int:
    """Print how far each partition was copied. Raises ConfigError, UnknownFlow."""
    config = load_config(args.config)
    found = read_targets(config, flows_of(config, args.flow), why, asks_source=True)
    rows = [
        row
        for flow in found.flows
        for row in flow.partitions or ()
        if (not args.topic or row.topic in args.topic) and not (args.behind and row.lag_records == 0)
    ]
    if args.json:
        unknown = {flow.flow: flow.unknown for flow in found.flows if flow.unknown}
        answer = {"running": False, "why": why, "at_ms": found.at_ms, "partitions": rows, "unknown": unknown}
        print(msgspec.json.encode(answer).decode())
    else:
        show_lag(found, rows, behind=args.behind)
    return say("lag", found)


def show_lag(found: KnownMirror, rows: list[KnownPartition], *, behind: bool) -> None:
    """Print partitions, and flows without known partitions; `behind`: `rows` has only partitions that may be behind."""
    if rows:
        stdout_console().print(lag_table(rows))
    unread = [flow.flow for flow in found.flows if flow.partitions is None]
    for name in unread:
        print(f"{name}: how far its partitions are copied is not known")
    if not rows and not unread:
        print("no partition is known to be behind" if behind else "none of the chosen partitions has a position")


def events_alone(args: argparse.Namespace, why: str, since_ms: int) -> tuple[KnownMirror, int]:
    """Return what the targets hold since an instant (Unix time), and the exit code. Raises ConfigError, UnknownFlow."""
    config = load_config(args.config)
    found = read_targets(config, flows_of(config, args.flow), why, since_ms=since_ms)
    return found, say("events", found)


def say(command: str, found: KnownMirror) -> int:
    """Print on stderr that no mirror runs and what could not be read; return the exit code for that."""
    is_unread = all(flow.is_unread for flow in found.flows)
    what = (
        "nothing could be read from the target, so nothing is known" if is_unread else "this is what the target holds"
    )
    print(f"raymirror {command}: no mirror runs ({found.why}): {what}", file=sys.stderr)
    for flow in found.flows:
        for what, why in flow.unknown.items():
            print(f"raymirror {command}: {flow.flow}: {what}: not known: {why}", file=sys.stderr)
    return exits.NO_MIRROR


def show_flow(flow: KnownFlow, at_ms: int) -> None:
    print(f"{flow.flow}: no mirror runs, as of {clock_text(at_ms)}; {_wanted_text(flow)}")
    if flow.owner is not None:
        end = "ended in order" if flow.owner.released else "did not end in order, or still runs elsewhere"
        last = clock_text(flow.owner.at_ms)
        print(f"  last owner: {flow.owner.mirror} on {flow.owner.where}; last sign of life {last}, {end}")
    if flow.partitions is not None:
        oldest = min((row.as_of_ms for row in flow.partitions if row.as_of_ms is not None), default=None)
        since = "" if oldest is None else f", the oldest as of {clock_text(oldest)}"
        positions = f"{counted(len(flow.partitions), 'partition')} with a position{since}"
        print(f"  {positions}; lag is not known; raymirror lag --config CONFIG asks the source for its ends")
    if flow.groups is not None:
        newest = "" if flow.checkpoint_ms is None else f", the newest as of {clock_text(flow.checkpoint_ms)}"
        print(f"  {counted(flow.groups, 'consumer group')} with checkpoints{newest}")
    if flow.drill is not None:
        print(f"  last drill at {clock_text(flow.drill.began_ms)}: {drill_result(flow.drill)}")
    for event in (flow.events or ())[-EVENTS:]:
        print(f"  {clock_text(event.at_ms)} {event.severity:<7} {event.text}")
    if flow.unknown and not flow.is_unread:
        print(f"  not known, because it could not be read: {', '.join(flow.unknown)}")


def _wanted_text(flow: KnownFlow) -> str:
    """Say which state is wanted for a flow, or why that is not known."""
    if flow.is_unread:
        return "its target could not be read: its wanted state and how far it is copied are not known"
    if not flow.is_state_known:
        return "its wanted state is not known"
    if flow.desired is None:
        return "no wanted state is stored"
    paused = f", paused topics: {', '.join(flow.paused_topics)}" if flow.paused_topics else ""
    return f"wanted: {flow.desired}{paused}"


def lag_table(rows: list[KnownPartition]) -> RenderableType:
    whys = SharedReasons(row.why for row in rows)
    numbers = ["copied up to", "source ends at", "records behind"]
    drawn = plain_table(["flow", "partition"], numbers, ["as of", "why"], whole=True)
    for row in rows:
        offsets = ("-" if one is None else f"{one:,}" for one in (row.source_next, row.source_end))
        behind = "unknown" if row.lag_records is None else f"at most {row.lag_records:,}"
        as_of = "-" if row.as_of_ms is None else clock_text(row.as_of_ms)
        drawn.add_row(row.flow, f"{row.topic}-{row.partition}", *offsets, behind, as_of, whys.cell(row.why))
    return whys.with_legend(drawn)
