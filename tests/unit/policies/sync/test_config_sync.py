"""Config sync as a plan: what it writes, in which order, and what it only reports."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.patterns import PatternList
from policies.sync.acl_sync import AddAcl, Binding
from policies.sync.config_sync import (
    ConfigPlan,
    Conflict,
    ConflictKind,
    CreateTopic,
    DropConfig,
    GrowTopic,
    KeptOverride,
    SetConfig,
    TopicState,
    own_configs,
    plan_configs,
    why_of,
)
from policies.sync.topic_configs import (
    DEFAULT,
    DYNAMIC_DEFAULT,
    STATIC_BROKER,
    TOPIC_OVERRIDE,
    ConfigEntry,
    ConfigRules,
    WantedConfigs,
)

EVERYTHING = ConfigRules(exclude=PatternList([]))


def state(partitions: int = 1, replicas: int = 0, **configs: tuple[str, int] | str) -> TopicState:
    """Make a topic; a config is its value, the topic's own, or a value and who set it."""
    entries = {}
    for name, said in configs.items():
        value, source = (said, TOPIC_OVERRIDE) if isinstance(said, str) else said
        entries[name.replace("_", ".")] = ConfigEntry(value, source, False, False)
    return TopicState(partitions=partitions, replicas=replicas, configs=entries)


def plan(
    source: TopicState,
    target: TopicState | None,
    rules: ConfigRules = EVERYTHING,
    known: Mapping[str, str] | None = None,
) -> ConfigPlan:
    copies = {} if target is None else {"A.t": target}
    return plan_configs({"t": source}, copies, lambda topic: f"A.{topic}", 2, rules, {"t": known or {}})


def test_a_missing_copy_is_created_with_the_sources_configs() -> None:
    found = plan(state(3, retention_ms="5", segment_ms=("6", DEFAULT)), None)
    assert found.changes == (
        CreateTopic(topic="t", target="A.t", partitions=3, replication_factor=2, configs={"retention.ms": "5"}),
    )
    assert found.topics == 1


def test_partitions_are_added_and_never_taken() -> None:
    assert plan(state(3), state(1)).changes == (GrowTopic(topic="t", target="A.t", partitions=3, before=1),)
    found = plan(state(1), state(3))
    assert found.changes == ()
    (conflict,) = found.conflicts
    assert conflict.kind is ConflictKind.PARTITIONS
    assert "3 partitions, the source 1" in conflict.what


def test_too_few_replicas_are_told() -> None:
    (conflict,) = plan(state(replicas=3), state(replicas=1)).conflicts
    assert conflict.kind is ConflictKind.REPLICAS
    assert "1 replica, replication.factor is 2" in conflict.what
    assert plan(state(replicas=2), state(replicas=2)).conflicts == ()
    assert plan(state(), state(replicas=2)).conflicts == ()


@pytest.mark.parametrize("copy", [None, state(replicas=2)])
def test_a_copy_that_has_fewer_replicas_than_its_source_is_told_though_it_is_as_configured(
    copy: TopicState | None,
) -> None:
    (conflict,) = plan(state(replicas=3), copy).conflicts
    assert conflict.kind is ConflictKind.THINNER
    assert conflict.what == "the copy has 2 replicas, the source 3: replication.factor says so"


def test_a_new_copy_that_cannot_have_as_many_in_sync_is_told() -> None:
    found = plan(state(min_insync_replicas="3", retention_ms="5"), None)
    (created,) = found.changes
    assert isinstance(created, CreateTopic)
    assert created.configs == {"retention.ms": "5"}
    (conflict,) = found.conflicts
    assert conflict.kind is ConflictKind.DURABILITY
    assert conflict.what == (
        "min.insync.replicas=3 with 2 replicas: no record could be appended; the copy is created without it"
    )


def test_every_change_says_which_rule_led_to_it() -> None:
    rules = ConfigRules(exclude=PatternList([]), source_defaults=True)
    source = state(3, retention_ms="5", segment_ms=("6", DYNAMIC_DEFAULT), cleanup_policy=("compact", DEFAULT))
    copy = state(retention_ms="1", segment_ms=("1", DEFAULT), cleanup_policy=("delete", DEFAULT), flush_ms="9")
    found = [*plan(source, None).changes, *plan(source, copy, rules, {"flush.ms": "9"}).changes]
    binding = Binding(2, "t", 3, "User:ann", "*", 3, 3)
    assert [why_of(change) for change in (*found, AddAcl(binding=binding, because=binding))] == [
        "the flow copies this topic, and it had no copy",
        "the source topic has this number of partitions",
        "use.defaults.from = source",
        "the source topic sets it",
        "the source cluster has it as a dynamic default",
        "it was removed on the source",
        "the source has: ALLOW READ on topic 't' for User:ann from *",
    ]


@pytest.mark.parametrize(
    ("there", "overrides"),
    [(("1", TOPIC_OVERRIDE), True), (("1", DEFAULT), False), (("5", STATIC_BROKER), False)],
)
def test_a_topics_own_config_is_set_and_pinned(there: tuple[str, int], overrides: bool) -> None:
    found = plan(state(retention_ms="5"), state(retention_ms=there))
    assert found.changes == (
        SetConfig(
            topic="t",
            target="A.t",
            name="retention.ms",
            value="5",
            before=there[0],
            overrides=overrides,
            why="the source topic sets it",
        ),
    )


@pytest.mark.parametrize("source", [DYNAMIC_DEFAULT, DEFAULT])
def test_what_nobody_chose_for_the_topic_is_set_only_where_it_differs(source: int) -> None:
    rules = ConfigRules(source_defaults=True)
    assert plan(state(retention_ms=("5", source)), state(retention_ms=("5", DEFAULT)), rules).changes == ()
    (change,) = plan(state(retention_ms=("5", source)), state(retention_ms=("6", DEFAULT)), rules).changes
    assert isinstance(change, SetConfig)
    assert (change.value, change.before) == ("5", "6")


def test_a_config_that_the_target_does_not_know_is_told() -> None:
    assert plan(state(brand_new="5"), state()).conflicts == (
        Conflict(
            topic="t",
            target="A.t",
            kind=ConflictKind.UNKNOWN,
            what="the target does not know config brand.new (the source has brand.new=5): upgrade the target, or add"
            " brand.new to config.properties.exclude",
            name="brand.new",
        ),
    )


def test_durability_is_told_and_not_lowered() -> None:
    found = plan(state(min_insync_replicas="1"), state(replicas=2, min_insync_replicas="2"))
    assert found.changes == ()
    (conflict,) = found.conflicts
    assert conflict.kind is ConflictKind.DURABILITY
    assert "set it by hand" in conflict.what


def test_what_somebody_set_on_the_copy_stays() -> None:
    found = plan(state(segment_ms=("1", DEFAULT)), state(segment_ms="9", retention_ms=("1", DEFAULT)))
    assert found.changes == ()
    assert found.left == (KeptOverride(target="A.t", name="segment.ms", value="9"),)


def test_what_we_carried_over_goes_when_the_source_loses_it() -> None:
    source = state(segment_ms=("1", DEFAULT))
    taken = DropConfig(topic="t", target="A.t", name="segment.ms", before="9", why="it was removed on the source")
    assert plan(source, state(segment_ms="9"), known={"segment.ms": "9"}).changes == (taken,)
    changed_since = plan(source, state(segment_ms="8"), known={"segment.ms": "9"})
    assert changed_since.changes == ()
    assert len(changed_since.left) == 1


def test_foreign_overrides_go_when_asked_but_never_those_that_keep_records() -> None:
    rules = ConfigRules(exclude=PatternList([r"message\..*"]), remove_foreign=True)
    target = state(
        segment_ms="9", min_insync_replicas="2", message_timestamp_type="LogAppendTime", retention_ms=("1", DEFAULT)
    )
    found = plan(state(), target, rules)
    (dropped,) = found.changes
    assert isinstance(dropped, DropConfig)
    assert (dropped.name, dropped.why) == ("segment.ms", "the source topic does not have it")
    assert [one.name for one in found.left] == ["min.insync.replicas"]


def test_creating_and_growing_come_first() -> None:
    source = {"a": state(retention_ms="5"), "b": state(2), "c": state()}
    target = {"a": state(retention_ms="1"), "b": state(1)}
    found = plan_configs(source, target, lambda topic: topic, 1, EVERYTHING, {})
    assert [type(change) for change in found.changes] == [GrowTopic, CreateTopic, SetConfig]
    assert found.topics == 3


NAMES = st.sampled_from(["retention.ms", "segment.ms", "min.insync.replicas", "unclean.leader.election.enable"])
SOURCES = st.sampled_from([TOPIC_OVERRIDE, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT])


@st.composite
def topics(draw: st.DrawFn) -> TopicState:
    """Draw a topic that has every config."""
    configs = {}
    for name in ("retention.ms", "segment.ms", "min.insync.replicas", "unclean.leader.election.enable"):
        values = ["true", "false"] if name.startswith("unclean") else ["1", "2", "3"]
        configs[name] = ConfigEntry(draw(st.sampled_from(values)), draw(SOURCES), False, False)
    return TopicState(partitions=draw(st.integers(1, 3)), replicas=draw(st.integers(1, 3)), configs=configs)


def applied(target: TopicState | None, found: ConfigPlan) -> TopicState:
    """Do to a copy what a broker would."""
    partitions, replicas = (target.partitions, target.replicas) if target else (0, 2)
    configs = dict(target.configs) if target else dict(DEFAULTS)
    for change in found.changes:
        match change:
            case CreateTopic():
                partitions = change.partitions
                configs |= {
                    name: ConfigEntry(value, TOPIC_OVERRIDE, False, False) for name, value in change.configs.items()
                }
            case GrowTopic():
                partitions = change.partitions
            case SetConfig():
                configs[change.name] = ConfigEntry(change.value, TOPIC_OVERRIDE, False, False)
            case DropConfig():
                configs[change.name] = DEFAULTS[change.name]
    return TopicState(partitions=partitions, replicas=replicas, configs=configs)


DEFAULTS = {
    name: ConfigEntry(value, DEFAULT, False, False)
    for name, value in {
        "retention.ms": "1",
        "segment.ms": "1",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "false",
    }.items()
}


@given(topics(), st.none() | topics(), st.booleans(), st.booleans(), st.dictionaries(NAMES, st.sampled_from("123")))
def test_a_plan_that_was_applied_leaves_nothing_to_do_and_nothing_lowered(
    source: TopicState, target: TopicState | None, source_defaults: bool, remove_foreign: bool, known: dict[str, str]
) -> None:
    rules = ConfigRules(exclude=PatternList([]), source_defaults=source_defaults, remove_foreign=remove_foreign)
    first = plan(source, target, rules, known)
    after = applied(target, first)
    again = plan(source, after, rules, own_configs({"t": source}, WantedConfigs(rules))["t"])
    assert again.changes == ()
    assert after.partitions >= source.partitions
    if target is not None:
        before = target.configs
        assert int(after.configs["min.insync.replicas"].value) >= int(before["min.insync.replicas"].value)
        unclean = "unclean.leader.election.enable"
        assert after.configs[unclean].value == "false" or before[unclean].value == "true"
        assert after.partitions >= target.partitions
