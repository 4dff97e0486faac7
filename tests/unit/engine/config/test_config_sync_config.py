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
        ("config.property.filter.class = com.example.Mine", "config.property.filter.class", "DefaultConfigProperty"),
    ],
)
def test_what_cannot_be_used_names_its_line_and_what_would_be_right(line: str, key: str, right: str) -> None:
    with pytest.raises(ConfigError) as told:
        mirror(f"{line}\n")
    assert (told.value.line, told.value.key) == (5, key)
    assert right in told.value.right
