"""Changes topic configs for a while and restores them (`policies/dr/lent_config.py` says which)."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

import msgspec

from engine.base.errors import MirrorError
from engine.flow.ports.settings_port import Settings
from policies.dr.lent_config import CLEANUP, TOMBSTONES, LentConfig, is_lent, longer_tombstones, still_lent
from policies.words import counted


class LentConfigs(msgspec.Struct, frozen=True, kw_only=True):
    """Configs that were changed, and topics whose config could not be changed, with why."""

    lent: tuple[LentConfig, ...] = ()
    failed: dict[str, str] = {}


class NotTakenBack(MirrorError):
    """Configs that a failover has lent could not be restored: cluster, topics and why."""

    exit_code = 1

    def __init__(self, cluster: str, failed: Mapping[str, str]) -> None:
        super().__init__(cluster, failed)
        self.cluster, self.failed = cluster, failed

    def __str__(self) -> str:
        topic, why = next(iter(self.failed.items()))
        return (
            f"the {TOMBSTONES} that a failover has raised could not be restored on cluster {self.cluster!r} for"
            f" {counted(len(self.failed), 'topic')}, {topic} for example: {why}"
        )


class Loans(Protocol):
    """What is stored of the configs that are lent to topics of a cluster. All raise what `UnownedLog` raises."""

    async def read(self) -> tuple[LentConfig, ...]:
        """Return what is lent."""

    async def note(self, lent: Iterable[LentConfig]) -> None:
        """Store what is to be lent."""

    async def forget(self, lent: Iterable[LentConfig]) -> None:
        """Remove what is lent no longer."""


async def keep_tombstones(settings: Settings, loans: Loans, topics: Collection[str], least_ms: int) -> LentConfigs:
    """Let the compacted ones of these topics keep tombstones for at least `least_ms`; the earlier values are stored.

    Raises ConnectionLost, BrokerUnreachable, and what `loans` raises.
    """
    there = await settings.topics(sorted(topics))
    answers = await settings.configs(dict.fromkeys(there, (CLEANUP, TOMBSTONES)))
    wanted = longer_tombstones(answers.found, least_ms)
    if not wanted:
        return LentConfigs(failed=answers.failed)
    wanted = still_lent(wanted, await loans.read())
    await loans.note(wanted)  # before any is changed
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
        if entry is not None and is_lent(one, entry) and one.value != one.before:
            changes.setdefault(one.topic, {})[one.name] = one.before
    failed = await settings.alter(changes) if changes else {}
    return failed | (answers.failed if answers is not None else {})


async def take_back(settings: Settings, loans: Loans) -> dict[str, str]:
    """Restore the earlier values of all that is lent, and forget it; return the topics where that failed, and why.

    `settings`: with the values that are lent. Raises as `keep_tombstones` does.
    """
    lent = await loans.read()
    failed = await give_back(settings, lent) if lent else {}
    await loans.forget(one for one in lent if one.topic not in failed)
    return failed
