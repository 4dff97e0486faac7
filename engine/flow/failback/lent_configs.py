"""Topic configs that are changed for a while, with their earlier values: tombstones kept for longer, no retention.

Two cleanings would destroy what a failback needs. A compacted copy forgets a deletion after `delete.retention.ms`, and
the old source deletes by time what only it has, half a minute after its broker starts.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from engine.flow.ports.settings_port import Settings
from policies.sync.topic_configs import TOPIC_OVERRIDE, ConfigEntry

CLEANUP, TOMBSTONES, RETENTION = "cleanup.policy", "delete.retention.ms", "retention.ms"
ENDLESS = "-1"


class LentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A config of a topic that has another value for a while; `before` None: the topic had no value of its own."""

    topic: str
    name: str
    before: str | None
    value: str


class LentConfigs(msgspec.Struct, frozen=True, kw_only=True):
    """Configs that were changed, and topics whose config could not be changed, with why."""

    lent: tuple[LentConfig, ...] = ()
    failed: dict[str, str] = {}


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


async def keep_tombstones(settings: Settings, topics: Collection[str], least_ms: int) -> LentConfigs:
    """Let the compacted ones of these topics keep tombstones for at least `least_ms`.

    Raises ConnectionLost, BrokerUnreachable.
    """
    there = await settings.topics(sorted(topics))
    answers = await settings.configs(dict.fromkeys(there, (CLEANUP, TOMBSTONES)))
    wanted = longer_tombstones(answers.found, least_ms)
    failed = await change(settings, wanted)
    done = tuple(one for one in wanted if one.topic not in failed)
    return LentConfigs(lent=done, failed=failed | answers.failed)


async def change(settings: Settings, wanted: Iterable[LentConfig]) -> dict[str, str]:
    """Set these configs; return the topics that refuse, and why."""
    changes: dict[str, dict[str, str | None]] = {}
    for one in wanted:
        changes.setdefault(one.topic, {})[one.name] = one.value
    return await settings.alter(changes) if changes else {}


async def give_back(settings: Settings, lent: Collection[LentConfig]) -> dict[str, str]:
    """Restore the earlier values; return the topics where that failed, and why.

    A config that somebody has changed since is left as it is, and so is a topic that is gone. Raises ConnectionLost,
    BrokerUnreachable.
    """
    there = await settings.topics(sorted({one.topic for one in lent}))
    asked = {topic: tuple(one.name for one in lent if one.topic == topic) for topic in there}
    answers = await settings.configs(asked) if asked else None
    found = answers.found if answers is not None else {}
    changes: dict[str, dict[str, str | None]] = {}
    for one in lent:
        entry = found.get(one.topic, {}).get(one.name)
        if entry is not None and entry.source == TOPIC_OVERRIDE and entry.value == one.value != one.before:
            changes.setdefault(one.topic, {})[one.name] = one.before
    failed = await settings.alter(changes) if changes else {}
    return failed | (answers.failed if answers is not None else {})
