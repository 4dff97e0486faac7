"""Surveys a migration over both clusters: which groups read which topics, what has moved, and what is left.

It looks at the commits of groups twice, some seconds apart, so that consumers that use `assign()` are noticed: their
commits advance while the group has no members.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from engine.base.clock import pause
from engine.core.reports.move_progress import MigratingGroup, MoveProgress
from engine.flow.ports.ports import Answers, GroupListing, Groups, Offsets
from engine.kafka.admin.client_quotas import scram_users, told_quotas
from engine.services.dr.move_log import MoveLog
from engine.services.dr.moves.hook import addresses_of
from engine.services.dr.switchover.world import DrainWorld, grown_since_move
from engine.state.moves import Moves
from engine.state.state import MovedGroup
from policies.dr.move_clients import SCHEMAS, ClientGap, ClientSettings, client_gaps, schema_gaps
from policies.dr.topic_moves import ReadingGroup, part_of, topic_progress
from policies.groups import DRILL_GROUPS, GroupSelection, GroupState

WATCH_S = 6.0
"""Seconds between two looks at commits: consumers commit every five seconds by default."""


class GroupSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """The groups that read topics of the source. `failed`: groups and brokers that could not be asked, and why."""

    groups: tuple[ReadingGroup, ...]
    failed: Mapping[str, str] = {}


class MoveSurvey:
    """Reads a migration through an opened world, which stays its owner's."""

    def __init__(self, world: DrainWorld) -> None:
        self._world, self._flow = world, world.flow
        self.log = MoveLog(world.target, world.target_client, world.flow)

    async def progress(self, watch_s: float = WATCH_S) -> MoveProgress:
        """Return where it stands. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, StateUnreadable."""
        topics, moves = await self._world.fenced_topics(), await self.log.read()
        found = await self.groups(topics, moves, watch_s)
        copies = {name: self._flow.selection.target_topic(name) for name in topics}
        at_ms = {name: one.at_ms for name, one in moves.topics.items()}
        rows = topic_progress(copies, found.groups, at_ms, await grown_since_move(self._world, moves.topics))
        groups = tuple(_migrating(one, moves.groups.get(one.group)) for one in found.groups)
        clusters = self._world.config.clusters
        return MoveProgress(
            flow=str(self._flow.name),
            topics=tuple(rows),
            groups=groups,
            failed=found.failed,
            clients=tuple(await self._clients(copies)),
            addresses={alias: addresses_of(clusters[alias].bootstrap) for alias in self._flow.name},
        )

    async def _clients(self, copies: Mapping[str, str]) -> list[ClientGap]:
        """Compare logins and quotas of both clusters, and look for schemas."""
        here, there = self._world.source_client, self._world.target_client
        source = ClientSettings(users=await scram_users(here), quotas=await told_quotas(here))
        target = ClientSettings(users=await scram_users(there), quotas=await told_quotas(there))
        has_schemas = bool(await self._world.source_settings.topics([SCHEMAS]))
        return [*client_gaps(source, target), *schema_gaps(copies, has_schemas)]

    async def groups(self, topics: Collection[str], moves: Moves, watch_s: float) -> GroupSurvey:
        """Return the groups that read some of the topics, with those topics. Raises as `progress` does."""
        source = self._world.source_groups
        listed = await source.list_groups()
        known = {one.group: one for one in listed.groups if not one.group.startswith(DRILL_GROUPS)}
        plain = sorted({group for group, one in known.items() if one.kind != "share"} | moves.groups.keys())
        before = await source.offsets(plain)
        await pause(watch_s)
        after = await source.offsets(plain)
        shares = [group for group, one in known.items() if one.kind == "share"]
        shared = await source.share_offsets(shares) if shares else Answers[Offsets]({}, {})
        read = _read(after, shared, moves, frozenset(topics))
        here, there = await _states(source, read), await _states(self._world.target_groups, read)
        rows = tuple(
            _reading(known.get(group), moves.groups.get(group), names, before.found, after.found).at(
                group, here.get(group), there.get(group), self._flow.groups.selection
            )
            for group, names in sorted(read.items())
        )
        unheard = {f"broker {node}": why for node, why in listed.unheard.items()}
        return GroupSurvey(groups=rows, failed={**after.failed, **shared.failed, **unheard})


def _migrating(one: ReadingGroup, move: MovedGroup | None) -> MigratingGroup:
    return MigratingGroup(
        group=one.group,
        part=part_of(one),
        kind=one.kind,
        source_state=_text(one.source),
        target_state=_text(one.target),
        topics=tuple(sorted(one.topics)),
        gone_on=one.gone_on,
        at_ms=-1 if move is None else move.at_ms,
        who="" if move is None else move.who,
        repeats=move is not None and move.repeats,
    )


def _text(state: GroupState | None) -> str:
    return "unknown" if state is None else state.value


class _ReadCommits(msgspec.Struct, frozen=True, kw_only=True):
    """What the source's commits and the stored move say of a group."""

    kind: str
    move: str
    gone_on: int
    advances: bool
    topics: frozenset[str]

    def at(
        self, group: str, source: GroupState | None, target: GroupState | None, selection: GroupSelection
    ) -> ReadingGroup:
        """Complete it with the states of the group."""
        return ReadingGroup(
            group=group,
            kind=self.kind,
            move=self.move,
            source=source,
            target=target,
            gone_on=self.gone_on,
            advances=self.advances and source is not GroupState.ACTIVE,
            is_mirrored=selection.wants(group),
            topics=self.topics,
        )


def _reading(
    listing: GroupListing | None,
    move: MovedGroup | None,
    topics: frozenset[str],
    before: Mapping[str, Offsets],
    after: Mapping[str, Offsets],
) -> _ReadCommits:
    group = "" if listing is None else listing.group
    earlier, now = before.get(group, {}), after.get(group, {})
    offsets = {lane: offset for lane, (offset, _) in now.items()}
    return _ReadCommits(
        kind="" if listing is None else listing.kind,
        move="" if move is None else move.state,
        gone_on=0 if move is None else move.read_on(offsets),
        advances=any(
            earlier.get(lane, (-1, ""))[0] != offset
            for lane, offset in offsets.items()
            if move is None or lane.topic in topics  # its other commits may come from the mirror back
        ),
        topics=topics,
    )


def _read(
    commits: Answers[Offsets], shared: Answers[Offsets], moves: Moves, topics: frozenset[str]
) -> dict[str, frozenset[str]]:
    """Return which of the topics each group reads, by its commits or by its move; only groups that read some."""
    names: dict[str, set[str]] = {}
    for group, offsets in (*commits.found.items(), *shared.found.items()):
        names.setdefault(group, set()).update(lane.topic for lane in offsets)
    for group, move in moves.groups.items():
        names.setdefault(group, set()).update(row.topic for row in move.offsets)
    read = {group: frozenset(found & topics) for group, found in names.items()}
    return {group: found for group, found in read.items() if found}


async def _states(groups: Groups, wanted: Iterable[str]) -> dict[str, GroupState]:
    return (await groups.states(list(wanted))).found
