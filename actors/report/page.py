"""The report's page: per flow its plots, then what was breached, and what stood still and why."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from actors.history_cells import breach_cells, stall_cells
from actors.instants import clock_text
from actors.lagging import bytes_text, seconds_text
from actors.report.plot import Frame, Line, Span, plot
from engine.jobs.lag_summary import FlowPoint, Latency, Summary, TopicPoint

MOST_TOPICS = 8
"""Lines of a plot: the topics that were furthest behind."""
MOST_ROWS = 200
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;color:#222;max-width:980px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid #ccc}
figure{margin:1.2rem 0}figcaption{font-weight:600}svg{width:100%;height:auto;display:block}
polyline{fill:none;stroke-width:1.6}.grid{stroke:#e4e4e4}.mark{stroke:#a00;stroke-dasharray:5 4}
.span{fill:#a00;opacity:.1}text{font-size:11px;fill:#555}.value{text-anchor:end}.time,.none{text-anchor:middle}
.legend{margin:.2rem 0;font-size:13px}.legend span{margin-right:1.1em;white-space:nowrap}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em}
table{border-collapse:collapse;font-size:13px;width:100%}td,th{text-align:left;padding:.25rem .6rem;vertical-align:top}
th{border-bottom:2px solid #999}td{border-bottom:1px solid #e4e4e4}td.n,th.n{text-align:right;white-space:nowrap}
"""


def page(summary: Summary, rpo_s: Mapping[str, float], made_ms: int) -> str:
    """Render a whole HTML page; `rpo_s` are objectives in seconds by flow."""
    frame = Frame(since_ms=summary.since_ms, until_ms=summary.until_ms, step_ms=summary.step_s * 1000)
    flows = sorted({point.flow for point in summary.flows})
    parts = [_flow(flow, summary, frame, rpo_s.get(flow, 0.0)) for flow in flows]
    if not flows:
        parts = ["<p>The history holds nothing of this time.</p>"]
    title = "raymirror: lag, latency and throughput"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"/>'
        f'<link rel="icon" href="data:,"/><title>{title}</title><style>{_STYLE}</style></head><body>'
        f"<h1>{title}</h1><p>{clock_text(summary.since_ms)} to {clock_text(summary.until_ms)} (UTC), a point every"
        f" {seconds_text(summary.step_s)}; made {clock_text(made_ms)}.</p>{''.join(parts)}</body></html>\n"
    )


def _flow(flow: str, summary: Summary, frame: Frame, rpo_s: float) -> str:
    points = [point for point in summary.flows if point.flow == flow]
    topics = worst_topics([point for point in summary.topics if point.flow == flow])
    spans = [
        Span(one.since_ms, summary.until_ms if one.until_ms is None else one.until_ms)
        for one in summary.breaches
        if one.flow == flow
    ]
    plots = [
        plot(
            "Behind, seconds: the worst partition of each topic" + (" (shaded: beyond the objective)" if rpo_s else ""),
            frame,
            _lines(topics, lambda point: point.lag_seconds),
            seconds_text,
            shaded=spans,
            mark=rpo_s or None,
        ),
        plot("Behind, records", frame, _lines(topics, lambda point: point.lag_records), count_text),
        plot("Copied, records a second", frame, [_total(points, lambda one: one.records_per_s)], count_text),
        plot("Copied, bytes a second", frame, [_total(points, lambda one: one.bytes_per_s)], _bytes),
        _latencies("Append latency: one produce request", frame, points, lambda point: point.append),
        _latencies("From a record's timestamp to its copy", frame, points, lambda point: point.copied),
        _latencies("From a record's timestamp to its arrival", frame, points, lambda point: point.fetched),
        plot(
            "Skew: the busiest one's share, times their number (1: even)",
            frame,
            [_total(points, lambda one: one.copier_skew, "copiers"), *_lines(topics, lambda point: point.skew)],
            lambda value: f"{value:.1f}",
        ),
    ]
    return f"<h2>{escape(flow)}</h2>{''.join(plots)}{_breaches(flow, summary)}{_stalls(flow, summary)}{_notes(points)}"


def worst_topics(points: Iterable[TopicPoint]) -> dict[str, list[TopicPoint]]:
    """Give the points of the topics that were furthest behind, the worst topic first."""
    by_topic: defaultdict[str, list[TopicPoint]] = defaultdict(list)
    for point in points:
        by_topic[point.topic].append(point)

    def behind(topic: str) -> tuple[float, int, str]:
        own = by_topic[topic]
        return (
            -max((one.lag_seconds or 0.0 for one in own), default=0.0),
            -max((one.lag_records or 0 for one in own), default=0),
            topic,
        )

    return {topic: by_topic[topic] for topic in sorted(by_topic, key=behind)[:MOST_TOPICS]}


def _lines(topics: Mapping[str, list[TopicPoint]], value: Callable[[TopicPoint], float | None]) -> list[Line]:
    return [Line(topic, [(one.at_ms, value(one)) for one in points]) for topic, points in topics.items()]


def _total(points: Sequence[FlowPoint], value: Callable[[FlowPoint], float | None], name: str = "all topics") -> Line:
    return Line(name, [(one.at_ms, value(one)) for one in points])


def _latencies(title: str, frame: Frame, points: Sequence[FlowPoint], which: Callable[[FlowPoint], Latency]) -> str:
    lines = [Line(name, [(one.at_ms, getattr(which(one), name)) for one in points]) for name in ("p50", "p95", "p99")]
    return plot(title, frame, lines, lambda ms: seconds_text(ms / 1000) if ms >= 1000 else f"{ms:g} ms")


def count_text(value: float) -> str:
    """Say a number in few characters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def _bytes(value: float) -> str:
    return bytes_text(round(value))


# --- tables --------------------------------------------------------------------------------------------------


def _breaches(flow: str, summary: Summary) -> str:
    rows = [breach_cells(one) for one in summary.breaches if one.flow == flow]
    return _table("Objective breached", ("topic", "from", "until", "worst", "objective"), rows, numbers=2)


def _stalls(flow: str, summary: Summary) -> str:
    rows = [stall_cells(one) for one in summary.stalls if one.flow == flow]
    heads = ("topic", "why it stood still", "from", "until", "partitions", "all together")
    return _table("Behind, and standing still", heads, rows, numbers=2)


def _notes(points: Sequence[FlowPoint]) -> str:
    failures = sum(one.append_failures for one in points)
    dropped = max((one.dropped for one in points), default=0)
    notes = [f"{failures:,} appends were answered with a failure and tried again."] if failures else []
    if dropped:
        notes.append(f"{dropped:,} samples of partitions were never written: the plots have holes there.")
    return "".join(f"<p>{note}</p>" for note in notes)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int) -> str:
    """Draw a table, the last columns of it numbers; a sentence where it has no row."""
    if not rows:
        return f"<h3>{title}</h3><p>None.</p>"
    first = len(heads) - numbers

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = (' class="n"' if at >= first else "" for at in range(len(row)))
        return "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in zip(kinds, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows[:MOST_ROWS])
    more = f"<p>{len(rows) - MOST_ROWS:,} more.</p>" if len(rows) > MOST_ROWS else ""
    return f"<h3>{title}</h3><table><tr>{cells('th', heads)}</tr>{body}</table>{more}"
