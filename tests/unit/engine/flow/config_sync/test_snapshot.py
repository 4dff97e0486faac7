"""Snapshots of both clusters: requests about the copies, in parts, and values that are not reported."""

from collections.abc import Mapping

import pytest

from engine.flow.config_sync import snapshot as config_snapshot
from engine.flow.config_sync.snapshot import Names, Snapshots
from engine.flow.ports.ports import Answers
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from policies.sync.topic_configs import ConfigEntry, ConfigRules, WantedConfigs
from tests.fakes.settings import DEFAULTS, FakeSettings


class Watched(FakeSettings):
    """A cluster that remembers what it was asked."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: list[dict[str, Names]] = []

    async def configs(self, topics: Mapping[str, Names]) -> Answers[dict[str, ConfigEntry]]:
        self.asked.append(dict(topics))
        return await super().configs(topics)


class Stage:
    """Two clusters and what takes snapshots of them."""

    def __init__(self) -> None:
        self.source, self.target = Watched("A"), Watched("B")
        selection = TopicSelection(FlowName("A", "B"), DefaultNaming())
        self.snapshots = Snapshots(self.source, self.target, selection)

    async def take(
        self, known: Mapping[str, Mapping[str, str]] | None = None, *, whole: bool = False
    ) -> config_snapshot.Snapshot:
        return await self.snapshots.take(
            await self.source.topics(None), known or {}, WantedConfigs(ConfigRules()), whole=whole
        )


async def test_of_copies_only_what_can_matter_is_asked() -> None:
    stage = Stage()
    stage.source.put("own", retention_ms="5", min_insync_replicas="2")  # the second is not carried over
    stage.source.put("had")
    stage.source.put("plain")
    for name in ("own", "had", "plain"):
        stage.target.put(f"A.{name}", cleanup_policy="compact")
    taken = await stage.take({"had": {"segment.bytes": "7"}, "own": {"cleanup.policy": "delete"}})
    assert stage.target.asked == [{"A.own": ("cleanup.policy", "retention.ms"), "A.had": ("segment.bytes",)}]
    assert {name: sorted(one.configs) for name, one in taken.target.items()} == {
        "A.own": ["cleanup.policy", "retention.ms"],
        "A.had": ["segment.bytes"],
        "A.plain": [],
    }
    assert taken.source["plain"].configs.keys() == DEFAULTS.keys()
    stage.target.asked.clear()
    taken = await stage.take(whole=True)
    assert stage.target.asked == [{"A.own": None, "A.had": None, "A.plain": None}]
    assert taken.target["A.plain"].configs.keys() == DEFAULTS.keys()


async def test_topics_are_asked_for_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_snapshot, "TOPICS_AT_ONCE", 3)
    stage = Stage()
    names = [f"t-{number}" for number in range(20)]
    for name in names:
        stage.source.put(name, retention_ms="5")
        stage.target.put(f"A.{name}")
    taken = await stage.take()
    assert sorted(map(len, stage.source.asked)) == sorted(map(len, stage.target.asked)) == [2, 3, 3, 3, 3, 3, 3]
    assert sorted(taken.source) == sorted(names)
    assert sorted(taken.target) == sorted(f"A.{name}" for name in names)


async def test_what_is_not_told_is_named_and_what_is_not_there_is_not() -> None:
    stage = Stage()
    for name in ("good", "dark", "copy-dark", "new"):
        stage.source.put(name, retention_ms="5")
        if name != "new":
            stage.target.put(f"A.{name}")
    stage.source.failing["dark"] = stage.target.failing["A.copy-dark"] = "TopicAuthorizationFailed"
    taken = await stage.take()
    assert taken.unread == {"dark": "TopicAuthorizationFailed", "A.copy-dark": "TopicAuthorizationFailed"}
    assert sorted(taken.source) == ["copy-dark", "good", "new"]
    assert sorted(taken.target) == ["A.dark", "A.good"]
