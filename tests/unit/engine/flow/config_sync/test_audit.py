"""The audit trail: the fields of a row, rows that wait for their store, and the event when they cannot be stored."""

import asyncio

import pytest

from engine.core.events.config_events import AuditLost, AuditRests, AuditUnwritten
from engine.core.events.events import Mm2Active, TopicCreated, TopicFailed
from engine.flow.config_sync import audit
from engine.flow.config_sync.audit import (
    AuditBatch,
    AuditFailed,
    AuditRow,
    AuditTrail,
    Run,
    discovered,
    new_run,
    only_batch,
    rows_of,
)
from engine.flow.config_sync.loop import ConfigLoopOptions, ConfigSyncLoop
from engine.flow.config_sync.planning import Scope
from engine.flow.config_sync.sync import ChangeOutcome
from policies.sync.acl_sync import AddAcl, Binding
from policies.sync.config_sync import Change, Conflict, ConflictKind, CreateTopic, DropConfig, GrowTopic, SetConfig
from tests.harness.beside import beside
from tests.unit.engine.flow.config_sync.test_sync import FLOW, Stage, reads
from tests.unit.engine.flow.stage import until

RUN = Run(id="5-abc", at_ms=5, flow=FLOW, who="ann")


class Store:
    """Keeps rows in memory, a batch once; `failing` says why it does not. `doubtful`: it keeps them all the same."""

    where = "file:/x/audit"

    def __init__(self) -> None:
        self.batches: list[tuple[AuditRow, ...]] = []
        self.failing = self.untidy = ""
        self.doubtful = False
        self.tried = 0
        self._seen = set[tuple[str, int]]()
        self.go: asyncio.Event | None = None

    async def write(self, batch: AuditBatch) -> None:
        self.tried += 1
        if self.go is not None:
            await self.go.wait()
        if not self.failing or self.doubtful:
            self._keep(batch)
        if self.failing:
            raise AuditFailed(self.where, self.failing)

    def _keep(self, batch: AuditBatch) -> None:
        if (batch.writer, batch.number) not in self._seen:
            self._seen.add((batch.writer, batch.number))
            self.batches.append(batch.rows)

    async def care(self, now_ms: int) -> None:
        assert now_ms > 0
        if self.untidy:
            raise AuditFailed(self.where, self.untidy)


def said(row: AuditRow) -> tuple[str, ...]:
    return row.topic, row.target, row.change, row.name, row.before, row.after, row.outcome


def test_a_row_says_what_was_changed_from_what_to_what_and_why() -> None:
    name = {"topic": "t", "target": "A.t"}
    changes: list[Change] = [
        CreateTopic(**name, partitions=3, replication_factor=2, configs={"retention.ms": "5"}),
        GrowTopic(**name, partitions=3, before=1),
        SetConfig(**name, name="retention.ms", value="5", before="1", overrides=True, why="it differs"),
        DropConfig(**name, name="segment.ms", before="9", why="gone"),
        AddAcl(binding=Binding(2, "A.t", 3, "User:ann", "*", 99, 3), because=Binding(2, "t", 3, "User:ann", "*", 2, 3)),
    ]
    rows = rows_of(RUN, [ChangeOutcome(change=change) for change in changes])
    assert [said(row) for row in rows] == [
        ("t", "A.t", "create_topic", "", "", "3 partitions, 2 replicas retention.ms=5", "done"),
        ("t", "A.t", "grow_topic", "partitions", "1", "3", "done"),
        ("t", "A.t", "set_config", "retention.ms", "1", "5", "done"),
        ("t", "A.t", "drop_config", "segment.ms", "9", "", "done"),
        ("t", "A.t", "add_acl", "ALLOW 99", "", "ALLOW 99 on topic 'A.t' for User:ann from *", "done"),
    ]
    assert {(row.at_ms, row.run, row.flow, row.who) for row in rows} == {(5, "5-abc", "A->B", "ann")}
    assert [row.why for row in rows[2:]] == [
        "it differs",
        "gone",
        "the source has: ALLOW ALL on topic 't' for User:ann from *",
    ]


def test_a_failure_and_a_conflict_say_what_was_in_the_way() -> None:
    change = SetConfig(topic="t", target="A.t", name="x", value="5", before="1", overrides=True, why="it differs")
    conflict = Conflict(topic="t", target="A.t", kind=ConflictKind.PARTITIONS, what="too many")
    failed, left = rows_of(RUN, [ChangeOutcome(change=change, failure="refused")], [conflict])
    assert (failed.outcome, failed.detail) == ("failed", "refused")
    assert said(left) == ("t", "A.t", "conflict", "more partitions", "", "", "left")
    assert left.detail == "too many"


def test_what_was_done_in_part_says_what_is_missing() -> None:
    change = CreateTopic(topic="t", target="A.t", partitions=1, replication_factor=1, configs={})
    (row,) = rows_of(RUN, [ChangeOutcome(change=change, lacks="without config x")])
    assert (row.outcome, row.detail) == ("done", "without config x")


def test_what_discovery_did_is_in_the_trail_too() -> None:
    made, grown, failed = discovered(
        RUN,
        [
            TopicCreated(flow=FLOW, topic="t", target="A.t", partitions=3),
            Mm2Active(flow=FLOW, group="g"),
            TopicCreated(flow=FLOW, topic="t", target="A.t", partitions=5, before=3),
            TopicFailed(flow=FLOW, topic="u", what="no right"),
        ],
    )
    assert said(made) == ("t", "A.t", "create_topic", "partitions", "", "3", "done")
    assert said(grown) == ("t", "A.t", "grow_topic", "partitions", "3", "5", "done")
    assert (failed.topic, failed.outcome, failed.detail) == ("u", "failed", "no right")


def rows(count: int, first: int = 0) -> list[AuditRow]:
    return [RUN.row(topic=f"t{number}", target="", change="x") for number in range(first, first + count)]


async def test_rows_are_written_and_no_longer_waited_for() -> None:
    store = Store()
    trail = AuditTrail(FLOW, "ann", store)
    async with beside(trail.run()):
        trail.add([])
        trail.add(rows(2))
        await until(lambda: bool(store.batches))
        trail.add(rows(1, 2))
        await until(lambda: len(store.batches) == 2)
    assert [row.topic for batch in store.batches for row in batch] == ["t0", "t1", "t2"]
    assert (trail.waiting, trail.take_events()) == (0, ())
    await trail.flush()
    assert len(store.batches) == 2


async def test_a_store_that_fails_is_told_once_and_tried_again_and_nothing_is_lost() -> None:
    store = Store()
    store.failing = "the disk is full"
    trail = AuditTrail(FLOW, "ann", store)
    async with beside(trail.run()):
        trail.add(rows(2))
        await until(lambda: store.tried >= 3)
        trail.add(rows(1, 2))
        store.failing = ""
        await until(lambda: bool(store.batches))
    assert [row.topic for batch in store.batches for row in batch] == ["t0", "t1", "t2"]
    (told,) = trail.take_events()
    assert isinstance(told, AuditUnwritten)
    assert told.text() == (
        "file:/x/audit: 2 rows of the audit trail not written yet: the disk is full; raymirror retries ever less often"
    )


async def test_a_batch_of_which_nobody_knows_is_sent_again_as_it_was_and_what_came_since_behind_it() -> None:
    store = Store()
    store.failing, store.doubtful = "no answer", True
    trail = AuditTrail(FLOW, "ann", store)
    trail.add(rows(2))
    with pytest.raises(AuditFailed, match="no answer"):
        await trail.flush()
    trail.add(rows(1, 2))
    assert trail.waiting == 3
    store.failing = ""
    await trail.flush()
    assert [[row.topic for row in batch] for batch in store.batches] == [["t0", "t1"], ["t2"]]
    assert (store.tried, trail.waiting) == (3, 0)


async def test_trails_of_one_store_are_other_writers() -> None:
    store = Store()
    for _ in range(2):
        trail = AuditTrail(FLOW, "ann", store)
        trail.add(rows(1))
        await trail.flush()
    await store.write(only_batch(rows(1)))
    assert len(store.batches) == 3


async def test_a_store_that_cannot_be_tidied_has_its_rows_and_is_told_of() -> None:
    store = Store()
    store.untidy = "no right to delete"
    trail = AuditTrail(FLOW, "ann", store)
    async with beside(trail.run()):
        trail.add(rows(2))
        await until(lambda: bool(told := trail.take_events()) and told[0].text().startswith("file:/x/audit: no right"))
    assert (len(store.batches), trail.waiting) == (1, 0)


async def test_what_waits_too_long_behind_a_batch_is_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_ROWS", 3)
    store = Store()
    store.failing = "away"
    trail = AuditTrail(FLOW, "ann", store)
    trail.add(rows(2))
    with pytest.raises(AuditFailed, match="away"):
        await trail.flush()
    trail.add(rows(4, 2))
    assert trail.waiting == 5
    store.failing = ""
    await trail.flush()
    assert [[row.topic for row in batch] for batch in store.batches] == [["t0", "t1"], ["t3", "t4", "t5"]]
    assert trail.take_events() == (AuditLost(flow=FLOW, where=Store.where, count=1),)


async def test_a_writing_that_is_cancelled_keeps_its_rows() -> None:
    store = Store()
    store.go = asyncio.Event()
    trail = AuditTrail(FLOW, "ann", store)
    trail.add(rows(1))
    async with beside(trail.flush()):
        await until(lambda: store.tried == 1)
        trail.add(rows(1, 1))
    assert trail.waiting == 2
    store.go.set()
    await trail.flush()
    assert [[row.topic for row in batch] for batch in store.batches] == [["t0"], ["t1"]]


async def test_without_a_store_it_is_said_once_when_there_is_something_to_keep() -> None:
    trail = AuditTrail(FLOW, "ann", None)
    trail.add([])
    assert trail.take_events() == ()
    trail.add(rows(1))
    trail.add(rows(1))
    assert trail.take_events() == (AuditRests(flow=FLOW, key="raymirror.storage"),)
    assert trail.waiting == 0
    await trail.flush()


def test_runs_differ() -> None:
    assert new_run(FLOW, "ann").id != new_run(FLOW, "ann").id


async def test_a_round_is_written_down_and_what_stays_as_it_was_only_once() -> None:
    stage, store = Stage(), Store()
    stage.source.put("orders-1", retention_ms="5")
    stage.source.put("orders-2", retention_ms="5")
    stage.target.put("A.orders-1", 2)
    stage.target.put("A.orders-2")
    stage.source.bindings = {reads("orders-1"), reads("orders-2")}
    stage.target.refused_bindings = {reads("A.orders-2"): "no right"}
    trail = AuditTrail(FLOW, "ann", store)
    made = ConfigSyncLoop(ConfigLoopOptions(flow=FLOW), stage.sync, audit=trail)
    for scope in (Scope(shapes=False), Scope(shapes=False), Scope(shapes=False, acls=False), Scope(shapes=False)):
        await made.round(scope)
        await trail.flush()
    (batch,) = store.batches
    assert sorted((row.change, row.target, row.outcome) for row in batch) == [
        ("add_acl", "A.orders-1", "done"),
        ("add_acl", "A.orders-2", "failed"),
        ("conflict", "A.orders-1", "left"),
        ("set_config", "A.orders-1", "done"),
        ("set_config", "A.orders-2", "done"),
    ]
    assert len({row.run for row in batch}) == 1
    stage.target.refused_bindings = {}
    await made.round(Scope(shapes=False))
    await trail.flush()
    assert [(row.change, row.outcome) for row in store.batches[1]] == [("add_acl", "done")]
    stage.target.refused_bindings = {reads("A.orders-2"): "no right"}
    stage.target.bindings.discard(reads("A.orders-2"))
    await made.round(Scope(shapes=False))
    await trail.flush()
    assert [(row.change, row.outcome) for row in store.batches[2]] == [("add_acl", "failed")]
