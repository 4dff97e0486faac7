"""Chooses topic configs that get another value for a while: tombstones are kept for longer, nothing is deleted by time.

Two cleanings would destroy what a failback needs. A compacted copy forgets a deletion after `delete.retention.ms`, and
the old source deletes by time what only it has, half a minute after its broker starts.
"""

from collections.abc import Mapping

import msgspec

from policies.sync.topic_configs import TOPIC_OVERRIDE, ConfigEntry

CLEANUP, TOMBSTONES, RETENTION = "cleanup.policy", "delete.retention.ms", "retention.ms"
ENDLESS = "-1"


class LentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A config of a topic that has another value for a while; `before` None: the topic had no value of its own."""

    topic: str
    name: str
    before: str | None
    value: str


Found = Mapping[str, Mapping[str, ConfigEntry]]
"""The configs of topics, by topic and name."""


def longer_tombstones(found: Found, least_ms: int) -> tuple[LentConfig, ...]:
    """Return what lets compacted topics keep tombstones for at least `least_ms`."""
    return tuple(
        _lent(topic, TOMBSTONES, entries[TOMBSTONES], str(least_ms))
        for topic, entries in sorted(found.items())
        if "compact" in entries[CLEANUP].value.split(",") and int(entries[TOMBSTONES].value) < least_ms
    )


def endless_retention(found: Found) -> tuple[LentConfig, ...]:
    """Return what stops topics from deleting by time."""
    return tuple(
        _lent(topic, RETENTION, entries[RETENTION], ENDLESS)
        for topic, entries in sorted(found.items())
        if entries[RETENTION].value != ENDLESS
    )


def _lent(topic: str, name: str, entry: ConfigEntry, value: str) -> LentConfig:
    before = entry.value if entry.source == TOPIC_OVERRIDE else None
    return LentConfig(topic=topic, name=name, before=before, value=value)
