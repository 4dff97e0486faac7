"""Expected values: what a config of a copy should be by the rules of config sync, or why they leave it alone. Pure."""

from typing import NamedTuple

import msgspec

from engine.flow.config_history.look import DefaultValue, Values
from policies.own.own_policy import OwnPolicyError
from policies.sync.topic_configs import DURABLE, ConfigRules

UNSET = "the source topic does not set it"


class HistoryRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a flow; `syncs`: whether raymirror brings configs of copies in step at all."""

    configs: ConfigRules = ConfigRules()
    syncs: bool = True


class ExpectedValue(NamedTuple):
    """What a config of a copy should be (None: not set); `why`: why the copy's own value stays; empty: it does not.

    `soft`: it may also come from the copy's cluster.
    """

    value: str | None = None
    why: str = ""
    soft: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether config sync brings the copy to this value."""
        return not self.why

    def is_met(self, copy: Values, key: str, default: DefaultValue | None) -> bool:
        """Whether a copy with these overrides has the value. `default`: what its cluster has."""
        if key in copy:
            return self.value is not None and copy[key] == self.value
        return self.value is None or (self.soft and default is not None and default.value == self.value)


def expected_of(rules: HistoryRules, source: Values, key: str, default: DefaultValue | None) -> ExpectedValue:
    """Return what a copy should have, whose source topic has these overrides; `default`: what the source's cluster has.

    The table in `policies/sync/topic_configs.py` has the rules. A filter of the user that fails leaves configs alone.
    """
    try:
        return _expected(rules, source, key, default)
    except OwnPolicyError as failed:
        return ExpectedValue(why=str(failed))


def _expected(rules: HistoryRules, source: Values, key: str, default: DefaultValue | None) -> ExpectedValue:
    if rules.configs.excludes(key):
        own = rules.configs.own
        return ExpectedValue(why="config.properties.exclude names it" if own is None else f"{own.name} leaves it out")
    if key in source:
        value = source[key]
        return ExpectedValue(value) if value is not None else ExpectedValue(why="Kafka does not give its value")
    if default is not None and default.value is not None and _is_carried(rules, key, default):
        return ExpectedValue(default.value, soft=True)
    if rules.configs.remove_foreign and key not in DURABLE:
        return ExpectedValue()
    return ExpectedValue(why=UNSET)


def _is_carried(rules: HistoryRules, key: str, default: DefaultValue) -> bool:
    return default.origin == "cluster" or (default.origin == "kafka" and rules.configs.carries_default(key))
