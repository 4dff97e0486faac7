"""The bodies of answers that commands make: records that were left out, groups, moves, ends, tables, queries, drift.

The commands of the command line print the same types, so what `--url` shows is what they show on the mirror's machine.
"""

from typing import Any

import msgspec

from actors.api.entities import ApiStruct
from engine.core.position.end_offsets import EndsRow
from engine.core.reports.move_progress import MoveProgress
from engine.core.reports.translated import Translated
from engine.jobs.tables.listing import TableLine, Unconverted

# --- records that the target refused ----------------------------------------------------------------------------------


class RefusedFacts(ApiStruct, frozen=True, kw_only=True):
    """One record that the target refused, without its contents. `state`: what became of it (docs/quarantine.md).

    `target_offset`, `done_at_ms`: -1 while it is not replayed or dropped. `key_bytes`, `value_bytes`: None for null.
    """

    record: str
    state: str
    topic: str
    partition: int
    offset: int
    topic_id: str
    target_topic: str
    target_offset: int
    timestamp_ms: int
    error_code: int
    error: str
    left_out_at_ms: int
    done_at_ms: int
    held: bool
    key_bytes: int | None
    value_bytes: int | None
    headers: int


class RecordBytes(ApiStruct, frozen=True, kw_only=True, omit_defaults=True):
    """Bytes of a record: as `text` if they are UTF-8, else as `base64`."""

    text: str | None = None
    base64: str | None = None


class RecordHeader(ApiStruct, frozen=True, kw_only=True):
    """A header of a record."""

    name: RecordBytes | None
    value: RecordBytes | None


class RecordContents(ApiStruct, frozen=True, kw_only=True):
    """Key, value and headers of a record; None for null."""

    key: RecordBytes | None
    value: RecordBytes | None
    headers: tuple[RecordHeader, ...]


class RefusedContents(RefusedFacts, frozen=True, kw_only=True):
    """One record with its contents; None: nothing holds them but the source."""

    contents: RecordContents | None


class RefusedOfFlow(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a flow, as `raymirror quarantine list --json` prints them."""

    flow: str
    records: tuple[RefusedFacts, ...]


class PrintedRefused(msgspec.Struct, frozen=True, kw_only=True):
    """What `raymirror quarantine list --json` prints."""

    flows: tuple[RefusedOfFlow, ...]


class PrintedContents(msgspec.Struct, frozen=True, kw_only=True):
    """What `raymirror quarantine show --json` prints."""

    records: tuple[RefusedContents, ...]


class RefusedPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/quarantine`; `states` counts all that match."""

    flow: str
    took_seconds: float
    total: int
    offset: int
    limit: int
    states: dict[str, int]
    records: tuple[RefusedFacts, ...]


class RefusedContentsPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/quarantine/contents`."""

    flow: str
    took_seconds: float
    records: tuple[RefusedContents, ...]


# --- groups, moves, ends ----------------------------------------------------------------------------------------------


class TranslationPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/translation`: what `raymirror translate --json` prints, and what follows from it."""

    flow: str
    took_seconds: float
    answered: bool
    """Whether every partition that the flow copies has an answer."""
    exact: bool
    equal: bool
    """Whether the group's offsets on the target are the translated ones."""
    translation: Translated


class MovesPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/moves`: what `raymirror move --list --json` prints."""

    flow: str
    took_seconds: float
    progress: MoveProgress


class PrintedEnds(msgspec.Struct, frozen=True, kw_only=True):
    """The partitions of a flow, as `raymirror compare-ends --json` prints them."""

    flow: str
    partitions: tuple[EndsRow, ...]


class PrintedEndsOfFlows(msgspec.Struct, frozen=True, kw_only=True):
    """What `raymirror compare-ends --json` prints."""

    flows: tuple[PrintedEnds, ...]


class EndsPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/ends`; those whose difference is not explained first. `unexplained` counts them."""

    flow: str
    took_seconds: float
    total: int
    offset: int
    limit: int
    unexplained: int
    partitions: tuple[EndsRow, ...]


# --- tables -----------------------------------------------------------------------------------------------------------


class PrintedTables(msgspec.Struct, frozen=True, kw_only=True):
    """What `raymirror tables --json` prints."""

    storage: str
    tables: tuple[TableLine, ...]
    unconverted: tuple[Unconverted, ...]


class TablesPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/tables`; `kept` says where they are, and is empty if none are kept."""

    kept: str
    tables: tuple[TableLine, ...]
    unconverted: tuple[Unconverted, ...]
    """What earlier versions stored, and no table has: `raymirror tables convert`."""


class SqlColumn(ApiStruct, frozen=True, kw_only=True):
    """A column of an answer, and its type in DuckDB's words."""

    name: str
    type: str


class PrintedRows(msgspec.Struct, frozen=True, kw_only=True):
    """What `raymirror sql --page` prints. `more`: the query has more rows than these."""

    columns: tuple[SqlColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


class SqlPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/sql`: the rows of a query. `more`: there are more; ask with a higher `limit`, or for less."""

    took_seconds: float
    columns: tuple[SqlColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


class DriftLine(ApiStruct, frozen=True, kw_only=True):
    """One drift: a config of a copy that somebody changed between `after_ms` and `seen_ms` (Unix ms).

    `expected`, `found`: values, None: not set. `who`: Kafka does not record it. `settled_ms`: None, it still stands.
    """

    seen_ms: int
    after_ms: int
    flow: str
    topic: str
    target: str
    key: str
    expected: str | None
    found: str | None
    outcome: str
    settled_ms: int | None
    why: str
    who: str = "unknown"

    @property
    def stands(self) -> bool:
        """Whether the copy still has the value that was found."""
        return self.settled_ms is None


class PrintedDrift(msgspec.Struct, frozen=True, kw_only=True):
    """What `raymirror drift --page` prints. `compared`: up to when each flow was compared, at least (Unix ms)."""

    compared: dict[str, int]
    lines: tuple[DriftLine, ...]


class DriftPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/drift`, in order of time. `compared`: up to when each flow was compared, at least (Unix ms).

    `kept` says where the history of configs is, and is empty if none is kept. `stands` counts what is not set right.
    """

    kept: str
    compared: dict[str, int]
    total: int
    offset: int
    limit: int
    stands: int
    lines: tuple[DriftLine, ...]
