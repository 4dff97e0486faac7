"""Planning a snapshot: parts of the topics give the plan of the whole, and the memory of it."""

from random import Random

import pytest

from engine.flow.config_sync.planning import (
    ACLS,
    Compared,
    ConfigSyncOptions,
    handed_over,
    merged,
    plan_snapshot,
    sync_plan,
)
from engine.flow.config_sync.snapshot import Snapshot
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import AclPlan, AclRules
from policies.sync.config_sync import CreateTopic, DropConfig, GrowTopic, Known, TopicState
from policies.sync.topic_configs import (
    DEFAULT,
    DYNAMIC_DEFAULT,
    TOPIC_OVERRIDE,
    ConfigEntry,
    ConfigRules,
    WantedConfigs,
)

FLOW = FlowName("A", "B")
NAMES = ("retention.ms", "segment.ms", "min.insync.replicas", "cleanup.policy")


def options(*, remove_foreign: bool = False) -> ConfigSyncOptions:
    return ConfigSyncOptions(
        replication_factor=1,
        configs=ConfigRules(remove_foreign=remove_foreign),
        acls=AclRules(selection=TopicSelection(FLOW, DefaultNaming(), [".*"])),
    )


def entry(value: str, source: int = TOPIC_OVERRIDE) -> ConfigEntry:
    return ConfigEntry(value, source, False, False)


def any_state(random: Random) -> TopicState:
    """Make a topic with configs of all origins."""
    configs = {
        name: entry(str(random.randrange(1, 4)), random.choice((TOPIC_OVERRIDE, DYNAMIC_DEFAULT, DEFAULT)))
        for name in NAMES
        if random.random() < 0.8
    }
    return TopicState(partitions=random.randrange(1, 4), replicas=random.randrange(3), configs=configs)


def recorded(random: Random, count: int = 40) -> tuple[Snapshot, dict[str, dict[str, str]]]:
    """Make a snapshot of two clusters, and what the topics had at the round before."""
    topics = [f"t{number}" for number in range(count)]
    source = {name: any_state(random) for name in topics if random.random() < 0.9}
    target = {f"A.{name}": any_state(random) for name in topics if random.random() < 0.8}
    unread = {name: "denied" for name in topics if name not in source}
    for name in list(target):
        if random.random() < 0.1 and name.removeprefix("A.") in source:  # of others the copies are not asked for
            del target[name]
            unread[name] = "denied too"
    known = {name: {random.choice(NAMES): str(random.randrange(1, 4))} for name in topics if random.random() < 0.5}
    return Snapshot(source=source, target=target, unread=unread), known


def part_of(whole: Snapshot, topics: list[str]) -> Snapshot:
    copies = {f"A.{name}" for name in topics}
    return Snapshot(
        source={name: state for name, state in whole.source.items() if name in topics},
        target={name: state for name, state in whole.target.items() if name in copies},
        unread={name: why for name, why in whole.unread.items() if name in topics or name in copies},
    )


def planned(taken: Snapshot, topics: list[str], known: Known, rules: ConfigSyncOptions, *, shapes: bool) -> Compared:
    return plan_snapshot(topics, taken, known, rules, WantedConfigs(rules.configs), shapes=shapes)


@pytest.mark.parametrize("seed", range(20))
def test_parts_give_the_plan_of_the_whole(seed: int) -> None:
    random = Random(seed)
    taken, known = recorded(random)
    rules, shapes = options(remove_foreign=seed % 2 == 0), seed % 3 == 0
    topics = sorted({*taken.source, *known})
    shuffled = random.sample(topics, len(topics))
    parts = [shuffled[at::3] for at in range(3)]
    whole = planned(taken, topics, known, rules, shapes=shapes)
    found = merged(planned(part_of(taken, part), part, known, rules, shapes=shapes) for part in parts)
    assert found.plan == whole.plan
    assert (found.uncopied, found.known) == (whole.uncopied, whole.known)
    assert found.unread == {name: why for name, why in taken.unread.items() if name.removeprefix("A.") in topics}
    assert whole.plan.changes


def test_without_shapes_nothing_is_created_or_grown() -> None:
    taken = Snapshot(
        source={"a": TopicState(partitions=2), "b": TopicState(partitions=2)},
        target={"A.b": TopicState(partitions=1)},
        unread={},
    )
    assert planned(taken, ["a", "b"], {}, options(), shapes=False).plan.changes == ()
    assert planned(taken, ["a", "b"], {}, options(), shapes=False).uncopied == 1
    made = planned(taken, ["a", "b"], {}, options(), shapes=True).plan.changes
    assert [type(one) for one in made] == [CreateTopic, GrowTopic]


def test_what_is_still_to_be_removed_stays_in_the_memory() -> None:
    taken = Snapshot(
        source={"a": TopicState(partitions=1, configs={"segment.ms": entry("7")})},
        target={"A.a": TopicState(partitions=1, configs={"retention.ms": entry("5"), "segment.ms": entry("7")})},
        unread={},
    )
    found = planned(
        taken, ["a", "z"], {"a": {"retention.ms": "5"}, "z": {"x": "1"}, "gone": {"y": "2"}}, options(), shapes=False
    )
    (drop,) = found.plan.changes
    assert isinstance(drop, DropConfig)
    assert found.known == {"a": {"segment.ms": "7", "retention.ms": "5"}, "z": {"x": "1"}}


def test_a_memory_that_is_handed_over_yields_to_what_was_read() -> None:
    assert handed_over({"a": {"x": "1"}}, {"a": {"x": "0", "y": "2"}, "b": {"z": "3"}}) == {
        "a": {"x": "1", "y": "2"},
        "b": {"z": "3"},
    }


def test_a_plan_says_that_acls_were_not_read() -> None:
    assert sync_plan(Compared(unread={"t": "no"}), AclPlan(), "denied", ("B",)).unread == {"t": "no", ACLS: "denied"}
    assert sync_plan(Compared(unread={"t": "no"}), AclPlan(), "", ()).unread == {"t": "no"}
