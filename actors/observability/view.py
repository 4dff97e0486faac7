"""Shows a mirror: a live table on a terminal, one line per flow and event elsewhere, JSON lines when asked."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Protocol, TextIO

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from actors.model.spark_status import SparkState
from actors.model.status import EventLine, FlowAtEnd, FlowStatus, MirrorStatus
from actors.observability.colours import SEVERITY, STATE, count_text, state_text
from actors.observability.found_by import found_text
from actors.observability.instants import clock_text
from actors.observability.lagging import UNKNOWN, seconds_text
from engine.core.reports.drill_report import DrillReport
from engine.jobs.runtime.runner import JobState
from policies.words import counted

PLAIN_EVERY_S = 5.0
EVENTS_SHOWN = 8
MIB = 1024 * 1024


class View(Protocol):
    """Shows a status once a second."""

    def show(self, status: MirrorStatus) -> None:
        """Show a status."""

    def say(self, text: str) -> None:
        """Show a line of text that stays."""


@contextmanager
def open_view(
    *, json: bool, out: TextIO | None = None, plain: Callable[[TextIO], View] | None = None
) -> Iterator[View]:
    """Open the view that fits: JSON lines, a live table if `out` (default: stdout) is a terminal, else plain lines.

    `plain`: the view of output that is no terminal; default: `PlainView`.

    Ray prints to stdout from a thread of its own when a worker dies: with JSON lines, that goes to stderr.
    """
    stream = out or sys.stdout
    if json:
        with redirect_stdout(sys.stderr):
            yield JsonView(stream)
    elif stream.isatty():
        with Live(console=Console(file=stream), auto_refresh=False) as live:
            yield LiveView(live)
    else:
        yield (plain or PlainView)(stream)


class JsonView:
    """Prints one JSON object per line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, status: MirrorStatus) -> None:
        print(msgspec.json.encode(status).decode(), file=self._stream, flush=True)

    def say(self, text: str) -> None:
        """Print nothing: a reader of JSON expects nothing else."""


class LiveView:
    """A table that is drawn again in the same place."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, status: MirrorStatus) -> None:
        self._live.update(render(status), refresh=True)

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False)


class PlainView:
    """Lines for a log: each event once, each flow every few seconds and when its mirror's phase changes."""

    def __init__(self, stream: TextIO, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock_s = stream, clock_s
        self._phase = ""
        self._due_at = 0.0
        self._seen: tuple[EventLine, ...] = ()

    def show(self, status: MirrorStatus) -> None:
        for event in fresh(self._seen, status.events):
            print(f"{event.severity}: {event.flow}: {event.text}", file=self._stream)
        self._seen = status.events
        if status.phase != self._phase or self._clock_s() >= self._due_at:
            self._phase, self._due_at = status.phase, self._clock_s() + PLAIN_EVERY_S
            for flow in status.flows:
                print(f"{status.phase}: {flow_line(flow, status.at_ms)}", file=self._stream)
            if text := spark_text(status):
                print(text, file=self._stream)
        self._stream.flush()

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def fresh(before: tuple[EventLine, ...], now: tuple[EventLine, ...]) -> tuple[EventLine, ...]:
    """Return the events of a bounded list that were not in the list before."""
    if not before or before[-1] not in now:
        return now
    last = len(now) - 1 - now[::-1].index(before[-1])
    return now[last + 1 :]


def flow_line(flow: FlowStatus, at_ms: int) -> str:
    """Describe a flow in one line, as of a Unix time (ms)."""
    parts = [f"{flow.flow} {flow.desired}", counted(flow.topics, "topic"), counted(flow.lanes, "partition")]
    if flow.at_end is not None:
        parts += [at_end_text(flow.at_end, flow.lanes), counted(flow.records, "record")]
        parts += [f"{counted(flow.errors, 'partition')} had stopped before, for a failure"] if flow.errors else []
    else:
        parts += [
            f"lag {lag_text(flow)}{heard_text(flow)}",
            f"{behind_text(flow, at_ms)} behind",
            counted(flow.records, "record"),
            f"{flow.records_per_s:,.0f}/s",
            f"{flow.bytes_per_s / MIB:.1f} MiB/s",
            f"{flow.errors} stopped",
        ]
    if flow.waiting_for:
        parts.append(f"waiting for {flow.waiting_for}")
    return ", ".join(parts)


def groups_text(flow: FlowStatus) -> str:
    """Return the state of a flow's consumer groups, empty if there is nothing to report."""
    report = flow.groups
    if report is None or not (report.groups or report.not_synced or report.away or report.trouble):
        return ""
    parts = [f"{report.groups:,} mirrored", f"{counted(sum(report.how.values()), 'offset')} translated"]
    parts += [f"{count:,} without an answer ({found_text(why)})" for why, count in sorted(report.without.items())]
    for count, what in (
        (report.active, "active on the target"),
        (report.ahead, "offsets ahead on the target"),
        (len(report.not_synced), "of a kind that is not mirrored"),
        (report.failing, "failing"),
        (report.waiting, "waiting for a broker"),
    ):
        parts += [f"{count:,} {what}"] if count else []
    parts += [f"{broker} does not answer: {why}" for broker, why in report.away.items()]
    parts += [f"polled: {report.polled_because}"] if report.polled_because else []
    return "groups: " + ", ".join([*parts, report.trouble] if report.trouble else parts)


def configs_text(flow: FlowStatus) -> str:
    """Return the state of the configs and ACLs of a flow's copies, empty if there is nothing to report."""
    report = flow.configs
    if report is None or not (report.at_ms or report.trouble):
        return ""
    parts = [f"{counted(report.topics, 'topic')} compared", counted(report.changes, "change")]
    parts += [f"{counted(report.conflicts, 'conflict')} (see raymirror plan)"] if report.conflicts else []
    parts += [counted(report.failures, "failure")] if report.failures else []
    parts += ["planned by Spark"] if report.by == "spark" else []
    parts += [f"planned without Spark ({report.not_spark})"] if report.not_spark else []
    return "configs and ACLs: " + ", ".join([*parts, report.trouble] if report.trouble else parts)


def drill_text(flow: FlowStatus, at_ms: int) -> str:
    """Return the last drill and the next one, empty if none is known and none is scheduled."""
    standing = flow.drill
    if standing is None or (standing.last is None and not standing.every_s):
        return ""
    last = standing.last
    ago = seconds_text(standing.age_ms(at_ms) / 1000)
    parts = ["none yet"] if last is None else [drill_result(last), f"{ago} ago"]
    parts += ["one runs now"] if standing.runs else []
    parts += [f"next at {clock_text(standing.next_ms)}"] if standing.next_ms >= 0 and not standing.runs else []
    return "drill: " + ", ".join([*parts, standing.trouble] if standing.trouble else parts)


def drill_result(last: DrillReport) -> str:
    """Say how a drill ended, in a few words."""
    if last.failed:
        return f"did not finish ({last.failed})"
    lost = f", RPO {counted(last.loss.records, 'record')}" if last.loss.records else ""
    found = f"{counted(last.hurts, 'finding')} that would hurt" if last.hurts else "passed"
    left = ", and something is left on the target" if last.left else ""
    return f"{found}, RTO {last.rto_s:.1f} s{lost}{left}"


def spark_text(status: MirrorStatus) -> str:
    """Return the state of Spark, empty if it is off."""
    spark = status.spark
    if spark.state is SparkState.OFF:
        return ""
    parts = [str(spark.state)]
    parts += [counted(spark.executors, "executor")] if spark.state is SparkState.READY else []
    running = [line.job for line in spark.jobs if line.state is JobState.RUNNING]
    waiting = [line for line in spark.jobs if line.state is JobState.WAITING]
    parts += [f"running: {', '.join(running)}"] if running else []
    parts += [f"{counted(len(waiting), 'job')} waiting"] if waiting else []
    parts += [f"{line.job} failed and will be retried: {line.error}" for line in waiting if line.error]
    return "Spark: " + ", ".join(parts) + (f" ({spark.reason})" if spark.reason else "")


def proof_text(status: MirrorStatus, flow: str) -> str:
    """Return the state of the continuous proof of copy, empty if it is off."""
    proof = status.proofs.get(flow)
    if proof is None:
        return ""
    parts = ["no round yet"]
    if proof.at_ms:
        ago = seconds_text(max(0, status.at_ms - proof.at_ms) / 1000)
        parts = [
            f"{counted(proof.partitions, 'partition')}, {counted(proof.differences, 'difference')}, checked {ago} ago"
        ]
    return "proof of copy: " + ", ".join([*parts, proof.trouble] if proof.trouble else parts)


def lag_text(flow: FlowStatus) -> str:
    """Return the lag; if it is unknown, its lower bound unless that is 0."""
    if flow.is_undiscovered:
        return UNKNOWN  # of a stopped flow too: 0 would be the lag of partitions that were never counted
    if flow.lag_records is not None:
        return f"{flow.lag_records:,}"
    return f"at least {flow.least_lag_records:,}" if flow.least_lag_records else UNKNOWN


def heard_text(flow: FlowStatus) -> str:
    """Return the last known lag and its age, in brackets; empty unless the source is silent (`is_silent`)."""
    if not flow.is_silent:
        return ""
    return f" (was {flow.least_lag_records:,} {seconds_text(flow.source_end_age_ms / 1000)} ago)"


def at_end_text(end: FlowAtEnd, lanes: int) -> str:
    """Return the lag when the last copier of a flow ended; `lanes`: the flow's number of partitions."""
    is_known = end.at_ms >= 0 and end.unknown_lanes < lanes
    known = f"lag {end.lag_records:,} at {clock_text(end.at_ms)}" if is_known else ""
    if not end.unknown_lanes:
        return known
    unknown = f"lag of {counted(end.unknown_lanes, 'partition')} unknown: no copier reported it at its end"
    return f"{unknown}; of the others {known}" if known else unknown


def ended_text(flow: FlowStatus) -> str:
    """Say that no copier copies a flow any more, and the lag at its end; empty if a copier does or will."""
    return "" if flow.at_end is None else f"not copied any more; {at_end_text(flow.at_end, flow.lanes)}"


def unknown_text(flow: FlowStatus) -> str:
    """Say for how many partitions the lag is unknown, and its lower bound; empty if the lag of all is known."""
    if flow.is_lag_known or flow.at_end is not None:
        return ""
    if not flow.unknown_lanes:
        return "lag is unknown: no partition was discovered yet"
    of = f"lag of {flow.unknown_lanes:,} of {counted(flow.lanes, 'partition')} is unknown"
    if not flow.is_silent:
        least = f", at least {counted(flow.least_lag_records, 'record')}" if flow.least_lag_records else ""
        return f"{of}{least}: raymirror lag says why"
    ago = seconds_text(flow.source_end_age_ms / 1000)
    return f"{of}: the source last reported its end {ago} ago; the lag was {flow.least_lag_records:,} then"


def stalled_text(flow: FlowStatus) -> str:
    """Say how many partitions do not move, and the most frequent reason; empty if all move or have caught up."""
    if not flow.stall_reason or flow.at_end is not None:
        return ""
    do = "does" if flow.stalled == 1 else "do"
    of = f"{flow.stalled:,} of {counted(flow.lanes, 'partition')} {do} not move"
    some = f"; {flow.stalled_for_it:,} of them" if flow.stalled_for_it < flow.stalled else ""
    return f"{of}{some}: {flow.stall_reason}"


def held_text(flow: FlowStatus) -> str:
    """Say how many partitions are held back by bandwidth or priority, and the most frequent reason; empty if none."""
    if not flow.held or flow.at_end is not None:
        return ""
    are = "is" if flow.held == 1 else "are"
    of = f"{flow.held:,} of {counted(flow.lanes, 'partition')} {are} copied more slowly than possible"
    return f"{of}: {flow.held_reason}"


def bound_text(flow: FlowStatus) -> str:
    """Say what the path of the partition furthest behind carries, if distance bounds it; else empty."""
    return f"as fast as the distance allows: {flow.bound}" if flow.bound and flow.at_end is None else ""


def left_out_text(flow: FlowStatus) -> str:
    """Say how many refused records were left out since the supervisor started; empty if none were."""
    if not flow.left_out:
        return ""
    said = f"{counted(flow.left_out, 'record')} that the target refuses left out since the mirror started"
    return f"{said}; raymirror quarantine list names all of them"


def unremembered_text(status: MirrorStatus, flow: str) -> str:
    """Say that the wanted state of a flow is not stored on the target yet; empty if it is."""
    if flow not in status.unremembered:
        return ""
    return (
        "not remembered yet: the wanted state is not written to the target; raymirror retries while the mirror runs,"
        " but if the mirror ends before, the next start does not know this state"
    )


def behind_text(flow: FlowStatus, at_ms: int) -> str:
    """Return the age of the oldest record that is not copied; if it is unknown, its lower bound, or `-`."""
    if flow.is_undiscovered:
        return "-"
    least = seconds_text(flow.least_lag_ms(at_ms) / 1000)
    if flow.is_lag_known:
        return least
    return f"at least {least}" if flow.behind_since_ms >= 0 else "-"


def render(status: MirrorStatus) -> RenderableType:
    title = f"{status.namespace}  {status.phase}  {status.up_s:,.0f} s  {counted(len(status.copiers), 'copier')}"
    head = Text(title, style="bold")
    head.highlight_words([f"  {status.phase}  "], style=STATE.get(status.phase, ""))
    parts: list[RenderableType] = [head, flows_table(status)]
    waits = STATE["starting"]
    parts += [
        Text(f"{flow.flow}: waiting for {flow.waiting_for}", style=waits) for flow in status.flows if flow.waiting_for
    ]
    for say in (
        ended_text,
        unknown_text,
        stalled_text,
        held_text,
        left_out_text,
        bound_text,
        groups_text,
        configs_text,
    ):
        parts += [Text(f"{flow.flow}: {text}") for flow in status.flows if (text := say(flow))]
    parts += [Text(f"{one.flow}: {text}") for one in status.flows if (text := drill_text(one, status.at_ms))]
    for tell in (unremembered_text, proof_text):
        parts += [Text(f"{flow.flow}: {text}") for flow in status.flows if (text := tell(status, flow.flow))]
    parts += [Text(text)] if (text := spark_text(status)) else []
    parts += [
        Text(
            f"{clock_text(event.at_ms)} {event.severity}: {event.flow}: {event.text}",
            style=SEVERITY.get(event.severity, ""),
        )
        for event in status.events[-EVENTS_SHOWN:]
    ]
    return Group(*parts)


def flows_table(status: MirrorStatus) -> Table:
    # No lines, and names fold if a terminal of 80 columns is too narrow: a number that is cut off is useless.
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("flow", overflow="fold", min_width=6)
    table.add_column("wanted", overflow="fold", min_width=6)
    for name in ("topics", "partitions", "lag", "behind", "records", "records/s", "MiB/s", "stopped"):
        table.add_column(name, justify="right", no_wrap=True)
    for flow in status.flows:
        paused = f" ({counted(len(flow.paused_topics), 'topic')} paused)" if flow.paused_topics else ""
        table.add_row(
            flow.flow,
            state_text("paused" if paused else flow.desired, f"{flow.desired}{paused}"),
            str(flow.topics),
            str(flow.lanes),
            *_lag_cells(flow, status.at_ms),
            f"{flow.records:,}",
            f"{flow.records_per_s:,.0f}",
            f"{flow.bytes_per_s / MIB:.1f}",
            count_text(flow.errors, STATE["failed"]),
        )
    return table


def _lag_cells(flow: FlowStatus, at_ms: int) -> tuple[str, str]:
    """Return lag and time behind. An unknown lag is only "unknown": a line below the table has room for the rest."""
    if flow.at_end is not None:
        return "-", "-"
    return (lag_text(flow), behind_text(flow, at_ms)) if flow.is_lag_known else (UNKNOWN, "-")
