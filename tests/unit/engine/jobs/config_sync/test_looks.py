"""Looks that come from executors, against the look of the loop at the same clusters: equal, so their rows are too."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest

from engine.base.parts import parts
from engine.config.settings import ClusterConfig
from engine.flow.config_history.look import pack_look, unpack_look
from engine.flow.config_sync.planning import Scope, merged
from engine.flow.config_sync.round_messages import ClusterIds
from engine.flow.config_sync.sync import ConfigSync
from engine.jobs.config_sync import describe
from engine.jobs.config_sync.describe import CopyRow, TaskInput, TopicRow, describe_copies, describe_sources
from engine.jobs.config_sync.verdict import JoinedRow, unpack_verdict, verdict
from policies.model import FlowName
from tests.fakes.settings import DEFAULTS, FakeSettings
from tests.unit.engine.flow.config_sync.test_planning import options

RULES = options()


class FakeClient:
    """A client that is "connected" to a cluster in memory."""

    def __init__(self, alias: str) -> None:
        self.alias, self.identity, self.id = alias, self, ""


class Clusters:
    """Two clusters with any configs, read by tasks and by the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, random: Random) -> None:
        self.both = {"A": FakeSettings("A"), "B": FakeSettings("B")}
        monkeypatch.setattr(describe, "client_for", lambda cluster, *_: FakeClient(cluster.alias))
        monkeypatch.setattr(describe, "KafkaSettings", lambda client: self.both[client.alias])
        monkeypatch.setattr(describe, "_unfenced", lambda _reach, source, _target: self.both[source.alias])
        monkeypatch.setattr(describe, "opened", self._opened)
        for number in range(30):
            name = f"t{number}"
            self._put(random, "A", name)
            if random.random() < 0.8:
                self._put(random, "B", f"A.{name}")
        for cluster in self.both.values():
            cluster.failing = {name: "denied" for name in cluster.partitions if random.random() < 0.1}
        self.known = {name: {"segment.bytes": "7"} for name in self.both["A"].partitions if random.random() < 0.3}

    def _put(self, random: Random, alias: str, topic: str) -> None:
        own: dict[str, Any] = {name: str(random.randrange(1, 4)) for name in DEFAULTS if random.random() < 0.3}
        self.both[alias].put(topic, **{name.replace(".", "_"): value for name, value in own.items()})

    @asynccontextmanager
    async def _opened(self, *_clients: Any) -> AsyncIterator[None]:
        yield

    def by_tasks(self, tasks: int) -> Any:
        """Describe, join and plan as the Spark job does."""
        task = TaskInput(
            flow=FlowName("A", "B"),
            source=ClusterConfig("A", (("a", 1),)),
            target=ClusterConfig("B", (("b", 1),)),
            ids=ClusterIds(),
            options=RULES,
            whole=True,
        )
        asked = [
            TopicRow(name, 1, 1, msgspec.msgpack.encode(self.known[name]) if name in self.known else b"")
            for name in self.both["A"].partitions
        ]
        source = [row for part in parts(asked, tasks) for row in describe_sources(task, part)]
        read = [row for row in source if not row.why]
        copies = {row.copy: row for part in parts(read, tasks) for row in describe_copies(task, part)}
        rows = [JoinedRow(**{**row._asdict(), **_columns(copies.get(row.copy))}) for row in source]
        found = [list(verdict(RULES, part, whole=True)) for part in parts(rows, tasks)]
        return merged(unpack_verdict(packed) for (packed,) in found)


def _columns(copy: CopyRow | None) -> dict[str, Any]:
    return dict.fromkeys(CopyRow._fields[1:]) if copy is None else {**copy._asdict()}


@pytest.mark.parametrize("seed", range(10))
def test_tasks_see_what_the_loop_sees(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    clusters = Clusters(monkeypatch, random)
    sync = ConfigSync(RULES, clusters.both["A"], clusters.both["B"])
    sync.known = dict(clusters.known)
    loop = asyncio.run(sync.compare(Scope(acls=False, shapes=False, left=True)))
    spark = clusters.by_tasks(tasks=random.choice((4, 11, 30)))
    assert loop.look is not None
    assert spark.look == loop.look
    assert unpack_look(pack_look(spark.look)) == loop.look
    assert loop.look.source.topics
    assert loop.look.copies.unread
    assert set(loop.look.source.defaults) == set(DEFAULTS)
    assert spark.plan.changes == loop.changes
    assert spark.known == sync.known
