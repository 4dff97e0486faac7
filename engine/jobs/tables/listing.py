"""The tables with their sizes, and the stores of earlier versions, that `raymirror tables` lists."""

import msgspec


class TableLine(msgspec.Struct, frozen=True, kw_only=True):
    """One table: `bytes` and `rows` of its files. `version`: the number of its last commit.

    `newest_ms`: the time of its newest row in Unix ms; None without rows.
    """

    name: str
    uri: str
    meaning: str
    version: int
    files: int
    rows: int
    bytes: int
    newest_ms: int | None


class Unconverted(msgspec.Struct, frozen=True, kw_only=True):
    """A store of an earlier version that is not in the tables: what it holds, and its URI."""

    what: str
    place: str
