"""Effects of a source topic's configs on its copy."""

import pytest

from policies.patterns import PatternList
from policies.sync.topic_configs import (
    DEFAULT,
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT,
    EXCLUDED_CONFIGS,
    STATIC_BROKER,
    TOPIC_OVERRIDE,
    ConfigEntry,
    ConfigRules,
    WantedConfigs,
    endangers,
    needs_more_replicas,
    wanted_configs,
)


def entry(source: int, value: str = "1", *, read_only: bool = False, sensitive: bool = False) -> ConfigEntry:
    return ConfigEntry(value, source, read_only, sensitive)


@pytest.mark.parametrize(
    ("source", "by_target", "by_source"),
    [
        (TOPIC_OVERRIDE, True, True),
        (DYNAMIC_DEFAULT, True, True),
        (DYNAMIC_BROKER, False, False),
        (STATIC_BROKER, False, False),
        (DEFAULT, False, True),
    ],
)
def test_who_set_it_decides(source: int, by_target: bool, by_source: bool) -> None:
    configs = {"retention.ms": entry(source, "7")}
    for source_defaults, carried in ((False, by_target), (True, by_source)):
        wanted = wanted_configs(configs, ConfigRules(source_defaults=source_defaults))
        assert wanted == ({"retention.ms": "7"} if carried else {})


def test_topics_that_share_their_configs_share_what_is_wanted() -> None:
    wanted, shared = WantedConfigs(ConfigRules()), {"retention.ms": entry(TOPIC_OVERRIDE, "7")}
    assert wanted.of(shared) is wanted.of(shared)
    for value in range(50):  # the memory of each is free for the next, if nobody keeps it
        assert wanted.of({"retention.ms": entry(TOPIC_OVERRIDE, str(value))}) == {"retention.ms": str(value)}


def test_what_is_excluded_sensitive_or_read_only_stays() -> None:
    configs = {
        "a": entry(TOPIC_OVERRIDE, sensitive=True),
        "b": entry(TOPIC_OVERRIDE, read_only=True),
        "min.insync.replicas": entry(TOPIC_OVERRIDE, "2"),
        "retention.ms": entry(TOPIC_OVERRIDE, "3"),
    }
    assert wanted_configs(configs, ConfigRules()) == {"retention.ms": "3"}
    own = ConfigRules(exclude=PatternList([r"retention\..*"]))
    assert wanted_configs(configs, own) == {"min.insync.replicas": "2"}
    assert len(EXCLUDED_CONFIGS) == 6


@pytest.mark.parametrize(
    ("name", "value", "present", "replicas", "words"),
    [
        ("min.insync.replicas", "1", "2", 3, "lowered from 2 to 1"),
        ("min.insync.replicas", "3", "1", 2, "no record could be appended"),
        ("min.insync.replicas", "2", "1", 2, None),
        ("min.insync.replicas", "3", "1", 0, None),
        ("unclean.leader.election.enable", "true", "false", 3, "lose acknowledged records"),
        ("unclean.leader.election.enable", "true", "true", 3, None),
        ("unclean.leader.election.enable", "false", "true", 3, None),
        ("retention.ms", "1", "2", 1, None),
    ],
)
def test_durability_is_not_lowered(name: str, value: str, present: str, replicas: int, words: str | None) -> None:
    found = endangers(name, value, present, replicas)
    assert found is None if words is None else words in (found or "")


def test_other_configs_need_no_replicas() -> None:
    assert needs_more_replicas("retention.ms", "5", 1) is None
