"""Draws the report's tables: flows, breaches and stalls, with `MOST_ROWS` rows each at most."""

from collections.abc import Callable, Mapping, Sequence
from html import escape

from actors.observability.history_cells import breach_cells, mean, most, stall_cells
from actors.observability.instants import clock_text
from actors.report.units import count_text, duration_text, size_text
from engine.jobs.lag.summary import FlowPoint, Summary

MOST_ROWS = 200
NO_OBJECTIVE = (
    "<p>No objective is known, so the report has no breaches: <code>raymirror.rpo.seconds</code> in the configuration"
    " sets one (<code>--config</code> names the file).</p>"
)
_UNKNOWN = "–"


def overview(flows: Mapping[str, Sequence[FlowPoint]], summary: Summary, links: Mapping[str, str]) -> str:
    """Draw a row per flow; `links` has the sections of the flows that have one, by flow."""
    rows = []
    for flow, points in flows.items():
        last, breaches = points[-1], [one for one in summary.breaches if one.flow == flow]
        rows.append(
            (
                flow,
                *(_of(last.lag_seconds, duration_text), _of(last.lag_records, count_text)),
                _of(most(one.lag_seconds for one in points), duration_text),
                _breached(len(breaches), sum(one.until_ms is None for one in breaches)),
                f"{count_text(mean([one.records_per_s for one in points]))}/s",
                f"{size_text(mean([one.bytes_per_s for one in points]))}/s",
                _of(most(one.append.p99 for one in points), lambda ms: duration_text(ms / 1000)),
                clock_text(last.at_ms),
            )
        )
    heads = ("flow", "behind", "records", "at worst", "breaches", "copied", "bytes", "append p99", "last point")
    return table(heads, rows, first=1, links=links)


def breaches(flow: str, summary: Summary, *, objective: bool) -> str:
    """List when which topic was further behind than its objective: open breaches first, then the latest."""
    found = [one for one in summary.breaches if one.flow == flow]
    found.sort(key=lambda one: (one.until_ms is not None, -one.since_ms))
    rows = [breach_cells(one) for one in found]
    heads = ("topic", "from", "until", "worst", "objective")
    said = table(heads, rows, first=3) if rows else "<p>None.</p>" if objective else NO_OBJECTIVE
    return f"<h3>Objective breached</h3>{said}"


def stalls(flow: str, summary: Summary) -> str:
    """List the partitions that were behind and made no progress, the longest stall first."""
    rows = [stall_cells(one) for one in summary.stalls if one.flow == flow]
    heads = ("topic", "why no progress", "from", "until", "partitions", "total time")
    return f"<h3>Behind, without progress</h3>{table(heads, rows, first=4) if rows else '<p>None.</p>'}"


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, first: int, links: Mapping[str, str] | None = None
) -> str:
    """Draw a table; columns from `first` on are numbers. If `links` has a row's first cell, the cell links there."""

    def cell(tag: str, at: int, text: str) -> str:
        kind = ' class="n"' if at >= first else ' class="w"' if text.endswith("Z") and tag == "td" else ""
        said = escape(text)
        link = (links or {}).get(text) if at == 0 and tag == "td" else None
        if link is not None:
            said = f'<a href="#{link}">{said}</a>'
        return f"<{tag}{kind}>{said}</{tag}>"

    def line(tag: str, row: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, at, text) for at, text in enumerate(row))}</tr>"

    body = "".join(line("td", row) for row in rows[:MOST_ROWS])
    more = f"<p>{len(rows) - MOST_ROWS:,} more.</p>" if len(rows) > MOST_ROWS else ""
    return f'<div class="scroll"><table>{line("th", heads)}{body}</table></div>{more}'


def _breached(number: int, still: int) -> str:
    return f"{number:,}" + (f" ({still:,} still)" if still else "")


def _of(value: float | None, text: Callable[[float], str]) -> str:
    return _UNKNOWN if value is None else text(value)
