"""Config sync against clusters in memory: what it reads and writes, and failures of single changes."""

from collections.abc import Mapping

import pytest

from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.flow.config_sync.planning import ConfigSyncOptions, Scope
from engine.flow.config_sync.sync import ConfigSync
from policies.groups import GroupSelection
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from policies.sync import topic_configs
from policies.sync.acl_sync import AclRules, AddAcl, Binding, Operation, Permission, Resource
from policies.sync.config_sync import CreateTopic, DropConfig, GrowTopic, SetConfig
from policies.sync.topic_configs import ConfigEntry, ConfigRules
from tests.fakes.settings import FakeSettings

FLOW = FlowName("A", "B")
ALL = Scope()
LOOP = Scope(shapes=False)


def reads(name: str = "orders", principal: str = "User:ann", resource: int = Resource.TOPIC) -> Binding:
    return Binding(int(resource), name, 3, principal, "*", int(Operation.READ), int(Permission.ALLOW))


class Stage:
    """Two clusters and the sync between them."""

    def __init__(
        self,
        *,
        rules: ConfigRules | None = None,
        groups: GroupSelection | None = None,
        topics: str = "orders.*",
        within_one: bool = False,
    ) -> None:
        self.source, self.target = FakeSettings("A"), FakeSettings("B")
        acls = AclRules(selection=TopicSelection(FLOW, DefaultNaming(), [topics]), groups=groups)
        options = ConfigSyncOptions(
            replication_factor=1, configs=rules or ConfigRules(), acls=acls, within_one=within_one
        )
        self.sync = ConfigSync(options, self.source, self.target)

    async def step(self, scope: Scope = ALL) -> list[str]:
        """Look and apply; return what failed."""
        looked = await self.sync.compare(scope)
        return [one.failure for one in await self.sync.apply(looked.changes) if one.failure]


async def test_all_is_brought_in_step_and_then_nothing_is_written() -> None:
    stage = Stage()
    stage.source.put("orders", 3, retention_ms="5")
    stage.source.put("orders-2", 2, retention_ms="6")
    stage.source.put("clicks", 1, retention_ms="7")
    stage.target.put("A.orders-2", 1)
    stage.source.bindings = {reads()}
    looked = await stage.sync.compare(ALL)
    assert [type(change) for change in looked.changes] == [CreateTopic, GrowTopic, SetConfig, AddAcl]
    assert stage.target.writes == []
    assert await stage.step() == []
    assert stage.target.own == {"A.orders": {"retention.ms": "5"}, "A.orders-2": {"retention.ms": "6"}}
    assert stage.target.partitions == {"A.orders": 3, "A.orders-2": 2}
    assert stage.target.bindings == {reads("A.orders")}
    written = len(stage.target.writes)
    assert written == 4
    assert await stage.step() == []
    assert (await stage.sync.compare(ALL)).changes == ()
    assert len(stage.target.writes) == written


async def test_within_one_cluster_nothing_is_made_that_would_be_copied_again() -> None:
    looping, plain = Stage(topics=".*", within_one=True), Stage(topics="orders.*", within_one=True)
    for stage in (looping, plain):
        stage.source.put("orders", 1)
        assert await stage.step() == []
    assert (looping.target.partitions, plain.target.partitions) == ({}, {"A.orders": 1})


async def test_what_copies_are_to_have_is_worked_out_once_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out = []

    def wanted_configs(configs: Mapping[str, ConfigEntry], rules: ConfigRules) -> dict[str, str]:
        worked_out.append(configs)
        return plainly(configs, rules)

    plainly = topic_configs.wanted_configs
    monkeypatch.setattr(topic_configs, "wanted_configs", wanted_configs)
    stage = Stage()
    stage.source.put("orders", 3, retention_ms="5")
    stage.target.put("A.orders", 3)
    for looks in (1, 2):
        await stage.step(LOOP)
        assert len(worked_out) == looks


async def test_a_mirrors_loop_leaves_topics_and_partitions_to_discovery() -> None:
    stage = Stage()
    stage.source.put("orders", 3, retention_ms="5")
    stage.source.put("orders-2", 2, retention_ms="6")
    stage.target.put("A.orders-2", 1)
    assert await stage.step(LOOP) == []
    assert stage.target.writes == ["A.orders-2: retention.ms=6"]
    assert stage.target.partitions == {"A.orders-2": 1}


async def test_only_what_is_asked_for_is_asked() -> None:
    stage = Stage()
    stage.source.put("orders", retention_ms="5")
    stage.target.put("A.orders")
    stage.source.bindings = {reads()}
    asked: list[str] = []
    stage.source.before = stage.target.before = asked.append
    assert len((await stage.sync.compare(Scope(acls=False))).changes) == 1
    assert "acls" not in asked
    asked.clear()
    assert len((await stage.sync.compare(Scope(configs=False))).changes) == 1
    assert "configs" not in asked


async def test_what_is_taken_away_on_the_source_goes_while_we_look_on() -> None:
    stage = Stage()
    stage.source.put("orders", retention_ms="5", segment_bytes="7")
    stage.target.put("A.orders", cleanup_policy="compact")
    await stage.step()
    del stage.source.own["orders"]["segment.bytes"]
    stage.target.failing["A.orders"] = "ClusterAuthorizationFailed"
    assert (await stage.sync.compare(ALL)).unread == {"A.orders": "ClusterAuthorizationFailed"}
    stage.target.failing.clear()
    (change,) = (await stage.sync.compare(ALL)).changes
    assert isinstance(change, DropConfig)
    (again,) = (await stage.sync.compare(ALL)).changes  # it was not applied: it is still to be done
    assert again == change
    assert await stage.step() == []
    assert stage.target.own["A.orders"] == {"cleanup.policy": "compact", "retention.ms": "5"}


async def test_without_memory_it_stays() -> None:
    stage = Stage()
    stage.source.put("orders")
    stage.target.put("A.orders", segment_bytes="7")
    looked = await stage.sync.compare(Scope(left=True))
    assert (looked.changes, [left.name for left in looked.left]) == ((), ["segment.bytes"])


async def test_one_failure_does_not_stop_the_rest() -> None:
    stage = Stage()
    for topic in ("orders", "orders-2", "orders-3"):
        stage.source.put(topic, retention_ms="5")
        stage.target.put(f"A.{topic}")
    stage.source.failing["orders-3"] = "TopicAuthorizationFailed"
    stage.source.bindings = {reads(), reads("orders-2")}
    stage.target.refused_bindings = {reads("A.orders"): "denied"}
    looked = await stage.sync.compare(ALL)
    assert looked.unread == {"orders-3": "TopicAuthorizationFailed"}
    stage.target.failing["A.orders-2"] = "PolicyViolation"
    failed = [one for one in await stage.sync.apply(looked.changes) if one.failure]
    assert [one.failure for one in failed] == ["PolicyViolation", "denied"]
    assert stage.target.own["A.orders"] == {"retention.ms": "5"}
    assert stage.target.bindings == {reads("A.orders-2")}


@pytest.mark.parametrize(
    ("question", "failure"),
    [
        ("create", ConnectionLost("b:1")),
        ("grow", KafkaRefusal("adding partitions", 37, "InvalidPartitions", "")),
    ],
)
async def test_a_request_that_fails_is_the_failure_of_its_changes(question: str, failure: Exception) -> None:
    stage = Stage()
    stage.source.put("orders", 2, retention_ms="5")
    stage.source.put("orders-2", retention_ms="5")
    stage.target.put("A.orders", 1)
    stage.source.bindings = {reads()}

    def fail(asked: str) -> None:
        if asked == question:
            raise failure

    stage.target.before = fail
    assert await stage.step() == [str(failure)]
    assert len(stage.target.writes) == 3


async def test_clusters_without_an_authorizer_are_named() -> None:
    stage = Stage()
    stage.source.put("orders")
    stage.source.bindings = {reads()}
    stage.target.has_authorizer = False
    assert (await stage.sync.compare(ALL)).no_authorizer == ("B",)
    stage.source.has_authorizer = False
    assert (await stage.sync.compare(ALL)).no_authorizer == ("A",)


async def test_a_target_is_not_asked_when_the_source_has_no_acls() -> None:
    stage = Stage()
    stage.source.put("orders")
    stage.target.has_authorizer = False
    assert (await stage.sync.compare(ALL)).no_authorizer == ()


async def test_acls_that_may_not_be_read_leave_configs_alone() -> None:
    stage = Stage()
    stage.source.put("orders", retention_ms="5")
    stage.target.put("A.orders")

    def refuse(asked: str) -> None:
        if asked == "acls":
            raise KafkaRefusal("ACLs", 31, "ClusterAuthorizationFailed", "needed: Describe on the cluster")

    stage.source.before = refuse
    looked = await stage.sync.compare(ALL)
    assert list(looked.unread) == ["ACLs"]
    assert len(looked.changes) == 1


async def test_groups_are_asked_for_where_their_acls_are_mirrored() -> None:
    stage = Stage(groups=GroupSelection())
    stage.source.put("orders")
    group = reads("billing", resource=Resource.GROUP)
    stage.source.bindings = {reads(), group}
    await stage.step()
    assert stage.target.bindings == {reads("A.orders"), reads("A.orders"), group}


async def test_a_copy_is_created_without_a_config_that_the_target_does_not_know() -> None:
    stage = Stage()
    stage.source.put("orders", 1, retention_ms="5", brand_new="6")
    looked = await stage.sync.compare(ALL)
    (outcome,) = await stage.sync.apply(looked.changes)
    assert stage.target.own == {"A.orders": {"retention.ms": "5"}}
    assert isinstance(outcome.change, CreateTopic)
    assert outcome.change.configs == {"retention.ms": "5"}
    assert outcome.failure == ""
    assert outcome.lacks == (
        "A.orders was created without configs that the target does not know: config brand.new: upgrade the target, or"
        " add brand.new to config.properties.exclude"
    )
    assert [one.name for one in (await stage.sync.compare(ALL)).conflicts] == ["brand.new"]


async def test_a_refused_config_hinders_no_other_of_its_topic() -> None:
    stage = Stage()
    stage.source.put("orders", 1, retention_ms="5", segment_bytes="6")
    stage.target.put("A.orders", 1)
    stage.target.refused_configs = ["segment.bytes"]
    looked = await stage.sync.compare(ALL)
    outcomes = await stage.sync.apply(looked.changes)
    found = {one.change.name: bool(one.failure) for one in outcomes if isinstance(one.change, SetConfig)}
    assert found == {"retention.ms": False, "segment.bytes": True}
    assert stage.target.own == {"A.orders": {"retention.ms": "5"}}
