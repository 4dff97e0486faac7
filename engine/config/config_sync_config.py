"""Reads the settings of config and ACL sync: MM2's keys with MM2's defaults, and raymirror's own keys."""

from engine.config.flow_keys import FlowKeys
from engine.config.property_reader import PropertyReader
from engine.config.settings import ConfigSyncConfig
from engine.config.spark_config import is_on

_EVERY_S = 600
ON = "raymirror.config.sync.on"


def read_config_sync(reader: PropertyReader, keys: FlowKeys) -> ConfigSyncConfig:
    """Read the keys of a flow. Raises ConfigError."""
    defaults, foreign = keys.filter("use.defaults.from"), keys.flow("raymirror.sync.configs.foreign")
    return ConfigSyncConfig(
        configs=reader.flag(keys.flow("sync.topic.configs.enabled"), default=True),
        configs_s=reader.seconds(keys.flow("sync.topic.configs.interval.seconds"), _EVERY_S),
        acls=reader.flag(keys.flow("sync.topic.acls.enabled"), default=True),
        acls_s=reader.seconds(keys.flow("sync.topic.acls.interval.seconds"), _EVERY_S),
        source_defaults=reader.choice(defaults, ("target", "source"), any_case=False) == "source",
        remove_foreign=reader.choice(foreign, ("keep", "remove"), any_case=False) == "remove",
        acls_prefixed=reader.flag(keys.flow("raymirror.sync.acls.prefixed"), default=False),
        acls_groups=reader.flag(keys.flow("raymirror.sync.acls.groups"), default=False),
        on_spark=_is_on_spark(reader, keys.flow(ON)),
    )


def _is_on_spark(reader: PropertyReader, key: str) -> bool:
    """Return whether Spark plans the rounds: if the file does not say it, where Spark is on."""
    has_spark = is_on(reader)
    order = ("spark", "actor") if has_spark else ("actor", "spark")
    chosen = reader.choice(key, order, any_case=False) == "spark"
    if chosen and not has_spark:
        right = "set raymirror.spark = on, or set this to actor"
        raise reader.error(key, "spark, but raymirror.spark is off", right).dependent("raymirror.spark")
    return chosen
