"""Plans the creation of a target topic, and finds differences from its source that change the copied data."""

from collections.abc import Mapping

import msgspec

from policies.sync.topic_configs import needs_more_replicas

COMPARED_CONFIGS = (
    "retention.ms",
    "retention.bytes",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "cleanup.policy",
    "max.message.bytes",
)


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
    source_partitions: int, target_partitions: int | None, replication_factor: int, configs: Mapping[str, str]
) -> Change | None:
    """Return the change that a target topic needs; None if none; `target_partitions` None: it does not exist.

    A target with more partitions is left alone. `configs`: the configs that the copy should have (`wanted_configs`);
    configs that need more than `replication_factor` replicas are left out.
    """
    if target_partitions is None:
        kept = {
            name: value
            for name, value in configs.items()
            if needs_more_replicas(name, value, replication_factor) is None
        }
        return Create(source_partitions, replication_factor, kept)
    return Grow(source_partitions) if target_partitions < source_partitions else None


def compare(source: Mapping[str, str], target: Mapping[str, str], oldest_age_ms: int | None) -> list[str]:
    """Return the differences that change the copied data, in words, from the effective configs of both topics.

    `oldest_age_ms`: the age of the oldest record still to copy; None if it is not known, or does not matter.
    """
    checks = (_age(target, oldest_age_ms), _size(source, target), _stamps(target), _policy(source, target))
    return [found for found in (*checks, _batches(source, target)) if found is not None]


def age_limit_ms(target: Mapping[str, str]) -> int | None:
    """Return the age in ms from which on the target refuses or deletes a record; None: it takes records of any age."""
    return min((limit for limit in (_takes_ms(target), _keeps_ms(target)) if limit is not None), default=None)


def _takes_ms(target: Mapping[str, str]) -> int | None:
    takes_ms = _number(target, "message.timestamp.before.max.ms")
    return takes_ms if takes_ms >= 0 and target.get("message.timestamp.type") != "LogAppendTime" else None


def _keeps_ms(target: Mapping[str, str]) -> int | None:
    keeps_ms = _number(target, "retention.ms")
    return keeps_ms if keeps_ms >= 0 and _deletes(target) else None


def _age(target: Mapping[str, str], oldest_age_ms: int | None) -> str | None:
    takes_ms, keeps_ms = _takes_ms(target), _keeps_ms(target)
    if oldest_age_ms is None:
        return None
    if takes_ms is not None and takes_ms < oldest_age_ms:
        return (
            f"the oldest record to copy is {_hours(oldest_age_ms)} old, the target refuses records older than"
            f" {_hours(takes_ms)} (message.timestamp.before.max.ms)"
        )
    if keeps_ms is not None and keeps_ms < oldest_age_ms:
        return (
            f"the oldest record to copy is {_hours(oldest_age_ms)} old, the target keeps {_hours(keeps_ms)}"
            " (retention.ms): it will delete part of the copy at once"
        )
    return None


def _size(source: Mapping[str, str], target: Mapping[str, str]) -> str | None:
    had, keeps = _number(source, "retention.bytes"), _number(target, "retention.bytes")
    if keeps < 0 or not _deletes(target) or 0 <= had <= keeps:
        return None
    has = f"{had} bytes" if had >= 0 else "no limit"
    return f"the target keeps {keeps} bytes of a partition, the source {has} (retention.bytes)"


def _stamps(target: Mapping[str, str]) -> str | None:
    if target.get("message.timestamp.type") != "LogAppendTime":
        return None
    return "the target overwrites record timestamps (message.timestamp.type=LogAppendTime)"


def _policy(source: Mapping[str, str], target: Mapping[str, str]) -> str | None:
    if "compact" in source.get("cleanup.policy", "") or "compact" not in target.get("cleanup.policy", ""):
        return None
    return "the target compacts and the source does not: the target will refuse records without a key (cleanup.policy)"


def _batches(source: Mapping[str, str], target: Mapping[str, str]) -> str | None:
    sent, taken = _number(source, "max.message.bytes"), _number(target, "max.message.bytes")
    if taken < 0 or sent <= taken:
        return None
    return f"the target accepts batches up to {taken} bytes, the source up to {sent} bytes (max.message.bytes)"


def _deletes(configs: Mapping[str, str]) -> bool:
    return "delete" in configs.get("cleanup.policy", "delete")


def _number(configs: Mapping[str, str], name: str) -> int:
    """Return a config as a number; -1, Kafka's value for no limit, if it is missing."""
    return int(configs.get(name, "-1"))


def _hours(milliseconds: int) -> str:
    return f"{milliseconds / 3_600_000:.1f} h"
