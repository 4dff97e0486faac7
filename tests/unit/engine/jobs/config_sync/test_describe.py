"""What tasks of executors read, without sockets: clusters in memory behind the engine's own classes."""

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from engine.base.errors import BrokerUnreachable
from engine.config.settings import ClusterConfig
from engine.flow.config_sync.reading import ComparedAcls
from engine.flow.config_sync.round_messages import ClusterIds
from engine.jobs.config_sync import describe
from engine.jobs.config_sync.describe import (
    CopyRow,
    Packer,
    SourceRow,
    TaskInput,
    TopicRow,
    describe_acls,
    describe_copies,
    describe_sources,
    topics_of,
    unpack_configs,
    unpack_known,
)
from policies.model import FlowName
from policies.sync.topic_configs import TOPIC_OVERRIDE, ConfigEntry
from tests.fakes.settings import FakeSettings
from tests.unit.engine.flow.config_sync.test_planning import options
from tests.unit.engine.flow.config_sync.test_sync import reads


class FakeClient:
    """A client that is "connected" to a cluster in memory."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.identity = self
        self.id = f"id-of-{alias}"


class Stage:
    """Two clusters, and the way to them from a task."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clusters = {"A": FakeSettings("A"), "B": FakeSettings("B")}
        self.opened: list[str] = []
        self.reach = TaskInput(
            flow=FlowName("A", "B"),
            source=ClusterConfig("A", (("a", 1),), {"sasl.jaas.config": 'x password="secret";'}),
            target=ClusterConfig("B", (("b", 1),)),
            ids=ClusterIds("id-of-A", ""),
            options=options(),
        )
        monkeypatch.setattr(describe, "client_for", lambda cluster, _client_id, _tuning: FakeClient(cluster.alias))
        monkeypatch.setattr(describe, "KafkaSettings", lambda client: self.clusters[client.alias])
        monkeypatch.setattr(describe, "_unfenced", lambda _reach, source, _target: self.clusters[source.alias])
        monkeypatch.setattr(describe, "opened", self._opened)

    @asynccontextmanager
    async def _opened(self, *clients: Any) -> AsyncIterator[None]:
        self.opened += [client.alias for client in clients]
        yield


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(monkeypatch)
    made.clusters["A"].put("orders", 3, retention_ms="5")
    made.clusters["A"].put("plain", 1)
    made.clusters["B"].put("A.orders", 2, retention_ms="6", segment_bytes="7")
    return made


def described(stage: Stage, *rows: TopicRow) -> dict[str, SourceRow]:
    return {row.topic: row for row in describe_sources(stage.reach, rows)}


def row(topic: str, **known: str) -> TopicRow:
    names = {name.replace("_", "."): value for name, value in known.items()}
    return TopicRow(topic, 3, 1, msgspec.msgpack.encode(names) if names else b"")


async def test_the_topics_that_are_copied_are_listed(stage: Stage) -> None:
    assert list(await topics_of(stage.reach)) == ["orders", "plain"]


def test_of_a_source_topic_only_what_its_copy_gets_travels(stage: Stage) -> None:
    stage.clusters["A"].failing["plain"] = "denied"
    found = described(stage, row("orders", segment_bytes="7"), row("plain"))
    assert unpack_configs(found["orders"].configs) == {"retention.ms": ConfigEntry("5", TOPIC_OVERRIDE, False, False)}
    assert (found["orders"].copy, found["orders"].partitions, found["orders"].why) == ("A.orders", 3, "")
    assert unpack_known(found["orders"].known) == {"segment.bytes": "7"}
    assert (found["plain"].why, found["plain"].configs) == ("denied", b"")


def test_of_a_copy_only_what_can_matter_is_asked(stage: Stage) -> None:
    sources = described(stage, row("orders", segment_bytes="7"), row("plain"))
    asked: list[str] = []
    stage.clusters["B"].before = asked.append
    copy, missing = describe_copies(stage.reach, sources.values())
    assert missing == CopyRow("A.plain", 0, 0, b"", ""), "a copy that does not exist has a row too"
    assert (copy.copy, copy.copy_partitions, copy.copy_why) == ("A.orders", 2, "")
    assert {name: one.value for name, one in unpack_configs(copy.copy_configs).items()} == {
        "retention.ms": "6",
        "segment.bytes": "7",
    }
    assert asked == ["topics", "configs"]
    stage.clusters["B"].put("A.plain")
    asked.clear()
    (copy,) = describe_copies(stage.reach, [sources["plain"]])
    assert (unpack_configs(copy.copy_configs), asked) == ({}, ["topics"]), "nothing of it can matter"


def test_foreign_overrides_are_read_where_they_are_removed(stage: Stage) -> None:
    stage.reach = msgspec.structs.replace(stage.reach, options=options(remove_foreign=True))
    (copy,) = describe_copies(stage.reach, described(stage, row("orders")).values())
    assert len(unpack_configs(copy.copy_configs)) > 2


def test_a_copy_that_may_not_be_read_says_so(stage: Stage) -> None:
    stage.clusters["B"].failing["A.orders"] = "denied"
    (copy,) = describe_copies(stage.reach, described(stage, row("orders")).values())
    assert copy.copy_why == "denied"


def test_a_cluster_that_is_away_is_a_row_and_not_a_task_that_spark_repeats(stage: Stage) -> None:
    def away(_asked: str) -> None:
        raise BrokerUnreachable("a:1", "refused")

    sources = list(described(stage, row("orders")).values())
    for cluster in stage.clusters.values():
        cluster.before = away
    (source,) = describe_sources(stage.reach, [row("orders")])
    assert (source.topic, "a:1" in source.why) == ("", True)
    (copy,) = describe_copies(stage.reach, sources)
    assert copy == CopyRow("", 0, 0, b"", copy.copy_why)
    assert "a:1" in copy.copy_why
    ((packed, why),) = describe_acls(stage.reach, ["orders"])
    assert (packed, "a:1" in why) == (b"", True)


def test_another_cluster_than_metadata_writes_to_is_refused(stage: Stage) -> None:
    stage.reach = msgspec.structs.replace(stage.reach, ids=ClusterIds("id-of-A", "other"))
    sources = list(described(stage, row("orders")).values())
    assert sources[0].topic == "orders"
    (copy,) = describe_copies(stage.reach, sources)
    assert copy.copy == ""
    assert "connected to cluster other" in copy.copy_why


def test_acls_are_compared(stage: Stage) -> None:
    stage.clusters["A"].bindings = {reads()}
    ((packed, why),) = describe_acls(stage.reach, ["orders"])
    assert why == ""
    (change,) = msgspec.msgpack.decode(packed, type=ComparedAcls).plan.changes
    assert change.binding == reads("A.orders")
    assert stage.opened == ["A", "B"]


def test_a_timeout_without_words_is_named(stage: Stage) -> None:
    async def slow() -> None:
        raise TimeoutError

    assert describe._asked(slow) == "TimeoutError"


def test_topics_with_the_same_configs_share_bytes() -> None:
    configs = {"b": ConfigEntry("1", 1, False, False), "a": ConfigEntry("2", 1, False, False)}
    packer = Packer()
    assert packer.pack(configs, ("a", "b")) is packer.pack(configs, ("b", "a"))
    assert list(unpack_configs(packer.pack(dict(configs), ("b", "x")))) == ["b"]


def test_no_secret_is_in_what_is_printed_of_a_task(stage: Stage) -> None:
    assert "secret" not in repr(stage.reach)


def test_a_task_survives_the_way_to_an_executor(stage: Stage) -> None:
    sent = pickle.loads(pickle.dumps(stage.reach))
    assert sent.options.acls.selection.target_topic("t") == "A.t"
    assert sent.source == stage.reach.source
