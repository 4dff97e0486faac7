"""What crosses between the metadata actor and Spark: the memory, and plans that are cut to their bounds."""

import msgspec

from engine.flow.config_sync.planning import SyncPlan
from engine.flow.config_sync.round_messages import (
    MOST_UNREAD,
    NO_MEMORY,
    ClusterIds,
    RoundPlan,
    RoundRequest,
    cut,
    pack_memory,
    unpack_memory,
)
from policies.model import FlowName
from policies.sync.acl_sync import AddAcl
from policies.sync.config_sync import (
    Conflict,
    ConflictKind,
    CreateTopic,
    DropConfig,
    GrowTopic,
    KeptOverride,
    SetConfig,
)
from tests.unit.engine.flow.config_sync.test_sync import reads

CHANGES = (
    CreateTopic(topic="a", target="A.a", partitions=1, replication_factor=1, configs={"x": "1"}),
    GrowTopic(topic="b", target="A.b", partitions=2, before=1),
    SetConfig(topic="c", target="A.c", name="x", value="2", before="1", overrides=True, why="w"),
    DropConfig(topic="d", target="A.d", name="x", before="1", why="w"),
    AddAcl(binding=reads("A.a"), because=reads()),
)


def conflict(kind: ConflictKind) -> Conflict:
    return Conflict(topic="t", target="A.t", kind=kind, what="w")


def test_a_memory_comes_back_and_like_topics_share_it() -> None:
    known = {"a": {"x": "1", "y": "2"}, "b": {"y": "2", "x": "1"}, "c": {}, "d": {"x": "3"}}
    found = unpack_memory(pack_memory(known))
    assert found == {name: configs for name, configs in known.items() if configs}
    assert found["a"] is found["b"]
    assert pack_memory(known) == pack_memory(dict(reversed(known.items()))), "its digest says whether it has changed"
    assert unpack_memory(NO_MEMORY) == {}


def test_a_memory_of_many_topics_is_small() -> None:
    many = {f"some-team.some-topic-{number:05}": {"retention.ms": "604800000"} for number in range(20_000)}
    assert len(pack_memory(many)) < 200_000


def test_a_plan_survives_the_way() -> None:
    plan = SyncPlan(changes=CHANGES, conflicts=(conflict(ConflictKind.UNKNOWN),), topics=5, unread={"t": "no"})
    sent = cut(plan, {"a": {"x": "1"}})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=RoundPlan) == sent
    assert sent.plan == plan
    assert (sent.more, sent.more_conflicts, sent.more_unread) == (0, {}, 0)
    asked = RoundRequest(
        flow=FlowName("A", "B"), configs=True, acls=False, memory=NO_MEMORY, clusters=ClusterIds("x", "y")
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(asked), type=RoundRequest) == asked
    assert (asked.scope.configs, asked.scope.acls, asked.scope.shapes) == (True, False, False)


def test_a_long_plan_is_cut_and_says_what_is_beyond() -> None:
    conflicts = tuple(
        conflict(kind) for kind in (ConflictKind.UNKNOWN, *[ConflictKind.REPLICAS] * 2, ConflictKind.UNKNOWN)
    )
    plan = SyncPlan(
        changes=CHANGES,
        conflicts=conflicts,
        left=(KeptOverride(target="A.a", name="x", value="1"),),
        unread={f"t{number}": "no" for number in range(MOST_UNREAD + 2)},
    )
    sent = cut(plan, {"d": {"x": "1"}}, most=2)
    assert (sent.plan.changes, sent.more) == (CHANGES[:2], 3)
    assert (len(sent.plan.conflicts), sent.more_conflicts) == (2, {"fewer replicas": 1, "unknown config": 1})
    assert (len(sent.plan.unread), sent.more_unread) == (MOST_UNREAD, 2)
    assert sent.plan.left == ()
    assert unpack_memory(sent.memory) == {"d": {"x": "1"}}, "what is still to be removed, beyond the bound too"
