"""Changes topic configs for a while and restores them (`policies/dr/lent_config.py` says which)."""

from collections.abc import Collection, Iterable

import msgspec

from engine.flow.ports.settings_port import Settings
from policies.dr.lent_config import CLEANUP, TOMBSTONES, LentConfig, longer_tombstones
from policies.sync.topic_configs import TOPIC_OVERRIDE


class LentConfigs(msgspec.Struct, frozen=True, kw_only=True):
    """Configs that were changed, and topics whose config could not be changed, with why."""

    lent: tuple[LentConfig, ...] = ()
    failed: dict[str, str] = {}


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
