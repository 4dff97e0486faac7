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

from actors.model.status import EventLine, FlowStatus, MirrorStatus, fresh
from actors.observability.colours import SEVERITY, STATE, count_text, state_text
from actors.observability.instants import clock_text
from actors.observability.lagging import UNKNOWN
from actors.observability.sentences import (
    FLOW_NOTES,
    MIB,
    behind_text,
    drill_text,
    flow_line,
    lag_text,
    proof_text,
    python_text,
    spark_text,
    unremembered_text,
)
from policies.words import counted

PLAIN_EVERY_S = 5.0
EVENTS_SHOWN = 8


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


def render(status: MirrorStatus) -> RenderableType:
    title = f"{status.namespace}  {status.phase}  {status.up_s:,.0f} s  {counted(len(status.copiers), 'copier')}"
    head = Text(title, style="bold")
    head.highlight_words([f"  {status.phase}  "], style=STATE.get(status.phase, ""))
    parts: list[RenderableType] = [head, flows_table(status)]
    waits = STATE["starting"]
    parts += [
        Text(f"{flow.flow}: waiting for {flow.waiting_for}", style=waits) for flow in status.flows if flow.waiting_for
    ]
    for say in FLOW_NOTES:
        parts += [Text(f"{flow.flow}: {text}") for flow in status.flows if (text := say(flow))]
    parts += [Text(f"{one.flow}: {text}") for one in status.flows if (text := drill_text(one, status.at_ms))]
    for tell in (unremembered_text, python_text, proof_text):
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
