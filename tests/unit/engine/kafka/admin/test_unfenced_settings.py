"""Settings as they are mirrored: what operations have lent to topics of a cluster is shown as it was before."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.base.errors import KafkaRefusal
from engine.flow.operations.reading import lent_by
from engine.flow.topic_logs.lent_log import LentLog
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.admin.unfenced_settings import UnfencedSettings
from engine.kafka.client.cluster import ClusterClient
from engine.state.state import DESIRED, DesiredState, StateCodec, state_topic
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.lent_config import LENT_NOTES, LENT_STEP, LentConfig
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import aborting, begun, done, finished, undoing, undone
from policies.model import FlowName
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
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

    async def topics(_self: Any, _names: None) -> dict[str, None]:
        return dict.fromkeys([cluster_topic.topic for cluster_topic in clusters.clusters[side].targets])

    monkeypatch.setattr(KafkaSettings, "configs", configs)
    monkeypatch.setattr(KafkaSettings, "topics", topics)
    side, other = (FlowSide.SOURCE, FlowSide.TARGET) if flow == FORWARD else (FlowSide.TARGET, FlowSide.SOURCE)
    return UnfencedSettings(None, clusters.clusters[side], clusters.clusters[other], flow)  # type: ignore[arg-type]


async def test_an_open_failback_has_lent_from_before_the_first_change_until_its_end() -> None:
    clusters = Clusters()

    async def lent() -> tuple[LentConfig, ...]:
        assert await lent_by(clusters.clusters[FlowSide.TARGET], state_topic("A")) == (), "nothing is lent on B"
        return await lent_by(clusters.clusters[FlowSide.SOURCE], state_topic("B"))

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


@pytest.mark.parametrize("flow", [FlowName("A", "C"), FlowName("B", "C")])
async def test_what_is_lent_goes_to_no_third_cluster(flow: FlowName, monkeypatch: pytest.MonkeyPatch) -> None:
    clusters, there = Clusters(), FakeSettings(flow.source)
    there.put("keys", cleanup_policy="compact", delete_retention_ms=TOMBSTONES.value)
    there.put("t", retention_ms="-1")
    settings = shown(there, clusters, FORWARD if flow.source == "A" else BACK, monkeypatch)
    settings._flow = flow
    log = LentLog(clusters.clusters[FlowSide.TARGET], FORWARD, 5.0)
    await log.note([TOMBSTONES])
    await log.close()
    async with clusters.opened() as store:
        one = await store.claim(new(kind="failback"), "ann")
        await store.save(begun(one, LENT_STEP, 1), {LENT_NOTES: [ENDLESS]})
        found = (await settings.configs({"t": None, "keys": None})).found
    seen = found["t"]["retention.ms"].value, found["keys"]["delete.retention.ms"].value
    assert seen == (("5000", TOMBSTONES.value) if flow.source == "A" else ("-1", "86400000"))


async def test_a_fence_goes_to_no_third_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters, here = Clusters(), FakeSettings("A")
    fence = Binding(Resource.TOPIC, "t", Pattern.LITERAL, "User:shop", "*", Operation.WRITE, Permission.DENY)
    theirs = fence._replace(principal="User:other")
    here.bindings = {fence, theirs}
    settings = shown(here, clusters, FORWARD, monkeypatch)
    settings._flow, settings._client = FlowName("A", "C"), cast("ClusterClient", SimpleNamespace(alias="A"))
    settings._target = FakeCluster("C")

    async def acls(_self: KafkaSettings, resource: Resource) -> set[Binding]:
        return await here.acls(resource)

    monkeypatch.setattr(KafkaSettings, "acls", acls)
    async with clusters.opened() as store:
        one = await store.claim(new(), "ann")
        one = await store.save(begun(one, "fence", 1), {FENCE_NOTES: [FenceRow(fence)]})
        assert await settings.acls(Resource.TOPIC) == {theirs}
        await store.save(undone(one, "fence", 2, {}))
        assert await settings.acls(Resource.TOPIC) == {fence, theirs}, "somebody else has made it since"


async def test_states_that_may_not_be_read_lend_nothing_unless_they_are_of_the_flow_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters, there = Clusters(), FakeSettings("B")
    there.put("t", retention_ms="-1")
    settings = shown(there, clusters, BACK, monkeypatch)

    def denied(_asked: str, _partitions: object) -> None:
        raise KafkaRefusal("reading", 29, "TopicAuthorizationFailed", "grant Read")

    clusters.clusters[FlowSide.TARGET].fail = denied
    with pytest.raises(KafkaRefusal, match="grant Read"):
        await settings.configs({"t": None})
    settings._flow = FlowName("B", "C")
    assert (await settings.configs({"t": None})).found["t"]["retention.ms"].value == "-1"


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
