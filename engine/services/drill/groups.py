"""Rehearses the groups of a failover: translates every commit and commits it under a shadow name on the target."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.core.offset_map.offset_map import CLAMPED
from engine.flow.groups.status import selected
from engine.flow.groups.translations import TranslatedOffset, Translations
from engine.flow.ports.ports import Cluster, Groups, Offsets, Stored
from engine.services.drill.log_reads import read_some
from policies.dr.drill import DrillFinding, DrillFindingName, judge_checkpoint, not_judged, shadow_group
from policies.groups import GroupSelection, GroupState, WrittenCheckpoint
from policies.model import TopicPartition

_AT_ONCE = 20
_AGAIN_S = 0.5
_COUNTED = 100
"""Records that are counted at most between a checkpoint and its translation."""
_FAILURES = (BrokerUnreachable, ConnectionLost, KafkaRefusal)
Places = Mapping[str, Sequence[TranslatedOffset]]


class RehearsedGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The translated offsets of each group, and what was found."""

    places: dict[str, list[TranslatedOffset]]
    findings: tuple[DrillFinding, ...]

    @property
    def movable(self) -> dict[str, list[TranslatedOffset]]:
        """The groups that have an offset on the target, with those offsets."""
        known = {group: [one for one in rows if one.offset >= 0] for group, rows in self.places.items()}
        return {group: rows for group, rows in known.items() if rows}


class GroupRehearsal:
    """The groups of one flow; `chosen`: whether a group takes part. Live groups are only read."""

    def __init__(
        self,
        selection: GroupSelection,
        source: Groups,
        target: Groups,
        translations: Translations,
        chosen: Callable[[str], bool],
    ) -> None:
        self._selection, self._source, self._target = selection, source, target
        self._translations, self._chosen = translations, chosen

    async def translate(self, within_s: float) -> RehearsedGroups:
        """Translate the commits; wait up to `within_s` for offsets that the copy has not reached yet.

        The target's offsets are read first: so a group that is ahead there is ahead of a later commit, too. Raises
        ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        groups, others, unheard = await selected(self._source, self._selection)
        groups = [group for group in groups if self._chosen(group)]
        stored, states = await self._target.offsets(groups), await self._target.states(groups)
        commits = await self._source.offsets(groups, stable=True)
        places = await self._translations.places(commits.found)
        give_up_at_s = now_s() + within_s
        while (late := _waiting(places)) and now_s() < give_up_at_s:
            await pause(_AGAIN_S)
            places |= await self._translations.places({group: commits.found[group] for group in late})
        failed = unheard | commits.failed | stored.failed | states.failed
        findings = [_failed(group, why) for group, why in failed.items()]
        findings += [not_judged(f"group {group}", why) for group, why in others.items() if self._chosen(group)]
        for group, rows in places.items():
            findings += _standing(group, rows, stored.found.get(group, {}), states.found.get(group))
        return RehearsedGroups(places={group: rows for group, rows in places.items() if rows}, findings=tuple(findings))

    async def commit(self, run_id: str, places: Places) -> list[DrillFinding]:
        """Commit the offsets of each group under its shadow name, and read them back. Raises as `translate` does."""
        at_once, found = asyncio.Semaphore(_AT_ONCE), list[DrillFinding]()

        async def one(group: str, rows: Sequence[TranslatedOffset]) -> None:
            async with at_once:
                wanted: dict[TopicPartition, Stored] = {row.target: (row.offset, "") for row in rows}
                try:
                    refused = await self._target.commit(shadow_group(run_id, group), wanted)
                except _FAILURES as failure:
                    found.append(_failed(group, str(failure)))
                    return
                found.extend(_failed(group, f"commit of {where}: {why}") for where, why in list(refused.items())[:3])

        async with asyncio.TaskGroup() as tasks:
            for group, rows in places.items():
                tasks.create_task(one(group, rows))
        shadows = {shadow_group(run_id, group): group for group in places}
        there = await self._target.offsets(list(shadows))
        found += [_failed(shadows[shadow], why) for shadow, why in there.failed.items()]
        bad = {one.subject for one in found}
        for shadow, offsets in there.found.items():
            group = shadows[shadow]
            lost = [row for row in places[group] if offsets.get(row.target, (-1, ""))[0] != row.offset]
            if lost and _subject(group) not in bad:
                found.append(_failed(group, f"its commit of {lost[0].target} was acknowledged, and is not there"))
        return found

    async def checkpoints(
        self, written: Mapping[str, Mapping[TopicPartition, WrittenCheckpoint]], places: Places, target: Cluster
    ) -> list[DrillFinding]:
        """Compare the last checkpoints with exact translations of their source offsets. Raises as `translate` does."""
        lanes = {row.target: row.lane for rows in places.values() for row in rows}
        asked: dict[str, Offsets] = {
            group: {lanes[where]: (one.source, "") for where, one in rows.items() if where in lanes}
            for group, rows in written.items()
            if group in places
        }
        found: list[DrillFinding] = []
        for group, rows in (await self._translations.places(asked)).items():
            for row in rows:
                checkpoint = written[group][row.target]
                if row.offset < 0 or row.how == CLAMPED or checkpoint.target == row.offset:
                    continue
                repeats = len(await read_some(target, row.target, checkpoint.target, row.offset, _COUNTED))
                pair = checkpoint.source, checkpoint.target
                finding = judge_checkpoint(group, str(row.target), pair, row.offset, repeats=repeats)
                found += [finding] if finding is not None else []
        return found


def _waiting(places: Places) -> list[str]:
    return [group for group, rows in places.items() if any(row.offset < 0 for row in rows)]


def _subject(group: str) -> str:
    return f"group {group}"


def _failed(group: str, why: str) -> DrillFinding:
    return DrillFinding(name=DrillFindingName.GROUP_FAILED, subject=_subject(group), why=why)


def _standing(
    group: str, rows: Sequence[TranslatedOffset], stored: Offsets, state: GroupState | None
) -> list[DrillFinding]:
    """Say why a failover would not place a group exactly; nothing if it would."""
    found = [
        DrillFinding(
            name=DrillFindingName.NOT_TRANSLATED,
            subject=f"{_subject(group)}, {row.lane}",
            why=f"source offset {row.source_offset} has no target offset: {row.how}",
        )
        for row in rows
        if row.offset < 0
    ]
    if state is GroupState.ACTIVE:
        why = "it has members on the target, so the brokers would refuse its offsets"
        return [*found, DrillFinding(name=DrillFindingName.GROUP_ACTIVE, subject=_subject(group), why=why)]
    for row in rows:
        at = stored.get(row.target, (-1, ""))[0]
        if 0 <= row.offset < at:
            why = f"it stands at {at} on the target, and would be at {row.offset}: a failover never moves a group back"
            found.append(
                DrillFinding(name=DrillFindingName.GROUP_AHEAD, subject=f"{_subject(group)}, {row.target}", why=why)
            )
    return found
