"""Reads the Spark and proof settings: whether Spark runs, how large, and whether copies are proven all the time."""

from engine.config.property_reader import PropertyReader
from engine.config.settings import ProofConfig, SparkConfig
from engine.config.storage import KEY, Storage

_DEFAULTS = SparkConfig()
_MIB = 1024 * 1024
_LEAST_MEMORY = 450 * _MIB
"""Bytes: Spark refuses an executor with less memory (1.5 times what Spark reserves for itself)."""
_MOST_MEMORY = 1024 * 1024 * _MIB


def read_spark(reader: PropertyReader) -> SparkConfig:
    """Return the mirror's Spark settings; they are checked even if Spark is off. Raises ConfigError."""
    executors = reader.number("raymirror.spark.executors", 0, 1, 10_000)
    return SparkConfig(
        on=is_on(reader),
        executors=executors or _DEFAULTS.executors,
        idle_s=float(reader.number("raymirror.spark.executors.idle.seconds", int(_DEFAULTS.idle_s), 0, 86_400)),
        cores=reader.number("raymirror.spark.executor.cores", 1 if executors else _DEFAULTS.cores, 1, 1_000),
        memory_bytes=reader.number(
            "raymirror.spark.executor.memory.bytes", _DEFAULTS.memory_bytes, _LEAST_MEMORY, _MOST_MEMORY
        ),
        jars=_jars(reader, "raymirror.spark.jars"),
        shared=reader.flag("raymirror.storage.shared", default=_DEFAULTS.shared),
    )


def read_proof(reader: PropertyReader, spark: SparkConfig, storage: Storage | None) -> ProofConfig:
    """Return whether copies are proven all the time. Raises ConfigError."""
    key = "raymirror.proof"
    found = ProofConfig(
        on=_switch(reader, key),
        interval_s=float(reader.number(f"{key}.interval.seconds", int(ProofConfig().interval_s), 1, 86_400)),
    )
    if found.on and not spark.on:
        raise reader.error(
            key, "on, but raymirror.spark is off", "set raymirror.spark = on, or set this to off"
        ).dependent("raymirror.spark")
    if found.on and storage is None:
        right = "name a raymirror.storage, e.g. file:/var/lib/raymirror"
        raise reader.error(key, "on, but no raymirror.storage is set to store what is proven", right).dependent(KEY)
    return found


def is_on(reader: PropertyReader) -> bool:
    """Return whether the mirror runs Spark. Raises ConfigError."""
    return _switch(reader, "raymirror.spark")


def _switch(reader: PropertyReader, key: str) -> bool:
    text = reader.text(key, "off").lower()
    if text not in ("on", "off"):
        raise reader.error(key, f"{text!r} is neither on nor off", "write on or off")
    return text == "on"


def _jars(reader: PropertyReader, key: str) -> tuple[str, ...]:
    paths = reader.list(key)
    for path in paths:
        if not path.startswith("/") or not path.endswith(".jar"):
            raise reader.error(
                key, f"{path!r} is not an absolute path of a jar", "write e.g. /opt/jars/hadoop-aws-3.3.4.jar"
            )
    return tuple(paths)
