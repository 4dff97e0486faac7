"""What a target topic must look like, and which differences from its source will show in the data."""

import re

import msgspec

from policies.selection import translate

EXCLUDED_CONFIGS = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)
"""MM2's default of config.properties.exclude."""
COMPARED_CONFIGS = ("retention.ms", "retention.bytes", "message.timestamp.type", "cleanup.policy", "max.message.bytes")


class Create(msgspec.Struct, frozen=True):
    """Create the target topic."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


class Grow(msgspec.Struct, frozen=True):
    """Give the target topic more partitions."""

    partitions: int


Change = Create | Grow


def plan_topic(
    source_partitions: int, target_partitions: int | None, replication_factor: int, overrides: dict[str, str]
) -> Change | None:
    """Return what to do for a target topic, None where it is right; `target_partitions` None: it does not exist.

    A target with more partitions is left alone. `overrides` are the source topic's own (not default) configs.
    """
    if target_partitions is None:
        kept = {name: value for name, value in overrides.items() if not is_excluded(name)}
        return Create(source_partitions, replication_factor, kept)
    return Grow(source_partitions) if target_partitions < source_partitions else None


def is_excluded(config: str) -> bool:
    """Whether a topic config stays behind, as in MM2."""
    return any(re.fullmatch(translate(pattern), config) for pattern in EXCLUDED_CONFIGS)


def compare(source: dict[str, str], target: dict[str, str], oldest_age_ms: int | None) -> list[str]:
    """Return what will show in the data, in words, from the effective configs of both topics.

    `oldest_age_ms` is the age of the oldest record still to be copied, None where it is not known.
    """
    found: list[str] = []
    keeps_ms = int(target.get("retention.ms", "-1"))
    deletes = "delete" in target.get("cleanup.policy", "delete")
    if deletes and keeps_ms >= 0 and oldest_age_ms is not None and oldest_age_ms > keeps_ms:
        found.append(
            f"the oldest record to copy is {oldest_age_ms / 3_600_000:.1f} h old, the target keeps"
            f" {keeps_ms / 3_600_000:.1f} h (retention.ms): it will delete a part of the copy at once"
        )
    if target.get("message.timestamp.type") == "LogAppendTime":
        found.append("the target overwrites record timestamps (message.timestamp.type=LogAppendTime)")
    compacts = "compact" in target.get("cleanup.policy", "")
    if compacts and "compact" not in source.get("cleanup.policy", ""):
        found.append("the target compacts and the source does not: records without a key will be refused")
    limits = int(source.get("max.message.bytes", "0")), int(target.get("max.message.bytes", "0"))
    if limits[1] and limits[0] > limits[1]:
        found.append(
            f"the target takes batches up to {limits[1]} bytes, the source up to {limits[0]} (max.message.bytes)"
        )
    return found
