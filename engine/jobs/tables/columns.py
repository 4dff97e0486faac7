"""Describes a table: its columns, each with a kind, a unit and a meaning, and how its rows are divided into files."""

from datetime import UTC, datetime
from typing import Literal

import msgspec

Kind = Literal["text", "int", "long", "double", "flag", "longs"]
"""`int` has 32 bits, `long` 64; `longs` is a list of `long`. There are no timestamps: times are Unix ms in a `long`."""
_NAMES = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d"}


class Column(msgspec.Struct, frozen=True):
    """One column. `unit`: of its numbers (`ms`, `records`), or empty. Any column may be NULL if `meaning` says so."""

    name: str
    kind: Kind
    unit: str
    meaning: str


class TableSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A table: `name` is its folder below `<storage>/tables`.

    `span`: the column with the time of a row in Unix ms, never NULL; least and most are stored for every file.
    `partition`: the column with the UTC `hour` or `day` (`by`) of `span`, as text; files hold one partition each.
    `stretch_ms`: how much of `span` readers and compaction hold in memory at a time.
    `rule`: which of several rows of one thing counts, and `once`: the clause of SQL for that; empty: every row.
    `repeats`: also one file may have several rows of one thing, because compaction keeps all of them.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    partition: str
    by: Literal["hour", "day"]
    span: str
    stretch_ms: int
    rule: str = ""
    once: str = ""
    repeats: bool = False
    format: int = 1

    def partition_of(self, at_ms: int) -> str:
        """Return the partition of a Unix time in ms, e.g. `2026-05-01T12`. Later times have greater texts."""
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(_NAMES[self.by])
