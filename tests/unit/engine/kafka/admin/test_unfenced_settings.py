"""Settings as they are mirrored: what operations have lent to topics of a cluster is shown as it was before."""

from typing import Any

import pytest

from engine.flow.operations.reading import lent_on
from engine.flow.topic_logs.lent_log import LentLog
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.admin.unfenced_settings import UnfencedSettings
from engine.state.state import DESIRED, DesiredState, StateCodec, state_source, state_topic
from policies.dr.lent_config import LENT_NOTES, LENT_STEP, LentConfig
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import aborting, begun, done, finished, undoing, undone
from policies.model import FlowName
from policies.sync.topic_configs import DEFAULT, ConfigEntry
from tests.fakes.cluster import FakeCluster
from tests.fakes.settings import FakeSettings
from tests.unit.engine.flow.operations.staged import Clusters, new

FORWARD, BACK = FlowName("A", "B"), FlowName("B", "A")
ENDLESS = LentConfig(topic="t", name="retention.ms", before="5000", value="-1")
TOMBSTONES = LentConfig(
    topic="keys",
    name="delete.retention.ms",
    before=None,
    value="2592000000",
    inherited=ConfigEntry("86400000", DEFAULT, False, False),
)


def shown(there: FakeSettings, clusters: Clusters, flow: FlowName, monkeypatch: pytest.MonkeyPatch) -> UnfencedSettings:
    """Return the settings of a flow's source, whose brokers are a fake."""

    async def configs(_self: Any, topics: Any) -> Any:
        return await there.configs(topics)

    async def topics(_self: Any, _names: Any) -> Any:
        return {where.topic: None for one in clusters.clusters.values() for where in one.leader}

    monkeypatch.setattr(KafkaSettings, "configs", configs)
    monkeypatch.setattr(KafkaSettings, "topics", topics)
    side, other = (FlowSide.SOURCE, FlowSide.TARGET) if flow == FORWARD else (FlowSide.TARGET, FlowSide.SOURCE)
    return UnfencedSettings(None, clusters.clusters[side], clusters.clusters[other], flow)  # type: ignore[arg-type]


async def test_an_open_failback_has_lent_from_before_the_first_change_until_its_end() -> None:
    clusters = Clusters()

    async def lent() -> tuple[LentConfig, ...]:
        assert await lent_on(clusters.clusters[FlowSide.TARGET], FORWARD) == (), "nothing is lent to topics of B"
        return await lent_on(clusters.clusters[FlowSide.SOURCE], BACK)

    async with clusters.opened() as store:
        one = await store.claim(new(kind="failback"), "ann")
        assert await lent() == ()
        one = await store.save(begun(one, LENT_STEP, 1), {LENT_NOTES: [ENDLESS]})
        assert await lent() == (ENDLESS,)
        one = await store.save(begun(done(one, LENT_STEP, 2, {}), "close", 3))
        assert await lent() == (ENDLESS,), "a killed close may have restored nothing yet"
        await store.save(finished(done(one, "close", 4, {}), 4))
        assert await lent() == ()
        two = await store.claim(new("2", kind="failback", began_ms=5000), "ann")
        two = await store.save(begun(two, LENT_STEP, 1), {LENT_NOTES: [ENDLESS]})
        two = await store.save(undoing(aborting(two, ""), LENT_STEP))
        assert await lent() == (ENDLESS,)
        await store.save(undone(two, LENT_STEP, 6, {}))
        assert await lent() == ()


async def test_the_endless_retention_of_a_failback_is_not_mirrored(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters, here = Clusters(), FakeSettings("A")
    here.put("t", retention_ms="-1")
    here.put("archive", retention_ms="-1")
    settings = shown(here, clusters, FORWARD, monkeypatch)
    async with clusters.opened() as store:
        one = await store.claim(new(kind="failback"), "ann")
        await store.save(begun(one, LENT_STEP, 1), {LENT_NOTES: [ENDLESS]})
        found = (await settings.configs({"t": None, "archive": None})).found
    assert (found["t"]["retention.ms"].value, found["archive"]["retention.ms"].value) == ("5000", "-1")


async def test_what_a_failback_has_lent_is_not_mirrored_to_a_third_cluster_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters, here = Clusters(), FakeSettings("A")
    here.put("t", retention_ms="-1")
    settings = shown(here, clusters, FORWARD, monkeypatch)
    settings._flow = FlowName("A", "C")
    settings._target = FakeCluster("C")
    async with clusters.opened() as store:
        one = await store.claim(new(kind="failback"), "ann")
        await store.save(begun(one, LENT_STEP, 1), {LENT_NOTES: [ENDLESS]})
        found = (await settings.configs({"t": None})).found
    assert found["t"]["retention.ms"].value == "5000"


def test_a_state_topic_names_the_other_cluster() -> None:
    assert [state_source(topic) for topic in (state_topic("B"), "raymirror-state..internal", "t", "B.internal")] == [
        "B",
        "",
        "",
        "",
    ]


async def test_raised_tombstones_of_a_failover_are_not_mirrored(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters, there = Clusters(), FakeSettings("B")
    there.put("keys", cleanup_policy="compact", delete_retention_ms=TOMBSTONES.value)
    settings = shown(there, clusters, BACK, monkeypatch)
    log = LentLog(clusters.clusters[FlowSide.TARGET], FORWARD, 5.0)
    assert (await settings.configs({"keys": None})).found["keys"]["delete.retention.ms"].value == TOMBSTONES.value
    await log.note([TOMBSTONES])
    assert await log.read() == (TOMBSTONES,)
    assert (await settings.configs({"keys": None})).found["keys"]["delete.retention.ms"] == TOMBSTONES.inherited
    await log.forget([TOMBSTONES])
    assert await log.read() == ()
    await log.close()


async def test_only_a_flow_that_is_wanted_to_run_is_copied() -> None:
    clusters = Clusters()
    log, topic = LentLog(clusters.clusters[FlowSide.TARGET], FORWARD, 5.0), state_topic("A")
    codec = StateCodec(FORWARD, topic)
    wanted = [("paused", False), ("stopped", False), ("running", True)]
    assert not await log.is_copied()
    for state, is_copied in wanted:
        stored = codec.decode(codec.encode({DESIRED: DesiredState(state=state)}).items())  # type: ignore[arg-type]
        log.entries = _answers(stored)  # type: ignore[method-assign]
        assert await log.is_copied() is is_copied
    await log.close()


def _answers(stored: Any) -> Any:
    async def entries(codec: object = None) -> Any:
        assert codec is not None, "the entries of the flow's mirror, not those that are lent"
        return stored

    return entries
