"""Plans config sync: compares the topics of two clusters and returns an ordered list of typed changes.

The plan first creates copies and adds partitions, then sets the configs in which a copy differs from its source topic.
It writes no value that is already there and lowers nothing in silence: a difference that raymirror must not fix is a
conflict. It leaves a config of the copy that the source topic does not have.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from policies.sync.acl_sync import AddAcl
from policies.sync.creation import Create, plan_topic
from policies.sync.topic_configs import (
    DEFAULT,
    DURABLE,
    DYNAMIC_DEFAULT,
    TOPIC_OVERRIDE,
    ConfigEntry,
    ConfigRules,
    WantedConfigs,
    endangers,
    needs_more_replicas,
)
from policies.sync.unknown_configs import how_to_settle
from policies.words import counted


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as its cluster describes it; `replicas`: of the partition with the fewest replicas; 0: not known."""

    partitions: int
    replicas: int = 0
    configs: Mapping[str, ConfigEntry] = {}


class TopicChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="change"):
    """A change of the copy `target` of the source topic `topic`."""

    topic: str
    target: str


class CreateTopic(TopicChange, frozen=True, kw_only=True, tag="create_topic"):
    """Create the copy; replication factor -1 means the broker's default."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


class GrowTopic(TopicChange, frozen=True, kw_only=True, tag="grow_topic"):
    """Give the copy more partitions."""

    partitions: int
    before: int


class SetConfig(TopicChange, frozen=True, kw_only=True, tag="set_config"):
    """Set one config; `before`: the value in effect; `overrides`: whether that was the topic's own; `why`: the rule."""

    name: str
    value: str
    before: str
    overrides: bool
    why: str


class DropConfig(TopicChange, frozen=True, kw_only=True, tag="drop_config"):
    """Remove one config of the topic's own, so that the target's default holds; `why`: the rule."""

    name: str
    before: str
    why: str


ConfigChange = SetConfig | DropConfig
Change = CreateTopic | GrowTopic | SetConfig | DropConfig | AddAcl


class ConflictKind(Enum):
    """The kinds of differences that config sync does not fix."""

    PARTITIONS = "more partitions"
    REPLICAS = "fewer replicas"
    THINNER = "fewer replicas than the source"
    DURABILITY = "durability"
    UNKNOWN = "unknown config"


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that config sync reports and does not fix; `name`: the config, if it is one."""

    topic: str
    target: str
    kind: ConflictKind
    what: str
    name: str = ""


class KeptOverride(msgspec.Struct, frozen=True, kw_only=True):
    """An override of a copy that its source topic does not have; config sync leaves it."""

    target: str
    name: str
    value: str


class ConfigPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes in order, the conflicts, the overrides that stay, and the number of compared copies."""

    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left: tuple[KeptOverride, ...] = ()
    topics: int = 0


Known = Mapping[str, Mapping[str, str]]
"""By source topic, its own configs at the last comparison."""


def own_configs(source: Mapping[str, TopicState], wanted: WantedConfigs) -> dict[str, Mapping[str, str]]:
    """Return the values that raymirror copies from these topics, for the next comparison (`Known`)."""
    return {topic: wanted.of(state.configs) for topic, state in source.items()}


def plan_configs(
    source: Mapping[str, TopicState],
    target: Mapping[str, TopicState],
    target_topic: Callable[[str], str],
    replication_factor: int,
    rules: ConfigRules,
    known: Known,
    wanted: WantedConfigs | None = None,
) -> ConfigPlan:
    """Plan for every topic of `source`, the topics that the flow copies; `target` has their copies by name.

    A config in `known` that the source topic has lost since is also removed from the copy, if the copy still has that
    value. Without that knowledge (the first comparison) it stays. `wanted`: the cache of wanted configs.
    """
    planner = _Planner(replication_factor, rules, wanted or WantedConfigs(rules))
    for topic in sorted(source):
        name = target_topic(topic)
        planner.compare(topic, name, source[topic], target.get(name), known.get(topic, {}))
    return planner.plan()


_WHY = {
    TOPIC_OVERRIDE: "the source topic sets it",
    DYNAMIC_DEFAULT: "the source cluster has it as a dynamic default",
    DEFAULT: "use.defaults.from = source",
}
"""Why a config is set, by its origin on the source."""


def why_of(change: Change) -> str:
    """Say which rule led to a change."""
    match change:
        case CreateTopic():
            return "the flow copies this topic, and it had no copy"
        case GrowTopic():
            return "the source topic has this number of partitions"
        case SetConfig() | DropConfig():
            return change.why
        case _:
            return f"the source has: {change.because}"


class _FoundConflict(NamedTuple):
    """A conflict of one topic; `config`: which config it is about, if any."""

    kind: ConflictKind
    what: str
    config: str = ""


def _thinner(source: TopicState, copy: TopicState) -> Iterator[_FoundConflict]:
    """Yield a conflict if the configuration gives a copy fewer replicas than its source topic."""
    if 0 < copy.replicas < source.replicas:
        what = f"the copy has {counted(copy.replicas, 'replica')}, the source {source.replicas}"
        yield _FoundConflict(ConflictKind.THINNER, f"{what}: replication.factor says so")


def _kept_back(change: Create, wanted: Mapping[str, str]) -> Iterator[_FoundConflict]:
    """Yield a conflict for each config that a new copy does not get."""
    for name in sorted(wanted.keys() - change.configs.keys()):
        danger = needs_more_replicas(name, wanted[name], change.replication_factor)
        yield _FoundConflict(ConflictKind.DURABILITY, f"{danger}; the copy is created without it", name)


class _Planner:
    """Collects changes and conflicts topic by topic."""

    def __init__(self, replication_factor: int, rules: ConfigRules, wanted: WantedConfigs) -> None:
        self._replication_factor, self._rules, self._wanted = replication_factor, rules, wanted
        self._shapes: list[Change] = []
        self._configs: list[Change] = []
        self._conflicts: list[Conflict] = []
        self._left: list[KeptOverride] = []
        self._topics = 0

    def plan(self) -> ConfigPlan:
        """Return the collected plan."""
        return ConfigPlan(
            changes=(*self._shapes, *self._configs),
            conflicts=tuple(self._conflicts),
            left=tuple(self._left),
            topics=self._topics,
        )

    def compare(
        self, topic: str, name: str, source: TopicState, target: TopicState | None, known: Mapping[str, str]
    ) -> None:
        """Compare one topic with its copy (None: no copy exists)."""
        self._topics += 1
        wanted = self._wanted.of(source.configs)
        present = target.partitions if target is not None else None
        change = plan_topic(source.partitions, present, self._replication_factor, wanted)
        if target is None:
            assert isinstance(change, Create)
            self._shapes.append(
                CreateTopic(
                    topic=topic,
                    target=name,
                    partitions=change.partitions,
                    replication_factor=change.replication_factor,
                    configs=change.configs,
                )
            )
            made = TopicState(partitions=change.partitions, replicas=change.replication_factor)
            self._tell(topic, name, (*_thinner(source, made), *_kept_back(change, wanted)))
            return
        if change is not None:
            grown = GrowTopic(topic=topic, target=name, partitions=change.partitions, before=target.partitions)
            self._shapes.append(grown)
        self._tell(topic, name, self._shape_conflicts(source, target))
        self._tell(topic, name, self._set(topic, name, source, target, wanted))
        self._drop(topic, name, target, wanted, known)

    def _tell(self, topic: str, name: str, found: Iterable[_FoundConflict]) -> None:
        for one in found:
            self._conflicts.append(Conflict(topic=topic, target=name, kind=one.kind, what=one.what, name=one.config))

    def _shape_conflicts(self, source: TopicState, target: TopicState) -> Iterator[_FoundConflict]:
        if target.partitions > source.partitions:
            what = f"the copy has {counted(target.partitions, 'partition')}, the source {source.partitions}"
            yield _FoundConflict(ConflictKind.PARTITIONS, f"{what}: they are never removed")
        if 0 < target.replicas < self._replication_factor:
            what = (
                f"the copy has {counted(target.replicas, 'replica')}, replication.factor is {self._replication_factor}"
            )
            yield _FoundConflict(ConflictKind.REPLICAS, f"{what}: reassign it (kafka-reassign-partitions)")
        else:
            yield from _thinner(source, target)

    def _set(
        self, topic: str, name: str, source: TopicState, target: TopicState, wanted: Mapping[str, str]
    ) -> Iterator[_FoundConflict]:
        """Plan the missing configs of the copy; yield the ones that must not be set there."""
        for config in sorted(wanted):
            value, there = wanted[config], target.configs.get(config)
            if there is None:
                unknown = f"the target does not know config {config} (the source has {config}={value})"
                what = f"{unknown}: {how_to_settle(config)}"
                yield _FoundConflict(ConflictKind.UNKNOWN, what, config)
                continue
            overrides = there.source == TOPIC_OVERRIDE
            soft = source.configs[config].source != TOPIC_OVERRIDE  # it is not set for this topic itself
            if there.value == value and (overrides or soft):
                continue
            danger = endangers(config, value, there.value, target.replicas)
            if danger is not None:
                yield _FoundConflict(ConflictKind.DURABILITY, f"{danger}; if you want this, set it by hand", config)
                continue
            self._configs.append(
                SetConfig(
                    topic=topic,
                    target=name,
                    name=config,
                    value=value,
                    before=there.value,
                    overrides=overrides,
                    why=_WHY[source.configs[config].source],
                )
            )

    def _drop(
        self, topic: str, name: str, target: TopicState, wanted: Mapping[str, str], known: Mapping[str, str]
    ) -> None:
        """Plan the removals of configs from the copy, and note the overrides that stay."""
        own = ((name, entry) for name, entry in target.configs.items() if entry.source == TOPIC_OVERRIDE)
        for config, there in sorted(own, key=lambda one: one[0]):
            if config in wanted or not self._rules.concerns(config, there):
                continue
            why = self._why_drop(known.get(config), there)
            if why is None or config in DURABLE:
                self._left.append(KeptOverride(target=name, name=config, value=there.value))
            else:
                self._configs.append(DropConfig(topic=topic, target=name, name=config, before=there.value, why=why))

    def _why_drop(self, known: str | None, there: ConfigEntry) -> str | None:
        if known == there.value:
            return "it was removed on the source"
        return "the source topic does not have it" if self._rules.remove_foreign else None
