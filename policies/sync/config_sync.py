"""Config sync as a plan: from what two clusters say of their topics to an ordered list of typed changes.

Copies are created or given partitions first, then each gets the configs that its source topic has and it has not.
Nothing is written that is there already, nothing is lowered in silence: what may not be mended is a conflict, what
somebody set on the copy and the source does not speak of is left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

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
from policies.words import counted


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """One topic as its cluster describes it; `replicas` of the partition that has fewest, 0: not known."""

    partitions: int
    replicas: int = 0
    configs: Mapping[str, ConfigEntry] = {}


class TopicChange(msgspec.Struct, frozen=True, kw_only=True, tag_field="change"):
    """A change of the copy `target` of the source topic `topic`."""

    topic: str
    target: str


class CreateTopic(TopicChange, frozen=True, kw_only=True, tag="create_topic"):
    """Create the copy; replication factor -1: the broker's default."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


class GrowTopic(TopicChange, frozen=True, kw_only=True, tag="grow_topic"):
    """Give the copy more partitions."""

    partitions: int
    before: int


class SetConfig(TopicChange, frozen=True, kw_only=True, tag="set_config"):
    """Set one config; `before` is the value in effect, `overrides` whether it was the topic's own; `why` it is set."""

    name: str
    value: str
    before: str
    overrides: bool
    why: str


class DropConfig(TopicChange, frozen=True, kw_only=True, tag="drop_config"):
    """Take one config of the topic's own away, so that the target's default holds; `why` it goes."""

    name: str
    before: str
    why: str


ConfigChange = SetConfig | DropConfig
Change = CreateTopic | GrowTopic | SetConfig | DropConfig | AddAcl


class ConflictKind(Enum):
    """What two topics may differ in that is not mended here."""

    PARTITIONS = "more partitions"
    REPLICAS = "fewer replicas"
    THINNER = "fewer replicas than the source"
    DURABILITY = "durability"
    UNKNOWN = "unknown config"


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that is told and left: where, and what."""

    topic: str
    target: str
    kind: ConflictKind
    what: str


class KeptOverride(msgspec.Struct, frozen=True, kw_only=True):
    """An override of a copy that its source topic does not have, left as it is."""

    target: str
    name: str
    value: str


class ConfigPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done, in order; conflicts, what is left, and how many copies were looked at."""

    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left: tuple[KeptOverride, ...] = ()
    topics: int = 0


Known = Mapping[str, Mapping[str, str]]
"""By source topic, what it had of its own when it was looked at before."""


def own_configs(source: Mapping[str, TopicState], wanted: WantedConfigs) -> dict[str, Mapping[str, str]]:
    """Return what is to be known when these topics are looked at again (`Known`): values that we have carried over."""
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
    """Plan for every topic of `source`, which are those that the flow copies; `target` has their copies by name.

    A config that `known` has, and that the source topic has lost since, goes from the copy too, where it still has that
    value. Without that knowledge (the first look) it stays. `wanted`: what was worked out of these configs already.
    """
    planner = _Planner(replication_factor, rules, wanted or WantedConfigs(rules))
    for topic in sorted(source):
        name = target_topic(topic)
        planner.look(topic, name, source[topic], target.get(name), known.get(topic, {}))
    return planner.plan()


_WHY = {
    TOPIC_OVERRIDE: "the source topic has it of its own",
    DYNAMIC_DEFAULT: "the source cluster has it as a dynamic default",
    DEFAULT: "use.defaults.from = source",
}
"""Why a config is set, by who set it on the source."""


def why_of(change: Change) -> str:
    """Say which rule led to a change."""
    match change:
        case CreateTopic():
            return "the flow copies this topic, and there was no copy"
        case GrowTopic():
            return "the source topic has so many partitions"
        case SetConfig() | DropConfig():
            return change.why
        case _:
            return f"the source has: {change.because}"


def _thinner(source: TopicState, copy: TopicState) -> Iterator[tuple[ConflictKind, str]]:
    """Tell a copy that outlives fewer lost brokers than its source, as the configuration asks."""
    if 0 < copy.replicas < source.replicas:
        what = f"the copy has {counted(copy.replicas, 'replica')}, the source {source.replicas}"
        yield ConflictKind.THINNER, f"{what}: replication.factor says so"


def _kept_back(change: Create, wanted: Mapping[str, str]) -> Iterator[tuple[ConflictKind, str]]:
    """Tell the configs that a new copy does not get."""
    for name in sorted(wanted.keys() - change.configs.keys()):
        danger = needs_more_replicas(name, wanted[name], change.replication_factor)
        yield ConflictKind.DURABILITY, f"{danger}; the copy is made without it"


class _Planner:
    """Collects, topic by topic."""

    def __init__(self, replication_factor: int, rules: ConfigRules, wanted: WantedConfigs) -> None:
        self._replication_factor, self._rules, self._wanted = replication_factor, rules, wanted
        self._shapes: list[Change] = []
        self._configs: list[Change] = []
        self._conflicts: list[Conflict] = []
        self._left: list[KeptOverride] = []
        self._topics = 0

    def plan(self) -> ConfigPlan:
        """Return all that was found."""
        return ConfigPlan(
            changes=(*self._shapes, *self._configs),
            conflicts=tuple(self._conflicts),
            left=tuple(self._left),
            topics=self._topics,
        )

    def look(
        self, topic: str, name: str, source: TopicState, target: TopicState | None, known: Mapping[str, str]
    ) -> None:
        """Compare one topic with its copy (None: there is none)."""
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

    def _tell(self, topic: str, name: str, found: Iterable[tuple[ConflictKind, str]]) -> None:
        for kind, what in found:
            self._conflicts.append(Conflict(topic=topic, target=name, kind=kind, what=what))

    def _shape_conflicts(self, source: TopicState, target: TopicState) -> Iterator[tuple[ConflictKind, str]]:
        if target.partitions > source.partitions:
            what = f"the copy has {counted(target.partitions, 'partition')}, the source {source.partitions}"
            yield ConflictKind.PARTITIONS, f"{what}: they are never removed"
        if 0 < target.replicas < self._replication_factor:
            what = (
                f"the copy has {counted(target.replicas, 'replica')}, replication.factor is {self._replication_factor}"
            )
            yield ConflictKind.REPLICAS, f"{what}: reassign it (kafka-reassign-partitions)"
        else:
            yield from _thinner(source, target)

    def _set(
        self, topic: str, name: str, source: TopicState, target: TopicState, wanted: Mapping[str, str]
    ) -> Iterator[tuple[ConflictKind, str]]:
        """Plan what is missing on the copy; yield what may not be set there."""
        for config in sorted(wanted):
            value, there = wanted[config], target.configs.get(config)
            if there is None:
                yield ConflictKind.UNKNOWN, f"the target knows no config {config} (the source has {config}={value})"
                continue
            overrides = there.source == TOPIC_OVERRIDE
            soft = source.configs[config].source != TOPIC_OVERRIDE  # nobody chose it for this topic
            if there.value == value and (overrides or soft):
                continue
            danger = endangers(config, value, there.value, target.replicas)
            if danger is not None:
                yield ConflictKind.DURABILITY, f"{danger}; set it by hand if it is meant"
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
        """Plan what goes from the copy, and note what is left there."""
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
            return "it was taken away on the source"
        return "the source topic does not have it" if self._rules.remove_foreign else None
