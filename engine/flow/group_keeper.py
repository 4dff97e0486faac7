"""The consumer groups of one flow, mirrored in rounds: found, read, translated, told as checkpoints, committed for.

    look for groups -> read their commits on the source -> follow the maps -> look at the target's ends -> translate
      -> checkpoints that are news -> commits on the target, where the table of `policies/groups.py` says so

One keeper writes for all groups of a flow, and only while `may_write` says that the flow is ours: it is asked before
each write. Before it commits for some groups it asks for their members, then reads what is stored there, then commits:
a consumer that came and went in between is seen, and one that is there is the broker's to protect, which refuses us.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from engine.clock import now_s, pause, wall_ms
from engine.core.events import AnyEvent, GroupClamped, GroupNotSynced, GroupRefused, GroupWentBack
from engine.core.group_report import GroupsReport
from engine.errors import BrokerUnreachable, ConnectionLost, GroupActive, KafkaRefusal, MirrorError
from engine.flow.checkpoints import CheckpointLog, News
from engine.flow.ports import Groups, Offsets, Stored
from engine.flow.translations import CLAMPED, Place, Translations
from policies.groups import (
    BACKWARDS,
    GroupSelection,
    Ours,
    Told,
    Why,
    barred,
    renew_after_s,
    sync_every_s,
    tells,
    unsupported,
    wanted,
)
from policies.model import FlowName, TopicPartition

_AT_ONCE = 200
"""Groups whose members are asked for before their commits: few, so that the commits come soon after."""
_COMMITS_AT_ONCE = 100
_BREATH = 100
"""Groups in a row, some milliseconds: others live on this loop too."""
_NAMED = 20
"""Groups named in a report or in events of one round; the rest is counted."""
_EVENTS = 1_000
_ALL = "consumer groups"
_TOLD_AFTER = 3
"""Failed rounds in a row: brokers that restart take a few seconds."""

Wish = tuple[Place, Why]


class GroupTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of one flow's groups; seconds between two looks, two rounds of checkpoints, two of commits."""

    flow: FlowName
    selection: GroupSelection
    refresh: bool = True
    refresh_s: float = 5.0
    checkpoints: bool = True
    checkpoints_s: float = 5.0
    commits: bool = False
    commits_s: float = 5.0
    retry_s: float = 2.0
    backwards: bool = False


class GroupRounds:
    """The rounds of one flow's groups."""

    def __init__(
        self,
        terms: GroupTerms,
        source: Groups,
        target: Groups,
        translations: Translations,
        log: CheckpointLog,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.terms = terms
        self.report = GroupsReport()
        self.may_write = may_write
        self._source, self._target = source, target
        self._translations = translations
        self._log = log
        self._groups: list[str] = []
        self._ours: dict[str, dict[TopicPartition, Ours]] = {}
        self._retention_s: float | None = None
        self._looked_at_s = self._committed_at_s = float("-inf")
        self._events: deque[AnyEvent] = deque(maxlen=_EVENTS)
        self._not_synced: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._clamped: dict[str, int] = {}
        self._told = self._commits = self._active = self._ahead = self._failures = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is asked for: neither checkpoints nor commits."""
        return not (self.terms.checkpoints or self.terms.commits)

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Hand over what happened since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return events

    async def open(self) -> None:
        """Read the checkpoints that are there: what a former keeper told, and committed. Raises MirrorError."""
        if self.terms.checkpoints:
            await self._log.read()
            for group, told in self._log.told.items():
                self._ours[group] = {where: Ours(one.source, one.target) for where, one in told.items()}
        if self.terms.commits:
            self._retention_s = await self._target.retention_s()

    async def run(self) -> None:
        """Make rounds until cancelled, once opened; a round that fails is told as trouble and made again."""
        if self.idle:
            return
        while True:
            started_s = now_s()
            every_s = self._every_s
            if self.may_write():
                try:
                    await self.step()
                except (MirrorError, OSError, TimeoutError) as failure:
                    self.trouble(str(failure))
                    every_s = min(every_s, self.terms.retry_s)
            await pause(max(0.0, started_s + every_s - now_s()))

    def trouble(self, what: str) -> None:
        """Tell that no round was made, and why; an event when it lasts, one for each stretch of it."""
        self.report = msgspec.structs.replace(self.report, trouble=what)
        self._failures += 1
        if self._failures == _TOLD_AFTER:
            what = f"not mirrored, tried again: {what}"
            self._events.append(GroupRefused(flow=self.terms.flow, group=_ALL, what=what))

    @property
    def _every_s(self) -> float:
        """Return the seconds from the begin of one round to the next."""
        terms = self.terms
        asked = [terms.checkpoints_s] if terms.checkpoints else []
        return min([*asked, self._commits_every_s] if terms.commits else asked)

    @property
    def _commits_every_s(self) -> float:
        return sync_every_s(self.terms.commits_s, self._retention_s)

    async def step(self) -> None:
        """Make one round. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal; single groups fail alone."""
        started_s, at_ms = now_s(), wall_ms()
        if started_s - self._looked_at_s >= (self.terms.refresh_s if self.terms.refresh else float("inf")):
            await self._look()
            self._looked_at_s = started_s
        answers = await self._source.offsets(self._groups)
        failed = dict(answers.failed)
        places = await self._translations.places(answers.found)
        self._note_clamped(places)
        if self.terms.checkpoints and self.may_write():
            self._told += await self._log.tell(await self._news(places), at_ms)
        if self.terms.commits and started_s - self._committed_at_s >= self._commits_every_s * 0.9:
            self._committed_at_s = started_s
            failed |= await self.commit(places)
        self._note_failed(failed)
        self.report = self._reported(places, at_ms, now_s() - started_s)
        self._failures = 0

    # --- which groups --------------------------------------------------------------------------------------

    async def _look(self) -> None:
        groups: list[str] = []
        left: dict[str, str] = {}
        for listing in await self._source.list_groups():
            if self.terms.selection.why_not(listing.group) is not None:
                continue
            why = unsupported(listing.protocol_type, listing.kind)
            if why is None:
                groups.append(listing.group)
            else:
                left[listing.group] = why
        for group in list(left.keys() - self._not_synced.keys())[:_NAMED]:
            self._events.append(GroupNotSynced(flow=self.terms.flow, group=group, why=left[group]))
        for gone in set(self._groups).difference(groups):
            self._ours.pop(gone, None)
            self._clamped.pop(gone, None)
        self._groups, self._not_synced = groups, left

    # --- checkpoints ---------------------------------------------------------------------------------------

    async def _news(self, places: Mapping[str, Sequence[Place]]) -> list[News]:
        """Return what is not told yet."""
        news: list[News] = []
        nothing: dict[TopicPartition, Told] = {}
        for number, (group, rows) in enumerate(places.items()):
            if number % _BREATH == 0:
                await pause(0.0)
            told = self._log.told.get(group, nothing)
            for place in rows:
                known = told.get(place.target)
                if known is not None and known[1] == place.offset and known[2] == place.metadata:
                    continue  # nearly all of them
                new = self._new(place, known)
                if new is not None and tells(known, new, exact=place.exact):
                    news.append((group, place.target, new))
        return news

    def _new(self, place: Place, known: Told | None) -> Told | None:
        """Return what may be told of a partition: without an answer, only that an offset told before is too high."""
        if place.offset >= 0:
            return Told(place.source_offset, place.offset, place.metadata)
        head = self._translations.lost(place.lane, known.target) if known is not None else None
        return None if head is None else Told(head.source_next, head.target_next, place.metadata)

    # --- commits -------------------------------------------------------------------------------------------

    async def commit(self, places: Mapping[str, Sequence[Place]]) -> dict[str, str]:
        """Commit what is wanted of some groups; return those that failed and why. Raises as `step` does."""
        stored = await self._target.offsets([group for group, rows in places.items() if rows])
        failed = dict(stored.failed)
        self._ahead = self._active = 0
        due: list[str] = []
        for number, (group, there) in enumerate(stored.found.items()):
            if number % _BREATH == 0:
                await pause(0.0)
            if self._wishes(group, places[group], there):
                due.append(group)
        for at in range(0, len(due), _AT_ONCE):
            if not self.may_write():
                break
            failed |= await self._commit_some(due[at : at + _AT_ONCE], places)
        return failed

    async def _commit_some(self, groups: Sequence[str], places: Mapping[str, Sequence[Place]]) -> dict[str, str]:
        states = await self._target.states(groups)
        free = [group for group, state in states.found.items() if barred(state) is None]
        self._active += len(states.found) - len(free)
        stored = await self._target.offsets(free)
        failed = states.failed | stored.failed
        at_once = asyncio.Semaphore(_COMMITS_AT_ONCE)

        async def one(group: str, wishes: dict[TopicPartition, Wish]) -> None:
            async with at_once:
                why = await self._commit_one(group, wishes)
                if why:
                    failed[group] = why

        async with asyncio.TaskGroup() as tasks:
            for group, there in stored.found.items():
                if wishes := self._wishes(group, places[group], there, count=False):
                    tasks.create_task(one(group, wishes))
        return failed

    def _wishes(
        self, group: str, rows: Iterable[Place], stored: Offsets, *, count: bool = True
    ) -> dict[TopicPartition, Wish]:
        """Return what is to be committed for a group, by target partition."""
        wishes: dict[TopicPartition, Wish] = {}
        ours = self._ours.get(group, {})
        renew_s, at_s = renew_after_s(self._retention_s), now_s()
        for place in rows:
            there, mine = stored.get(place.target), ours.get(place.target)
            source, offset = place.source_offset, place.offset
            if offset < 0:
                head = self._translations.lost(place.lane, there[0]) if there is not None else None
                if head is None or mine is None:
                    continue
                source, offset = mine.source, head.target_next
                place = place._replace(offset=offset)
            age_s = None if mine is None or mine.at_s is None else at_s - mine.at_s
            why = wanted(
                None if there is None else there[0],
                source,
                offset,
                mine,
                age_s=age_s,
                renew_after_s=renew_s,
                backwards=self.terms.backwards,
                exact=place.exact,
            )
            if why.commits:
                wishes[place.target] = place, why
            elif why is Why.TARGET_AHEAD and count:
                self._ahead += 1
        return wishes

    async def _commit_one(self, group: str, wishes: Mapping[TopicPartition, Wish]) -> str:
        """Commit for one group; return why it failed, empty where it did not."""
        if not self.may_write():
            return ""
        rows: dict[TopicPartition, Stored] = {
            where: (place.offset, place.metadata) for where, (place, _) in wishes.items()
        }
        try:
            refused = await self._target.commit(group, rows)
        except GroupActive:
            self._active += 1
            return ""
        except (KafkaRefusal, ConnectionLost, BrokerUnreachable) as failure:
            return str(failure)
        ours, at_s = self._ours.setdefault(group, {}), now_s()
        back: Counter[Why] = Counter()
        for where, (place, why) in wishes.items():
            if where not in refused:
                ours[where] = Ours(place.source_offset, place.offset, at_s)
                self._commits += 1
                back[why] += why in BACKWARDS
        for why, count in (+back).items():
            self._events.append(GroupWentBack(flow=self.terms.flow, group=group, partitions=count, why=why.value))
        return "; ".join(f"commit of {where} on the target: {why}" for where, why in list(refused.items())[:3])

    # --- what is told --------------------------------------------------------------------------------------

    def _note_clamped(self, places: Mapping[str, Sequence[Place]]) -> None:
        told = 0
        for group, rows in places.items():
            count = sum(place.how == CLAMPED for place in rows)
            if count > self._clamped.get(group, 0) and told < _NAMED:
                told += 1
                self._events.append(GroupClamped(flow=self.terms.flow, group=group, partitions=count))
                self._clamped[group] = count
            elif not count:
                self._clamped.pop(group, None)

    def _note_failed(self, failed: dict[str, str]) -> None:
        new = [group for group, what in failed.items() if group not in self._failed]
        for group in new[:_NAMED]:
            self._events.append(GroupRefused(flow=self.terms.flow, group=group, what=failed[group]))
        self._failed = failed

    def _reported(self, places: Mapping[str, Sequence[Place]], at_ms: int, round_s: float) -> GroupsReport:
        how: Counter[str] = Counter()
        without: Counter[str] = Counter()
        for rows in places.values():
            for place in rows:
                (how if place.offset >= 0 else without)[place.how] += 1
        return GroupsReport(
            at_ms=at_ms,
            round_s=round_s,
            groups=len(self._groups),
            how=dict(how),
            without=dict(without),
            active=self._active,
            ahead=self._ahead,
            checkpoints=self._told,
            commits=self._commits,
            not_synced=dict(list(self._not_synced.items())[:_NAMED]),
            failed=dict(list(self._failed.items())[:_NAMED]),
            trouble=self._log.trouble,
        )

    async def close(self) -> None:
        """Disconnect."""
        await self._log.close()
