"""MM2's integration tests of topic configs, by the rounds of a mirror, on real clusters."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engine.config.config import load_config
from engine.services.config_service import ConfigService
from tests.conftest import Pair
from tests.harness.admin import create_topics, own_configs, set_configs
from tests.harness.beside import beside
from tests.harness.eventually import until_equal
from tests.harness.live import write_properties

pytestmark = pytest.mark.integration

EXCLUDE = "config.properties.exclude"


@asynccontextmanager
async def rounds(pair: Pair, folder: Path, alias: str, settings: Mapping[str, str]) -> AsyncIterator[ConfigService]:
    """Keep configs of the flow ALIAS->b in step, once a second."""
    clusters = {alias: pair.source, "b": pair.target}
    given = {f"{alias}->b.{key}": value for key, value in settings.items()}
    given |= {"sync.topic.configs.interval.seconds": "1", "sync.topic.acls.enabled": "false"}
    config = load_config(write_properties(folder / "mm2.properties", clusters, {f"{alias}->b": f"{alias}-.*"}, given))
    keeper = ConfigService(config, config.flows[0])
    try:
        async with beside(keeper.run()):
            yield keeper
    finally:
        await keeper.close()


async def until_own(pair: Pair, topic: str, wanted: Mapping[str, str]) -> None:
    """Wait until a copy has these configs of its own, and no others."""

    async def own() -> dict[str, str]:
        return (await own_configs(pair.target, [topic]))[topic]

    await until_equal(own, dict(wanted))


async def until_looked(keeper: ConfigService) -> None:
    """Wait for a round that began from now on."""
    before = keeper.report.at_ms

    async def later() -> bool:
        return keeper.report.at_ms > before

    for _ in range(2):  # the first to end may have begun before
        await until_equal(later, True)
        before = keeper.report.at_ms


async def test_what_is_altered_on_the_copy_is_set_back_but_for_what_is_excluded(
    cluster_pair: Pair, tmp_path: Path
) -> None:
    pair, topic = cluster_pair, "back-t"
    configs = {"delete.retention.ms": "1000", "retention.bytes": "1000", "max.message.bytes": "100000"}
    await create_topics(pair.source, {topic: 1}, configs=configs)
    await create_topics(pair.target, {f"back.{topic}": 1})
    async with rounds(pair, tmp_path, "back", {EXCLUDE: r"delete\\.retention\\..*"}):
        copied = {"retention.bytes": "1000", "max.message.bytes": "100000"}
        await until_own(pair, f"back.{topic}", copied)
        await set_configs(pair.target, f"back.{topic}", {"delete.retention.ms": "2000", "retention.bytes": "2000"})
        await until_own(pair, f"back.{topic}", {**copied, "delete.retention.ms": "2000"})


async def test_defaults_of_the_source_win_where_they_are_asked_for(cluster_pair: Pair, tmp_path: Path) -> None:
    pair, topic = cluster_pair, "wins-t"
    await create_topics(pair.source, {topic: 1})
    own = {"retention.bytes": "2000", "delete.retention.ms": "2000"}
    await create_topics(pair.target, {f"wins.{topic}": 1}, configs=own)
    settings = {"use.defaults.from": "source", EXCLUDE: r"delete\\.retention\\..*"}
    async with rounds(pair, tmp_path, "wins", settings):
        await until_own(pair, f"wins.{topic}", {"retention.bytes": "-1", "delete.retention.ms": "2000"})


async def test_a_config_that_the_source_loses_goes_back_to_the_targets_default(
    cluster_pair: Pair, tmp_path: Path
) -> None:
    pair, topic = cluster_pair, "loses-t"
    configs = {"retention.bytes": "1000", "segment.bytes": "2000000"}
    await create_topics(pair.source, {topic: 1}, configs=configs)
    await create_topics(pair.target, {f"loses.{topic}": 1}, configs={"cleanup.policy": "compact"})
    async with rounds(pair, tmp_path, "loses", {}) as keeper:
        await until_own(pair, f"loses.{topic}", {**configs, "cleanup.policy": "compact"})
        await set_configs(pair.source, topic, {"segment.bytes": "2000000"})
        left = {"segment.bytes": "2000000", "cleanup.policy": "compact"}
        await until_own(pair, f"loses.{topic}", left)
        await until_looked(keeper)
        changes = keeper.report.changes
        await until_looked(keeper)
        assert keeper.report.changes == changes == 3, "a round with nothing to do wrote something"
        await until_own(pair, f"loses.{topic}", left)


async def test_only_the_copies_own_go_where_mm2s_way_is_asked_for(cluster_pair: Pair, tmp_path: Path) -> None:
    pair, topic = cluster_pair, "ways-t"
    await create_topics(pair.source, {topic: 1}, configs={"retention.bytes": "1000"})
    own = {"retention.bytes": "2000", "segment.bytes": "2000000", "min.insync.replicas": "1"}
    await create_topics(pair.target, {f"ways.{topic}": 1}, configs=own)
    async with rounds(pair, tmp_path, "ways", {"raymirror.sync.configs.foreign": "remove"}):
        await until_own(pair, f"ways.{topic}", {"retention.bytes": "1000", "min.insync.replicas": "1"})
