"""Expected values of copies: the rules of config sync, against what `wanted_configs` carries over."""

import pytest

from engine.flow.config_history.expected import UNSET, ExpectedValue, HistoryRules, expected_of
from engine.flow.config_history.look import ORIGINS, DefaultValue
from policies.own.own_policy import OwnPolicy
from policies.patterns import PatternList
from policies.sync.topic_configs import TOPIC_OVERRIDE, ConfigEntry, ConfigRules, wanted_configs
from tests.unit.policies.own.own_classes import Chosen

KEY = "orders.default"
RULES = (
    ConfigRules(exclude=PatternList(["nothing"])),
    ConfigRules(exclude=PatternList(["orders.*"])),
    ConfigRules(exclude=PatternList(["nothing"]), source_defaults=True),
    ConfigRules(own=OwnPolicy("com.acme.Chosen", {}, Chosen({}))),
    ConfigRules(own=OwnPolicy("com.acme.Chosen", {}, Chosen({"my.begin": "clicks"}))),
)


class Failing:
    """A filter that is broken."""

    def should_replicate_config_property(self, name: str) -> bool:
        raise KeyError(name)

    should_replicate_source_default = should_replicate_config_property


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("origin", [TOPIC_OVERRIDE, *ORIGINS])
def test_what_is_expected_is_what_config_sync_carries_over(rules: ConfigRules, origin: int) -> None:
    carried = wanted_configs({KEY: ConfigEntry("5", origin, False, False)}, rules)
    own, default = ({KEY: "5"}, None) if origin == TOPIC_OVERRIDE else ({}, DefaultValue("5", ORIGINS[origin]))
    found = expected_of(HistoryRules(configs=rules), own, KEY, default)
    assert found.is_wanted is (KEY in carried)
    assert found.value == carried.get(KEY)


def test_what_is_not_expected_says_why() -> None:
    own = HistoryRules(configs=RULES[4])
    assert expected_of(own, {KEY: "5"}, KEY, None).why == "com.acme.Chosen leaves it out"
    assert expected_of(HistoryRules(configs=RULES[1]), {}, KEY, None).why == "config.properties.exclude names it"
    assert expected_of(HistoryRules(configs=RULES[0]), {}, KEY, None).why == UNSET
    assert expected_of(HistoryRules(configs=RULES[0]), {KEY: None}, KEY, None).why == "Kafka does not give its value"
    broken = ConfigRules(own=OwnPolicy("com.acme.Failing", {}, Failing()))
    assert "com.acme.Failing: should_replicate" in expected_of(HistoryRules(configs=broken), {KEY: "5"}, KEY, None).why


def test_an_override_that_only_the_copy_has_is_not_expected_where_such_are_removed() -> None:
    rules = HistoryRules(configs=ConfigRules(remove_foreign=True))
    assert expected_of(rules, {}, "retention.ms", None) == ExpectedValue()
    assert not expected_of(
        HistoryRules(configs=ConfigRules(exclude=PatternList(["no"]), remove_foreign=True)),
        {},
        "min.insync.replicas",
        None,
    ).is_wanted


def test_an_expected_default_may_also_come_from_the_cluster_of_the_copy() -> None:
    soft, hard, none = ExpectedValue("5", soft=True), ExpectedValue("5"), ExpectedValue()
    default = DefaultValue("5", "file")
    assert [one.is_met({}, KEY, default) for one in (soft, hard, none)] == [True, False, True]
    assert [one.is_met({KEY: "5"}, KEY, None) for one in (soft, hard, none)] == [True, True, False]
    assert [one.is_met({KEY: "6"}, KEY, default) for one in (soft, hard, none)] == [False, False, False]
