"""Answers looks with what their commands have printed: the quarantine, groups, moves, ends, tables, queries, drift."""

from collections import Counter
from typing import Final

from actors.api.commands.look_words import decoded, printed, took
from actors.api.commands.pages import (
    DriftPage,
    EndsPage,
    MovesPage,
    PrintedContents,
    PrintedDrift,
    PrintedEndsOfFlows,
    PrintedRefused,
    PrintedRows,
    PrintedTables,
    RefusedContentsPage,
    RefusedPage,
    SqlPage,
    TablesPage,
    TranslationPage,
)
from actors.api.queries import part_of
from actors.api.view import ApiNeed, ApiView
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from engine.config.storage import KEY as STORAGE_KEY
from engine.core.reports.move_progress import MoveProgress
from engine.core.reports.translated import Translated

HTML: Final = "text/html; charset=utf-8"
PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'; sandbox"
)
"""The report is a page of the console's origin: with this policy nothing of it runs, and it has no session."""


def refused(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the records of a flow that the target refused, without their contents."""
    found, part = printed(ApiNeed.REFUSED, view), part_of(call)
    (flow,) = decoded(found, PrintedRefused).flows
    return HttpAnswer(
        body=RefusedPage(
            flow=flow.flow,
            took_seconds=took(found),
            total=len(flow.records),
            offset=part.offset,
            limit=part.limit,
            states=dict(Counter(one.state for one in flow.records)),
            records=tuple(part.of(flow.records)),
        )
    )


def contents(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return records that the target refused, with key, value and headers."""
    found = printed(ApiNeed.CONTENTS, view)
    records = decoded(found, PrintedContents).records
    return HttpAnswer(body=RefusedContentsPage(flow=call.path["flow"], took_seconds=took(found), records=records))


def translation(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the offsets of a group on both sides."""
    found = printed(ApiNeed.TRANSLATION, view)
    one: Translated = decoded(found, Translated)
    return HttpAnswer(
        body=TranslationPage(
            flow=call.path["flow"],
            took_seconds=took(found),
            answered=one.answered,
            exact=one.exact,
            equal=one.equal,
            translation=one,
        )
    )


def moves(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return where the migration of a flow's groups and topics stands."""
    found = printed(ApiNeed.MOVES, view)
    progress = decoded(found, MoveProgress)
    return HttpAnswer(body=MovesPage(flow=call.path["flow"], took_seconds=took(found), progress=progress))


def ends(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return where the partitions of a flow end on both clusters, and why not at the same offset."""
    found, part = printed(ApiNeed.ENDS, view), part_of(call)
    (flow,) = decoded(found, PrintedEndsOfFlows).flows
    rows = sorted(flow.partitions, key=lambda row: row.fine)
    return HttpAnswer(
        body=EndsPage(
            flow=flow.flow,
            took_seconds=took(found),
            total=len(rows),
            offset=part.offset,
            limit=part.limit,
            unexplained=sum(not row.fine for row in rows),
            partitions=tuple(part.of(rows)),
        )
    )


def tables(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the tables of results."""
    found = printed(ApiNeed.TABLES, view)
    if found is None:
        return HttpAnswer(body=TablesPage(kept="", tables=(), unconverted=()))
    listed = decoded(found, PrintedTables)
    return HttpAnswer(body=TablesPage(kept=listed.storage, tables=listed.tables, unconverted=listed.unconverted))


def sql(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the rows of a query. Raises HttpRefusal: 400 if it is wrong, 409 if no tables are kept."""
    found = printed(ApiNeed.SQL, view)
    if found is None:
        raise _nothing_kept("tables")
    rows = decoded(found, PrintedRows)
    return HttpAnswer(body=SqlPage(took_seconds=took(found), columns=rows.columns, rows=rows.rows, more=rows.more))


def drift(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the configs of copies that somebody changed, and whether they were set right."""
    found, part = printed(ApiNeed.DRIFT, view), part_of(call)
    known = decoded(found, PrintedDrift) if found is not None else PrintedDrift(compared={}, lines=())
    return HttpAnswer(
        body=DriftPage(
            kept=view.facts.storage,
            compared=known.compared,
            total=len(known.lines),
            offset=part.offset,
            limit=part.limit,
            stands=sum(line.stands for line in known.lines),
            lines=tuple(part.of(known.lines)),
        )
    )


def report(_call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the page of a report. Raises HttpRefusal (409), also if no history is kept."""
    found = printed(ApiNeed.REPORT, view)
    if found is None:
        raise _nothing_kept("history")
    page = found.printed.decode(errors="replace")
    if not page.rstrip().endswith("</html>"):
        raise HttpRefusal(409, "The command has not printed the whole page; ask again, or for less")
    return HttpAnswer(body=page, content_type=HTML, headers=(("Content-Security-Policy", PAGE_POLICY),))


def _nothing_kept(what: str) -> HttpRefusal:
    return HttpRefusal(409, f"This mirror keeps no {what}: set {STORAGE_KEY} in its file, then reload it")
