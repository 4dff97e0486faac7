"""Draws the history of lag as tables: a row per flow and per topic, then RPO breaches and stalled topics."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from actors.observability.history_cells import breach_cells, mean, most, stall_cells
from actors.observability.instants import clock_text
from actors.observability.lagging import bytes_text, seconds_text

if TYPE_CHECKING:
    from engine.jobs.lag.summary import FlowPoint, Summary
    from engine.jobs.lag.topics import TopicPoint


def history_tables(summary: "Summary", *, behind: bool = False) -> Iterator[Table]:
    """Draw the tables of a summary; `behind`: only topics that were behind or stalled at any time."""
    yield _flows(summary.flows)
    yield _topics(summary.topics, behind=behind)
    if summary.breaches:
        rows = [(one.flow, *breach_cells(one)) for one in summary.breaches]
        yield _table(("flow", "objective breached", "from", "until"), ("worst", "objective"), rows)
    if summary.stalls:
        stalls = [(one.flow, *stall_cells(one)) for one in summary.stalls]
        yield _table(("flow", "stalled", "why", "from", "until"), ("partitions", "in total"), stalls)


def _flows(points: "Iterable[FlowPoint]") -> Table:
    by_flow: defaultdict[str, list[FlowPoint]] = defaultdict(list)
    for point in points:
        by_flow[point.flow].append(point)
    rows = []
    for flow, own in by_flow.items():
        last = own[-1]
        rows.append(
            (
                flow,
                clock_text(last.at_ms),
                f"{last.copiers}",
                _count(last.lag_records),
                seconds_text(last.lag_seconds),
                seconds_text(most(one.lag_seconds for one in own)),
                f"{mean([one.records_per_s for one in own]):,.0f}",
                f"{bytes_text(round(mean([one.bytes_per_s for one in own])))}/s",
                *tuple(_ms(most(getattr(one.append, q) for one in own)) for q in ("p50", "p95", "p99")),
            )
        )
    right = ("copiers", "records", "behind", "at worst", "records/s", "bytes", "append p50", "p95", "p99 (worst)")
    return _table(("flow", "last window"), right, rows)


def _topics(points: "Iterable[TopicPoint]", *, behind: bool) -> Table:
    by_topic: defaultdict[tuple[str, str], list[TopicPoint]] = defaultdict(list)
    for point in points:
        by_topic[point.flow, point.topic].append(point)
    rows = []
    for (flow, topic), own in by_topic.items():
        last = own[-1]
        if behind and not any(one.lag_records or one.stalled for one in own):
            continue
        rows.append(
            (
                flow,
                topic,
                f"{last.partitions}",
                _count(last.lag_records),
                bytes_text(last.lag_bytes),
                seconds_text(last.lag_seconds),
                seconds_text(most(one.lag_seconds for one in own)),
                seconds_text(last.drain_s),
                f"{mean([one.records_per_s for one in own]):,.0f}",
                "-" if (skew := most(one.skew for one in own)) is None else f"{skew:.1f}",
            )
        )
    right = ("partitions", "records", "bytes", "behind", "at worst", "drained in", "records/s", "skew")
    return _table(("flow", "topic"), right, rows)


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f} ms"


def _table(left: Sequence[str], right: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for name in left:
        drawn.add_column(name)
    for name in right:
        drawn.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    return drawn
