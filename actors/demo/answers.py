"""Asks what the demo's mirror has stored: two questions in SQL, as `raymirror sql` asks them, and the report's page."""

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from actors.report.page import MOST_TOPICS, page
from engine.base.clock import wall_ms
from engine.config.storage import Storage
from engine.jobs.lag.history import History
from engine.jobs.lag.options import lag_table_uri
from engine.jobs.lag.summary import summarize
from engine.jobs.sql.query import SqlAnswer, sql_session
from engine.jobs.sql.questions import SqlQuestion
from engine.jobs.sql.views import add_tables

PAGE_PREFIX: Final = "raymirror-demo-"
QUESTIONS: Final = (
    SqlQuestion(
        "How much was copied in each half minute, how old was it then, and how far behind was the worst partition?",
        """\
SELECT
    epoch_ms(window_start_ms) AS begins,
    sum(records) AS copied,
    sum(latency_mean_ms * records) / sum(records) / 1000 AS mean_age_s,
    max(lag_records_max) AS behind_records,
    max(lag_ms_max) / 1000 AS behind_s
FROM lag
WHERE topic <> '' AND topic <> 'heartbeats'
GROUP BY begins
ORDER BY begins""",
    ),
    SqlQuestion(
        "Which records are proven, and how many differ?",
        """\
SELECT topic, count(*) AS partitions, sum(records) AS proven, sum(differences) AS differences
FROM proof_lanes
GROUP BY topic
ORDER BY topic""",
    ),
)
_MINUTE_MS: Final = 60_000
_COPIED: Final = "SELECT topic, partition, max(position) FROM lag WHERE topic <> '' GROUP BY topic, partition"


class SqlResult(msgspec.Struct, frozen=True):
    """A question with its whole answer, which `actors.cli.seeing.sql_output` can print."""

    asks: str
    sql: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the answer."""
        yield from self.values


def ask(storage: Storage, questions: Sequence[SqlQuestion] = QUESTIONS) -> tuple[SqlResult, ...]:
    """Ask the tables of a storage. Raises SqlFailed, TableError, NewerFormat."""
    with sql_session() as session:
        add_tables(session, storage)
        return tuple(_result(one, session.ask(one.sql)) for one in questions)


def _result(question: SqlQuestion, answer: SqlAnswer) -> SqlResult:
    return SqlResult(question.asks, question.sql, answer.columns, answer.types, tuple(answer.rows()))


def copied_to(storage: Storage) -> dict[tuple[str, int], int]:
    """Return each partition's next source offset to copy, as the table of lag has it; partitions without one are left
    out. Raises SqlFailed, TableError, NewerFormat.
    """
    (found,) = ask(storage, [SqlQuestion("", _COPIED)])
    return {(topic, partition): position for topic, partition, position in found.values if position is not None}


def write_page(storage: Storage, since_ms: int) -> str:
    """Write the report from the minute of an instant (Unix ms) to now into a new file, and return its path.

    A whole minute, because a window counts by its start. The file is not in the demo's folder, which is deleted. Raises
    TableError, NewerFormat, OSError.
    """
    now_ms = wall_ms()
    history = History(lag_table_uri(storage))
    summary = summarize(history, since_ms // _MINUTE_MS * _MINUTE_MS, now_ms, most_topics=MOST_TOPICS)
    with tempfile.NamedTemporaryFile("w", prefix=PAGE_PREFIX, suffix=".html", delete=False) as file:
        file.write(page(summary, {}, now_ms))
    return file.name
