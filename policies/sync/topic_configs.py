"""Decides which configs of a source topic its copy gets, and which differences raymirror must not fix in silence.

The origin of a config on the source, and the action on the copy (docs/config-sync.md describes MM2's):

    origin on the source            | use.defaults.from = target | = source
    --------------------------------+----------------------------+---------------------------------
    the topic                       | set it                     | set it
    the cluster (dynamic)           | set it if it differs       | set it if it differs
    one broker (dynamic)            | nothing                    | nothing: each broker may answer otherwise
    the broker's file (static)      | nothing                    | nothing
    Kafka's default                 | nothing                    | set it if it differs
    read-only, sensitive, excluded  | nothing                    | nothing
"""

from collections.abc import Mapping

import msgspec

from policies.own.own_policy import OwnPolicy
from policies.own.protocols import ConfigPropertyFilter
from policies.patterns import PatternList
from policies.words import counted

EXCLUDED_CONFIGS = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)
"""MM2's default of config.properties.exclude."""

TOPIC_OVERRIDE, DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
"""Kafka's config sources (DescribeConfigsResponse.ConfigSource)."""
_SET = (TOPIC_OVERRIDE, DYNAMIC_DEFAULT)
"""The origins of configs that somebody has set for this topic, or for all topics of the cluster."""
MIN_INSYNC = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
DURABLE = frozenset({MIN_INSYNC, _UNCLEAN})
"""Configs that decide whether an acknowledged record can be lost."""


class ConfigEntry(msgspec.Struct, frozen=True, gc=False):
    """One effective topic config: its value and its origin."""

    value: str
    source: int
    read_only: bool
    sensitive: bool


class ConfigRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for configs of copies: `exclude` is config.properties.exclude; `source_defaults`: whether
    use.defaults.from is source; `remove_foreign`: remove overrides that the source does not have, as MM2 does; `own`:
    the user's filter in place of the first two.
    """

    exclude: PatternList = PatternList(EXCLUDED_CONFIGS)
    source_defaults: bool = False
    remove_foreign: bool = False
    own: OwnPolicy[ConfigPropertyFilter] | None = None

    def concerns(self, name: str, entry: ConfigEntry) -> bool:
        """Whether an entry may be copied at all."""
        return not (entry.read_only or entry.sensitive or self.excludes(name))

    def carries_default(self, name: str) -> bool:
        """Whether a config is copied of which the source has Kafka's default."""
        return (
            self.source_defaults
            if self.own is None
            else self.own.says(self.own.made.should_replicate_source_default, name)
        )

    def excludes(self, name: str) -> bool:
        """Whether a config of this name is never copied."""
        if self.own is None:
            return self.exclude.matches(name)
        return not self.own.says(self.own.made.should_replicate_config_property, name)


def wanted_configs(configs: Mapping[str, ConfigEntry], rules: ConfigRules) -> dict[str, str]:
    """Return the configs for the copy of a topic with these configs, by the table above."""
    return {
        name: entry.value
        for name, entry in configs.items()
        if (entry.source in _SET or (entry.source == DEFAULT and rules.carries_default(name)))
        and rules.concerns(name, entry)
    }


class WantedConfigs:
    """Caches `wanted_configs` for topics that share one mapping of configs."""

    def __init__(self, rules: ConfigRules) -> None:
        self._rules = rules
        self._known: dict[int, tuple[Mapping[str, ConfigEntry], Mapping[str, str]]] = {}
        """By identity; each mapping is referenced here, so that no other mapping gets its address."""

    def of(self, configs: Mapping[str, ConfigEntry]) -> Mapping[str, str]:
        """Return the configs for a copy."""
        known = self._known.get(id(configs))
        if known is None:
            known = self._known[id(configs)] = configs, wanted_configs(configs, self._rules)
        return known[1]


def endangers(name: str, value: str, present: str, replicas: int) -> str | None:
    """Return why raymirror must not set a config of a topic from `present` to `value` in silence; None if it may.

    `replicas`: of the topic; 0: not known.
    """
    if name == _UNCLEAN and value == "true" and present != "true":
        return f"{name}=true would let an election lose acknowledged records"
    if name != MIN_INSYNC:
        return None
    if int(value) < int(present):
        return f"{name} would be lowered from {present} to {value}"
    return needs_more_replicas(name, value, replicas)


def needs_more_replicas(name: str, value: str, replicas: int) -> str | None:
    """Return why a topic with `replicas` replicas (0 or less: not known) could take no record with this config."""
    if name == MIN_INSYNC and 0 < replicas < int(value):
        return f"{name}={value} with {counted(replicas, 'replica')}: no record could be appended"
    return None
