"""A storage with small tables, each with rows of the last days, for tests of SQL."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from engine.config.storage import Storage
from engine.flow.config_history.advance import HistoryFlow, SeenRound, advance
from engine.flow.config_history.keeper import HistoryBatch
from engine.flow.config_history.look import ConfigLook, DefaultValue, SideLook
from engine.flow.config_history.state import ConfigOf
from engine.flow.config_history.values import WriteTried
from engine.flow.config_sync.audit import AuditRow, only_batch
from engine.jobs.audit.store import TableAudit
from engine.jobs.config_history.store import HistoryTables
from engine.jobs.proof.model import DifferenceKind, LaneReport, ProofReport, ProofVerdict, RecordDifference
from engine.jobs.proof.tables.store import ProofStore
from engine.jobs.tables.catalog import LAG
from engine.jobs.tables.files import arrow_schema
from engine.jobs.tables.table import Table
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.selection import TopicSelection

HOUR_MS = 3_600_000
WINDOW_MS = 30_000


class StoredTables:
    """Tables in a folder; times are in ms before `now_ms`, which is the start of an hour."""

    def __init__(self, folder: Path, now_ms: int) -> None:
        self.storage, self.now_ms = Storage.of_folder(folder), now_ms // HOUR_MS * HOUR_MS

    def lag(self, *rows: dict[str, Any]) -> None:
        """Commit windows as one batch."""
        table = Table(self.storage.path("tables", LAG.name), LAG)
        table.create()
        table.append(pa.Table.from_pylist(list(rows), schema=arrow_schema(LAG)))

    def window(self, before_ms: int, topic: str = "orders", samples: int = 6, **more: Any) -> dict[str, Any]:
        """Make a row of a window of partition 0."""
        start_ms = self.now_ms - before_ms
        same = {"hour": LAG.partition_of(start_ms), "flow": "A->B", "topic": topic, "partition": 0, "copier_key": ""}
        ends = {"window_start_ms": start_ms, "window_end_ms": start_ms + WINDOW_MS, "last_ms": start_ms + samples}
        counts = {"stalled_ms": 0, "stall_reason": "", "records": 0, "wire_bytes": 0}
        return {**same, **ends, "samples": samples, **counts, **more}

    def audit(self, before_ms: int, **more: str) -> None:
        row = AuditRow(
            at_ms=self.now_ms - before_ms,
            run="r",
            flow="A->B",
            who="ann on host, raymirror apply",
            topic="orders",
            target="A.orders",
            change="set_config",
            name="retention.ms",
            before="1000",
            after="2000",
            why="the source topic sets it",
        )
        asyncio.run(TableAudit(self.storage).write(only_batch([msgspec.structs.replace(row, **more)])))

    def configs(self, before_ms: int, source: str, copy: str) -> None:
        """Store a round that saw the retention of `orders` on both sides; what differs is set right after 2 s."""
        default = frozenset({DefaultValue("7000", "kafka")})
        sides = (
            SideLook(topics={"orders": {"retention.ms": one}}, defaults={"segment.ms": default})
            for one in (source, copy)
        )
        at_ms = self.now_ms - before_ms
        tried = {ConfigOf("orders", "retention.ms"): WriteTried(source)} if source != copy else {}
        look = ConfigLook(source=next(sides), copies=next(sides))
        seen = SeenRound(began_ms=at_ms, at_ms=at_ms, written_ms=at_ms + 2_000, look=look, tried=tried)
        tables, flow = HistoryTables(self.storage), FlowName("A", "B")
        about = HistoryFlow(name=flow, selection=TopicSelection(flow, DefaultNaming(), [".*"]))
        state = asyncio.run(tables.load(str(flow)))
        asyncio.run(tables.write(HistoryBatch("w", at_ms, advance(about, state, seen).rows)))

    def proof(self, before_ms: int, run: str, proven_to: int, *differing: int) -> None:
        """Store a proof of partition 0 of `orders`, which differs at these source offsets."""
        lane = LaneReport(
            topic="orders",
            partition=0,
            target_topic="A.orders",
            source_from=0,
            source_to=proven_to,
            proven_from=0,
            proven_to=proven_to,
            records=proven_to,
            differences=len(differing),
            verdict=ProofVerdict.DIFFERS if differing else ProofVerdict.WHOLE,
        )
        found = tuple(
            RecordDifference(
                topic="orders",
                partition=0,
                source_offset=offset,
                target_topic="A.orders",
                target_offset=offset + 1,
                kind=DifferenceKind.ALTERED,
                what="value",
            )
            for offset in differing
        )
        report = ProofReport(
            run=run,
            flow=FlowName("A", "B"),
            began_ms=self.now_ms - before_ms,
            took_s=1.0,
            read_s=1.0,
            cores=1,
            lanes=(lane,),
            differences=found,
        )
        ProofStore(self.storage).store(report)

    def fill(self) -> None:
        """Store some rows in every table."""
        day = 24 * HOUR_MS
        self.lag(
            self.window(3 * day, lag_ms_max=90_000, records=10, wire_bytes=5 * 10**9, latency_mean_ms=7.0),
            self.window(3 * day - WINDOW_MS, lag_ms_max=70_000, records=30, wire_bytes=10**9, latency_mean_ms=3.0),
        )
        quick = self.window(HOUR_MS, lag_ms_max=40, records=100, wire_bytes=10**9, latency_mean_ms=5.0)
        slow = self.window(
            HOUR_MS, "clicks", records=50, latency_mean_ms=90.0, stalled_ms=20_000, stall_reason="paused"
        )
        self.lag({**quick, "samples": 2, "records": 40, "lag_ms_max": 99_000}, slow)
        self.lag(quick)
        self.audit(2 * day)
        self.audit(day, target="A.clicks", topic="clicks", outcome="failed", detail="no right")
        self.audit(HOUR_MS, target="A.clicks", topic="clicks", outcome="failed", detail="no right")
        self.configs(2 * day, "1000", "1000")
        self.configs(HOUR_MS, "2000", "9")
        self.proof(2 * day, "p1", 50)
        self.proof(day, "p2", 40, 40, 41)
        self.proof(HOUR_MS, "p3", 70)
