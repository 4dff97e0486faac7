"""Renders the report's page: a table of all flows, then for each flow its plots, breaches and stalls.

Its size is bounded for every mirror: it draws a limited number of flows and topics, the furthest behind, and of rows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TypeVar

from actors.report.frame import Frame, Line, Span
from actors.report.plot import COLOURS, Plot, draw
from actors.report.style import STYLE
from actors.report.tables import breaches, overview, stalls
from actors.report.units import BYTES, COUNT, RATIO, SECONDS, duration_text
from engine.jobs.lag.summary import FlowPoint, Latency, Summary
from engine.jobs.lag.topics import TopicPoint
from policies.words import counted

MOST_FLOWS = 12
MOST_TOPICS = COLOURS - 1
"""Topics in a plot at most; one more line is for the copiers."""
_Point = TypeVar("_Point", FlowPoint, TopicPoint)
_TITLE = "raymirror: lag, latency and throughput"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""With this policy the browser runs and fetches nothing."""
_NOTHING = (
    "<p>The history holds nothing of this time. Copiers write their progress while"
    " <code>raymirror.progress.interval.seconds</code> is above 0, and Spark turns it into the history.</p>"
)


def page(summary: Summary, rpo_s: Mapping[str, float], made_ms: int) -> str:
    """Render a whole HTML page; `rpo_s` are objectives in seconds by flow."""
    frame = Frame(since_ms=summary.since_ms, until_ms=summary.until_ms, step_ms=summary.step_s * 1000)
    flows = _by_flow(summary.flows)
    links = {flow: f"flow-{at}" for at, flow in enumerate(worst_flows(flows))}
    topics = _by_flow(summary.topics)
    sections = [
        f'<h2 id="{link}">{escape(flow)}</h2>'
        f"{_flow(flow, flows[flow], topics.get(flow, []), summary, frame, rpo_s.get(flow, 0.0))}"
        for flow, link in links.items()
    ]
    if len(flows) > len(links):
        sections.append(f"<p>The page draws the {len(links)} flows that were furthest behind, of {len(flows):,}.</p>")
    body = f"{overview(flows, summary, links)}{''.join(sections)}" if flows else _NOTHING
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"/>'
        f'<link rel="icon" href="data:,"/><title>{_TITLE}</title><style>{STYLE}</style></head><body>'
        f"<h1>{_TITLE}</h1><p>{_minute(summary.since_ms)} to {_minute(summary.until_ms)} UTC, a point every"
        f" {duration_text(summary.step_s)}; written {_minute(made_ms)}.</p>{body}</body></html>\n"
    )


def worst_flows(flows: Mapping[str, Sequence[FlowPoint]]) -> list[str]:
    """Return the flows that were furthest behind, in order of their names."""
    behind = {flow: max((one.lag_seconds or 0.0 for one in points), default=0.0) for flow, points in flows.items()}
    return sorted(sorted(flows, key=lambda flow: (-behind[flow], flow))[:MOST_FLOWS])


def worst_topics(points: Iterable[TopicPoint]) -> dict[str, list[TopicPoint]]:
    """Return the points of the topics that were furthest behind, the worst topic first."""
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


def _by_flow(points: Iterable[_Point]) -> dict[str, list[_Point]]:
    found: defaultdict[str, list[_Point]] = defaultdict(list)
    for point in points:
        found[point.flow].append(point)
    return dict(sorted(found.items()))


def _flow(
    flow: str,
    points: Sequence[FlowPoint],
    topics: Sequence[TopicPoint],
    summary: Summary,
    frame: Frame,
    rpo_s: float,
) -> str:
    plots = "".join(draw(plot, frame) for plot in _plots(flow, points, topics, summary, rpo_s))
    tables = breaches(flow, summary, objective=bool(rpo_s)) + stalls(flow, summary)
    return f'{_notes(points, summary)}<div class="plots">{plots}</div>{tables}'


def _plots(
    flow: str, points: Sequence[FlowPoint], topics: Sequence[TopicPoint], summary: Summary, rpo_s: float
) -> Iterable[Plot]:
    worst, number = worst_topics(topics), summary.topic_numbers.get(flow, 0)
    of_topics = f"the {len(worst)} topics furthest behind, of {number:,}" if number > len(worst) else "each topic"
    spans = [
        Span(one.since_ms, summary.until_ms if one.until_ms is None else one.until_ms)
        for one in summary.breaches
        if one.flow == flow
    ]
    yield Plot(
        title="Behind, time",
        note=f"{of_topics}, its worst partition" + ("; shaded: a topic breaches the objective" if spans else ""),
        lines=_lines(worst, lambda point: point.lag_seconds),
        unit=SECONDS,
        wide=True,
        shaded=spans,
        mark=rpo_s or None,
    )
    lags = _lines(worst, lambda point: point.lag_records)
    yield Plot(title="Behind, records", note=of_topics, lines=lags, unit=COUNT, wide=True)
    yield Plot(title="Copied, records a second", lines=[_total(points, lambda one: one.records_per_s)], unit=COUNT)
    yield Plot(title="Copied, bytes a second", lines=[_total(points, lambda one: one.bytes_per_s)], unit=BYTES)
    yield _latencies("Append latency", "one produce request", points, lambda point: point.append)
    yield _latencies("Age when copied", "from a record's timestamp", points, lambda point: point.copied)
    yield _latencies("Age when fetched", "from a record's timestamp", points, lambda point: point.fetched)
    skews = [*_lines(worst, lambda point: point.skew), _total(points, lambda one: one.copier_skew, "copiers")]
    yield Plot(title="Skew", note="share of the busiest one, times the count; 1: even", lines=skews, unit=RATIO)


def _lines(topics: Mapping[str, list[TopicPoint]], value: Callable[[TopicPoint], float | None]) -> list[Line]:
    return [Line(topic, [(one.at_ms, value(one)) for one in points]) for topic, points in topics.items()]


def _total(points: Sequence[FlowPoint], value: Callable[[FlowPoint], float | None], name: str = "all topics") -> Line:
    return Line(name, [(one.at_ms, value(one)) for one in points])


def _latencies(title: str, note: str, points: Sequence[FlowPoint], which: Callable[[FlowPoint], Latency]) -> Plot:
    def seconds(point: FlowPoint, name: str) -> float | None:
        ms: float | None = getattr(which(point), name)
        return None if ms is None else ms / 1000

    lines = [Line(name, [(one.at_ms, seconds(one, name)) for one in points]) for name in ("p50", "p95", "p99")]
    return Plot(title=title, note=note, lines=lines, unit=SECONDS)


def _notes(points: Sequence[FlowPoint], summary: Summary) -> str:
    failures = sum(one.append_failures for one in points)
    dropped = max((one.dropped for one in points), default=0)
    notes = [f"Failed and tried again: {counted(failures, 'append')}."] if failures else []
    if dropped:
        notes.append(f"Never written: {counted(dropped, 'sample')} of partitions; the plots have gaps there.")
    if points[0].at_ms - summary.since_ms > 3000 * summary.step_s:
        notes.append(f"The history of this flow begins at {_minute(points[0].at_ms)}.")
    return "".join(f"<p>{note}</p>" for note in notes)


def _minute(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
