"""Whether a mirror runs Spark, and how large, out of the properties."""

from engine.property_reader import PropertyReader
from engine.settings import SparkConfig

_DEFAULTS = SparkConfig()
_MIB = 1024 * 1024
_LEAST_MEMORY = 450 * _MIB
"""Spark refuses an executor with less (1.5 times what it reserves for itself)."""
_MOST_MEMORY = 1024 * 1024 * _MIB


def read_spark(reader: PropertyReader) -> SparkConfig:
    """Return the mirror's Spark settings; they are checked also where Spark is off. Raises ConfigError."""
    return SparkConfig(
        on=is_on(reader),
        executors=reader.number("raymirror.spark.executors", _DEFAULTS.executors, 1, 10_000),
        cores=reader.number("raymirror.spark.executor.cores", _DEFAULTS.cores, 1, 1_000),
        memory_bytes=reader.number(
            "raymirror.spark.executor.memory.bytes", _DEFAULTS.memory_bytes, _LEAST_MEMORY, _MOST_MEMORY
        ),
        jars=_jars(reader, "raymirror.spark.jars"),
        shared=reader.flag("raymirror.storage.shared", default=_DEFAULTS.shared),
    )


def is_on(reader: PropertyReader) -> bool:
    """Return whether the mirror runs Spark. Raises ConfigError."""
    key = "raymirror.spark"
    text = reader.text(key, "off").lower()
    if text not in ("on", "off"):
        raise reader.error(key, f"{text!r} is neither on nor off", "write on or off")
    return text == "on"


def _jars(reader: PropertyReader, key: str) -> tuple[str, ...]:
    paths = reader.list(key)
    for path in paths:
        if not path.startswith("/") or not path.endswith(".jar"):
            raise reader.error(
                key, f"{path!r} is no absolute path of a jar", "write e.g. /opt/jars/hadoop-aws-3.3.4.jar"
            )
    return tuple(paths)
