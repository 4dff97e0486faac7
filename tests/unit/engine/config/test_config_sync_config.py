"""The keys of config and ACL sync."""

import pytest

from engine.base.errors import ConfigError
from engine.config.settings import ConfigSyncConfig
from tests.unit.engine.config_files import flow, mirror


def test_defaults_are_mm2s() -> None:
    found = flow().config_sync
    assert found == ConfigSyncConfig()
    assert (found.configs, found.configs_s, found.acls, found.acls_s) == (True, 600.0, True, 600.0)
    assert (found.source_defaults, found.remove_foreign) == (False, False)
    assert flow().acl_rules.groups is None


def test_rules_are_made_of_keys() -> None:
    found = flow(
        "A->B.use.defaults.from = source\nraymirror.sync.configs.foreign = remove\nconfig.properties.exclude = x.*\n"
        "raymirror.sync.acls.groups = true\nraymirror.sync.acls.prefixed = true\ngroups = bill.*\n"
        "config.property.filter.class = org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter\n"
    )
    rules, acls = found.config_rules, found.acl_rules
    assert (rules.source_defaults, rules.remove_foreign, rules.exclude.patterns) == (True, True, ("x.*",))
    assert acls.groups is not None
    assert (acls.prefixed, acls.groups.why_not("billing"), acls.groups.why_not("x")) == (True, None, "not in groups")


@pytest.mark.parametrize(
    ("line", "key", "right"),
    [
        ("A->B.use.defaults.from = both", "A->B.use.defaults.from", "target or source"),
        ("raymirror.sync.configs.foreign = x", "raymirror.sync.configs.foreign", "keep or remove"),
        ("sync.topic.configs.interval.seconds = 0", "sync.topic.configs.interval.seconds", "from 1"),
        ("sync.topic.acls.enabled = yes", "sync.topic.acls.enabled", "true or false"),
        ("raymirror.config.sync.on = ray", "raymirror.config.sync.on", "actor or spark"),
        ("raymirror.config.sync.on = spark", "raymirror.config.sync.on", "set raymirror.spark = on"),
        ("A->B.raymirror.config.sync.on = spark", "A->B.raymirror.config.sync.on", "or set this to actor"),
        ("raymirror.config.history = yes", "raymirror.config.history", "write off or on"),
        ("raymirror.config.history = on", "raymirror.config.history", "name a raymirror.storage"),
        ("config.property.filter.class = com.example.Mine", "config.property.filter.class", "DefaultConfigProperty"),
    ],
)
def test_what_cannot_be_used_names_its_line_and_what_would_be_right(line: str, key: str, right: str) -> None:
    with pytest.raises(ConfigError) as told:
        mirror(f"{line}\n")
    assert (told.value.line, told.value.key) == (5, key)
    assert right in told.value.right


def test_spark_plans_the_rounds_where_it_is_on_unless_the_file_says_otherwise() -> None:
    on, key = "raymirror.spark = on\n", "raymirror.config.sync.on"
    assert [flow(text).config_sync.on_spark for text in ("", on)] == [False, True]
    assert not flow(f"{on}{key} = actor\n").config_sync.on_spark
    assert not flow(f"{key} = actor\n").config_sync.on_spark
    assert flow(f"{on}{key} = actor\nA->B.{key} = spark\n").config_sync.on_spark
    assert not flow(f"{on}{key} = spark\nA->B.{key} = actor\n").config_sync.on_spark


def test_what_is_wrong_with_spark_is_told_once() -> None:
    with pytest.raises(ConfigError) as told:
        mirror("raymirror.spark = maybe\nraymirror.config.sync.on = spark\n")
    assert told.value.key == "raymirror.spark"


def test_a_flow_without_configs_and_acls_has_no_rounds() -> None:
    off = "sync.topic.configs.enabled = false\n"
    assert flow(off).config_sync.has_rounds
    assert not flow(f"{off}sync.topic.acls.enabled = false\n").config_sync.has_rounds


def test_the_history_is_kept_where_it_can_be_unless_the_file_says_otherwise() -> None:
    storage, key, off = (
        "raymirror.storage = file:/x\n",
        "raymirror.config.history",
        "sync.topic.configs.enabled = false\n",
    )
    assert [flow(text).config_sync.history for text in ("", storage, storage + off)] == [False, True, False]
    assert not flow(f"{storage}{key} = off\n").config_sync.history
    assert not flow(f"{key} = off\n").config_sync.history
    assert flow(f"{storage}{off}{key} = on\n").config_sync.history
    assert not flow(f"{storage}{key} = on\nA->B.{key} = off\n").config_sync.history
    no_acls = "sync.topic.acls.enabled = false\n"
    assert flow(f"{storage}{off}{no_acls}{key} = on\n").config_sync.has_rounds


def test_a_storage_that_is_wrong_is_told_once() -> None:
    with pytest.raises(ConfigError) as told:
        mirror("raymirror.storage = nowhere\nraymirror.config.history = on\n")
    assert told.value.key == "raymirror.storage"
