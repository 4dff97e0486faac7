"""Chooses topic configs that get another value for a while: tombstones are kept for longer, nothing is deleted by time.

Two cleanings would destroy what a failback needs. A compacted copy forgets a deletion after `delete.retention.ms`, and
the old source deletes by time what only it has, half a minute after its broker starts.
"""

from collections.abc import Iterable, Mapping

import msgspec

from policies.sync.topic_configs import TOPIC_OVERRIDE, ConfigEntry

LENT_STEP, LENT_NOTES = "retention", "lent"
"""The step of a failback that lends configs to topics of the source, and the name of its notes."""
CLEANUP, TOMBSTONES, RETENTION = "cleanup.policy", "delete.retention.ms", "retention.ms"
ENDLESS = "-1"


class LentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A config of a topic that has another value for a while; `before` None: the topic had no value of its own.

    `inherited`: what the topic had then instead; None also if a version has written it that did not keep that.
    """

    topic: str
    name: str
    before: str | None
    value: str
    inherited: ConfigEntry | None = None


Found = Mapping[str, dict[str, ConfigEntry]]
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


def may_be_lent(entries: Mapping[str, ConfigEntry]) -> bool:
    """Whether a topic with these configs may have a lent one, so that the records of what was lent must be read."""
    return any(
        entry.source == TOPIC_OVERRIDE and (name == TOMBSTONES or entry.value == ENDLESS)
        for name in (TOMBSTONES, RETENTION)
        if (entry := entries.get(name)) is not None
    )


def as_before(found: Found, lent: Iterable[LentConfig]) -> dict[str, dict[str, ConfigEntry]]:
    """Return the configs with the earlier values of those that are lent; what somebody has set since stays."""
    shown = {topic: dict(entries) if may_be_lent(entries) else entries for topic, entries in found.items()}
    for one in lent:
        entries = shown.get(one.topic, {})
        entry = entries.get(one.name)
        if entry is None or not is_lent(one, entry):
            continue
        if one.before is not None:
            entries[one.name] = msgspec.structs.replace(entry, value=one.before)
        elif one.inherited is not None:
            entries[one.name] = one.inherited
        else:
            del entries[one.name]
    return shown


def is_lent(one: LentConfig, entry: ConfigEntry) -> bool:
    """Whether a config still has the lent value."""
    return entry.source == TOPIC_OVERRIDE and entry.value == one.value


def still_lent(wanted: Iterable[LentConfig], known: Iterable[LentConfig]) -> tuple[LentConfig, ...]:
    """Return what is to be lent; where it is lent already (another value), with what was there before that."""
    earlier = {(one.topic, one.name): one for one in known}
    return tuple(
        msgspec.structs.replace(one, before=first.before, inherited=first.inherited)
        if (first := earlier.get((one.topic, one.name))) is not None and first.value == one.before
        else one
        for one in wanted
    )


def _lent(topic: str, name: str, entry: ConfigEntry, value: str) -> LentConfig:
    if entry.source == TOPIC_OVERRIDE:
        return LentConfig(topic=topic, name=name, before=entry.value, value=value)
    return LentConfig(topic=topic, name=name, before=None, value=value, inherited=entry)
