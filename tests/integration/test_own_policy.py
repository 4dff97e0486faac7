"""A policy and filters of a Python package on real brokers: names of copies, and what is chosen."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from engine.checks.preflight import preview
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.plugins import loading
from engine.services.topic_service import TopicService
from tests.conftest import Pair
from tests.harness.admin import create_topics, partition_count

pytestmark = pytest.mark.integration

CLASSES = "tests.unit.policies.own.own_classes"


@pytest.fixture(autouse=True)
def _provided(monkeypatch: pytest.MonkeyPatch) -> None:
    found = EntryPoints(EntryPoint(name, f"{CLASSES}:{name}", loading.GROUP) for name in ("Suffixed", "Chosen"))
    monkeypatch.setattr(loading, "entry_points", found.select)


async def test_topics_are_chosen_and_named_by_a_package(cluster_pair: Pair) -> None:
    text = (
        f"clusters = own, b\nown.bootstrap.servers = {cluster_pair.source.bootstrap_servers}\n"
        f"b.bootstrap.servers = {cluster_pair.target.bootstrap_servers}\nown->b.enabled = true\n"
        "replication.policy.class = Suffixed\ntopic.filter.class = Chosen\nown->b.my.begin = chosen-\n"
        "own->b.emit.offset-syncs.enabled = false\nreplication.factor = 1\nemit.heartbeats.enabled = false\n"
        "offset.storage.partitions = 2\noffset.storage.replication.factor = 1\n"
    )
    config = read_config(parse_properties(text, "mm2.properties"))
    assert config.warnings == ()
    await create_topics(cluster_pair.source, {"chosen-1": 2, "other-1": 1})
    (shown,) = await preview(config)
    assert [(one.source, one.target) for one in shown.topics] == [("chosen-1", "chosen-1-of-own")]
    service = TopicService(config, config.flows[0])
    await service.open()
    try:
        lanes = (await service.step()).lanes
        lanes = lanes or (await service.step()).lanes
    finally:
        await service.close()
    assert {lane.target.topic for lane in lanes} == {"chosen-1-of-own"}
    assert await partition_count(cluster_pair.target, "chosen-1-of-own") == 2
