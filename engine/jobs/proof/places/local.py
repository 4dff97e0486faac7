"""This process as the place of a proof: the engine's own clients read both sides, and SQLite compares them.

The SQL is that of `rules.py`, which Spark runs too. Records become hashes as they are read, one fetch answer at a time.
So memory holds one row of numbers per record. SQLite keeps the rows in memory, and nothing is written to disk.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import count
from typing import Any

from engine.base.tasks import run_all
from engine.jobs.proof import rules
from engine.jobs.proof.model import TooMuch
from engine.jobs.proof.place import LaneRow, Row, Stretch, ignore, read_plan
from engine.jobs.proof.places.logs import Batches, Log, OpenLogs
from engine.jobs.proof.plan import LanePart, ProofLane
from engine.wire.record import Headers
from policies.model import TopicPartition

LEAST_SQLITE = (3, 39, 0)
"""The first version with FULL OUTER JOIN."""
_RAW = ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "timestampType")
_NO_TYPE = -1
"""The timestamp type in Kafka's clients for records of format 0, which have no timestamp."""
_US = 1000
_AT_ONCE = 8
"""Partitions of a side that are read in parallel: each holds one fetch answer in memory."""


class LocalPlace:
    """Tables in SQLite; the tables of one `records` call are dropped at the next call."""

    dialect = rules.Dialect(hash="DIGEST64", headers="r.headers", time="r.timestamp")
    cores = 1

    def __init__(self, logs: OpenLogs, lanes: Sequence[ProofLane], most_bytes: int) -> None:
        self._logs, self._lanes, self._most_bytes = logs, lanes, most_bytes
        self._bytes = 0
        self._sql = sqlite3.connect(":memory:", isolation_level=None)
        self._sql.row_factory = sqlite3.Row
        self._sql.execute("PRAGMA temp_store = MEMORY")
        self._sql.create_function("DIGEST64", -1, digest64, deterministic=True)
        self._sql.create_aggregate("BIT_XOR", 1, _Xor)
        self._numbers, self._made = count(), list[str]()

    def close(self) -> None:
        """Free the memory."""
        self._sql.close()

    def share(self, most_tasks: int) -> None:
        """Do nothing: this place has one task."""

    def measured(self, records: int, took_s: float) -> None:
        """Do nothing: this place has one task."""

    def records(
        self,
        found: Sequence[LanePart],
        ends: Mapping[int, Stretch],
        *,
        few: bool = False,
        advance: Callable[[int], None] = ignore,
    ) -> tuple[str, str]:
        """Read pieces on both sides into tables.

        Raises BrokerUnreachable, ConnectionLost, MalformedBatch, BatchTooLarge, TooMuch, ConfigError.
        """
        while self._made:
            self._sql.execute(f"DROP TABLE {self._made.pop()}")
        both = read_plan(self._lanes, found, ends)
        source = self._contents(both.ours, is_target=False)
        target = self._contents(both.theirs, is_target=True)
        asyncio.run(self._read((both.here, both.there), (source, target), advance))
        columns = zip(*(both.runs[name].tolist() for name in ("lane", *rules.RUNS[1:])), strict=True)
        runs = self.table(rules.RUNS, list(columns))
        placed = self.query(rules.placed(), target=target.table, runs=runs)
        return self.query(rules.at_source(), source=source.table), placed

    def table(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
        """Make a table of integers and booleans."""
        # SQLite uses no automatic index on columns without a type when it looks a number up.
        return self._table([f"{name} INTEGER" for name in columns], rows)

    def query(self, text: str, **tables: str) -> str:
        """Run a query text of `rules.py` on tables."""
        for table in tables.values():
            self._index(table)
        name = self._name()
        self._sql.execute(f"CREATE TEMP TABLE {name} AS {text.format(**tables)}")
        return name

    def _index(self, table: str) -> None:
        """Index records by their place: SQLite makes automatic indexes for a join, but not for a full outer join."""
        columns = {row["name"] for row in self._sql.execute(f"PRAGMA table_info({table})")}
        if columns >= {"lane", "at"}:
            self._sql.execute(f"CREATE INDEX IF NOT EXISTS {table}_places ON {table} (lane, at)")

    def _table(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
        name = self._name()
        self._sql.execute(f"CREATE TEMP TABLE {name} ({', '.join(columns)})")
        self._sql.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
        return name

    def rows(self, table: str) -> list[Row]:
        """Fetch the rows of a table."""
        return self._sql.execute(f"SELECT * FROM {table}").fetchall()

    def sides(self, source: str, target: str, text: str, most_tasks: int) -> list[tuple[int, Row]]:
        """Run a query text on the `records` of both sides, and fetch its rows with the number of their side."""
        both = enumerate((source, target))
        return [(number, row) for number, side in both for row in self.rows(self.query(text, records=side))]

    @contextmanager
    def kept(self, table: str) -> Iterator[str]:
        """Return the table itself: every table is kept until the next `records` call."""
        yield table

    def _contents(self, lanes: Sequence[LaneRow], *, is_target: bool) -> "_Contents":
        text, raw = rules.contents(self.dialect, is_target=is_target), self._table(_RAW, [])
        text = text.format(records=raw, lanes=self._table(rules.LANES, lanes))
        name = self._name()
        self._sql.execute(f"CREATE TEMP TABLE {name} AS {text}")  # no rows yet, only the columns
        return _Contents(self._sql, name, raw, text)

    def _name(self) -> str:
        self._made.append(f"t{next(self._numbers)}")
        return self._made[-1]

    async def _read(
        self,
        intervals: tuple[Mapping[TopicPartition, Stretch], Mapping[TopicPartition, Stretch]],
        tables: "tuple[_Contents, _Contents]",
        advance: Callable[[int], None],
    ) -> None:
        """Read both sides; call `advance` with the number of source offsets read."""
        async with self._logs() as logs:
            for log, side, table, heard in zip(logs, intervals, tables, (advance, ignore), strict=True):
                at_once = asyncio.Semaphore(_AT_ONCE)
                await run_all(*(self._one(log, *one, table, heard, at_once) for one in side.items()))

    async def _one(
        self,
        log: Log,
        partition: TopicPartition,
        stretch: Stretch,
        table: "_Contents",
        advance: Callable[[int], None],
        at_once: asyncio.Semaphore,
    ) -> None:
        at, end = stretch
        async with at_once:
            async for behind, batches in log(partition, stretch):
                table.take(partition, batches)
                self._count(batches)
                advance(min(behind, end) - at)
                at = min(behind, end)

    def _count(self, batches: Batches) -> None:
        self._bytes += sum(header.size_bytes for header, _ in batches)
        if self._bytes > self._most_bytes:
            raise TooMuch(self._most_bytes)


class _Contents:
    """The table of reduced records; raw records are in another table, and only until the next answer."""

    def __init__(self, sql: sqlite3.Connection, table: str, raw: str, text: str) -> None:
        self._sql, self.table, self._raw, self._text = sql, table, raw, text

    def take(self, partition: TopicPartition, batches: Batches) -> None:
        """Add the records of some batches, reduced."""
        rows = [
            (*partition, one.offset, one.key, one.value, headers_blob(one.headers), one.timestamp * _US, kind)
            for header, records in batches
            for kind in (_NO_TYPE if header.magic == 0 else int(header.is_log_append_time),)
            for one in records
        ]
        self._sql.executemany(f"INSERT INTO {self._raw} VALUES ({', '.join('?' * len(_RAW))})", rows)
        self._sql.execute(f"INSERT INTO {self.table} {self._text}")
        self._sql.execute(f"DELETE FROM {self._raw}")


def headers_blob(headers: Headers) -> bytes:
    """Encode headers as bytes: their count, names as Java decodes them, values, each with its length (-1: null)."""
    parts = [b"%d" % len(headers)]
    for name, value in headers:
        known = name.decode(errors="replace").encode()
        parts.append(b"%d %b %d %b" % (len(known), known, -1 if value is None else len(value), value or b""))
    return b" ".join(parts)


def digest64(*values: int | bytes | None) -> int:
    """Hash any number of values to 64 bits, signed as SQLite's integers are; null differs from every other value."""
    hashed = blake2b(digest_size=8)
    for value in values:
        if isinstance(value, int):
            hashed.update(b"i%d;" % value)
        elif value is None:
            hashed.update(b"n;")
        else:
            hashed.update(b"b%d;" % len(value))
            hashed.update(value)
    return int.from_bytes(hashed.digest(), signed=True)


class _Xor:
    """Aggregate BIT_XOR for SQLite, as in Spark."""

    def __init__(self) -> None:
        self._value = 0

    def step(self, value: int) -> None:
        self._value ^= value

    def finalize(self) -> int:
        return self._value
