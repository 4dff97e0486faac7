"""A reason that many rows share is printed once below the table."""

import io

from rich.console import Console
from rich.table import Table

from actors.observability.shared_reasons import SharedReasons

LONG = "the source does not answer: [Errno 111] Connect call failed"
OTHER = "topic t-1: not authorised to read, and that is long too"


def printed(*sentences: str) -> list[str]:
    whys = SharedReasons(sentences)
    table = Table(box=None, pad_edge=False)
    table.add_column("why")
    for sentence in sentences:
        table.add_row(whys.cell(sentence))
    out = io.StringIO()
    Console(file=out, width=200, markup=False).print(whys.with_legend(table))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_what_several_rows_say_is_said_once() -> None:
    assert printed(LONG, OTHER, LONG) == ["why", "(1)", OTHER, "(1)", f"(1) {LONG}"]


def test_what_is_short_or_said_once_stays_in_its_row() -> None:
    assert printed("paused", LONG, "paused", "") == ["why", "paused", LONG, "paused", ""]
