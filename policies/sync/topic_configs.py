"""Configs of topics: what a source topic's say about its copy, and which differences nobody may mend in silence.

An entry of the source, and what it means for the copy (mm2-contract 4.5; docs/config-sync.md has what MM2 does):

    set on the source by            | use.defaults.from = target | = source
    --------------------------------+----------------------------+---------------------------------
    the topic                       | set it                     | set it
    the cluster (dynamic)           | set it where it differs    | set it where it differs
    one broker (dynamic)            | nothing                    | nothing: it depends on who answers
    the broker's file (static)      | nothing                    | nothing
    nobody: Kafka's default         | nothing                    | set it where it differs
    read-only, sensitive, excluded  | nothing                    | nothing
"""

from collections.abc import Mapping

import msgspec

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
MIN_INSYNC = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
DURABLE = frozenset({MIN_INSYNC, _UNCLEAN})
"""Configs that decide whether an acknowledged record can be lost."""


class ConfigEntry(msgspec.Struct, frozen=True, gc=False):
    """One effective topic config: its value and where it comes from."""

    value: str
    source: int
    read_only: bool
    sensitive: bool


class ConfigRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is set for the configs of copies: `exclude` is config.properties.exclude, `source_defaults` whether
    use.defaults.from says source. `remove_foreign`: overrides that the source does not have go, as MM2 has it.
    """

    exclude: PatternList = PatternList(EXCLUDED_CONFIGS)
    source_defaults: bool = False
    remove_foreign: bool = False

    def concerns(self, name: str, entry: ConfigEntry) -> bool:
        """Whether an entry may be carried over at all."""
        return not (entry.read_only or entry.sensitive or self.exclude.matches(name))


def wanted_configs(configs: Mapping[str, ConfigEntry], rules: ConfigRules) -> dict[str, str]:
    """Return what the copy of a topic with these configs is to have, by the table above."""
    carried = {TOPIC_OVERRIDE, DYNAMIC_DEFAULT, DEFAULT} if rules.source_defaults else {TOPIC_OVERRIDE, DYNAMIC_DEFAULT}
    return {
        name: entry.value for name, entry in configs.items() if entry.source in carried and rules.concerns(name, entry)
    }


class WantedConfigs:
    """`wanted_configs` of many topics, worked out once for those that share one mapping of configs."""

    def __init__(self, rules: ConfigRules) -> None:
        self._rules = rules
        self._known: dict[int, tuple[Mapping[str, ConfigEntry], Mapping[str, str]]] = {}
        """By identity; each mapping is kept, so that no other one gets its place in memory."""

    def of(self, configs: Mapping[str, ConfigEntry]) -> Mapping[str, str]:
        """Return what a copy is to have."""
        known = self._known.get(id(configs))
        if known is None:
            known = self._known[id(configs)] = configs, wanted_configs(configs, self._rules)
        return known[1]


def endangers(name: str, value: str, present: str, replicas: int) -> str | None:
    """Return why a value must not be set in silence on a topic that has another and so many replicas; None: it may.

    `replicas` 0: not known.
    """
    if name == _UNCLEAN and value == "true" and present != "true":
        return f"{name}=true would let an election lose acknowledged records"
    if name != MIN_INSYNC:
        return None
    if int(value) < int(present):
        return f"{name} would be lowered from {present} to {value}"
    return needs_more_replicas(name, value, replicas)


def needs_more_replicas(name: str, value: str, replicas: int) -> str | None:
    """Return why a topic of so many replicas (0 or less: not known) could take no record with this config."""
    if name == MIN_INSYNC and 0 < replicas < int(value):
        return f"{name}={value} with {counted(replicas, 'replica')}: nothing could be appended"
    return None
