"""Reads the settings of config and ACL sync: MM2's keys with MM2's defaults, and raymirror's own keys."""

import re

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from engine.config.settings import ConfigSyncConfig

_FILTER = re.compile(r"(?:org\.apache\.kafka\.connect\.mirror\.)?DefaultConfigPropertyFilter")
_EVERY_S = 600
_MOST_S = 2**31 - 1


def read_config_sync(reader: PropertyReader, keys: FlowKeys) -> ConfigSyncConfig:
    """Read the keys of a flow. Raises ConfigError."""

    def every(name: str) -> float:
        return float(reader.number(keys.flow(name), _EVERY_S, 1, _MOST_S))

    def switch(name: str, *, default: bool) -> bool:
        return reader.flag(keys.flow(name), default=default)

    _check_filter(reader, keys.flow("config.property.filter.class"))
    return ConfigSyncConfig(
        configs=switch("sync.topic.configs.enabled", default=True),
        configs_s=every("sync.topic.configs.interval.seconds"),
        acls=switch("sync.topic.acls.enabled", default=True),
        acls_s=every("sync.topic.acls.interval.seconds"),
        source_defaults=_word(reader, keys.filter("use.defaults.from"), ("target", "source")) == "source",
        remove_foreign=_word(reader, keys.flow("raymirror.sync.configs.foreign"), ("keep", "remove")) == "remove",
        acls_prefixed=switch("raymirror.sync.acls.prefixed", default=False),
        acls_groups=switch("raymirror.sync.acls.groups", default=False),
    )


def _word(reader: PropertyReader, key: str, words: tuple[str, str]) -> str:
    """Return one of two words; the first is the default."""
    found = reader.text(key, words[0])
    if found not in words:
        raise reader.error(key, f"{found!r} is unknown", f"write {' or '.join(words)}")
    return found


def _check_filter(reader: PropertyReader, key: str) -> None:
    name = reader.text(key, "DefaultConfigPropertyFilter")
    if not _FILTER.fullmatch(name):
        right = "use DefaultConfigPropertyFilter, with config.properties.exclude; custom Java classes cannot run here"
        reader.refuse_unsupported(key, f"unknown filter {name!r}", right)
