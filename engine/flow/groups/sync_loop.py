"""Mirrors the consumer groups of one flow: finds them, reads and translates their commits, writes checkpoints, commits.

    list groups -> read their commits on the source -> follow the maps -> read the target's ends -> translate
      -> checkpoints that are new -> commits on the target, if the table of `policies/groups.py` says so

A round takes all groups through this. If commits are read as they are made (`flow/topic_logs/commit_reader.py`), a turn
takes only the groups that have just committed, and those that are due for a retry (`flow/groups/retry_queue.py`). A
round then comes once a minute, and soon after something may have been missed. Otherwise every turn is a round.

One loop writes for all groups of a flow, and only while this mirror owns it: it asks `may_write` before each write.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.base.clock import cpu_s, now_s, pause, wall_ms
from engine.base.errors import MirrorError
from engine.base.tasks import run_all
from engine.core.events.events import AnyEvent
from engine.core.mm2.commit_records import NO_OFFSET
from engine.core.reports.group_report import GroupsReport
from engine.flow.groups.group_commits import CommitRules, GroupCommits
from engine.flow.groups.group_notes import GroupNotes
from engine.flow.groups.retry_queue import RetryQueue
from engine.flow.groups.status import sort_out
from engine.flow.groups.translations import TranslatedOffset, Translations
from engine.flow.ports.ports import Groups, Offsets
from engine.flow.topic_logs.checkpoints import CheckpointLog, News
from engine.flow.topic_logs.commit_reader import Hints
from engine.flow.topic_logs.followed_moves import Moved
from policies.groups import GroupSelection, WrittenCheckpoint, must_write, sync_every_s, takes_end
from policies.model import FlowName, TopicPartition
from policies.patterns import literal

_BREATH = 100
"""Groups handled in a row, which takes some milliseconds; then other tasks of this event loop get their turn."""
_GATHER_S = 0.5
"""Least pause between two turns; also at least twice the CPU time of the last one: a third of a core at most."""
_STRANGERS_S = 1.0
"""Least time between two listings of groups, if a group commits that is not known yet."""
_OWED_S = 5.0
_FOLLOW_S, _FOLLOW_SHARE = 1.0, 20.0
"""Least time between two turns in which groups that are ahead of the copy follow its end; also so many times the CPU
time of the last one: a twentieth of a core at most, however many groups wait for a copy that catches up."""
_NONE = (NO_OFFSET, "")
_NO_HINTS = Hints({}, missed=False, since_ms=-1)


class GroupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one flow's groups: seconds between two listings of groups, two rounds of checkpoints, of commits.

    `sweep_s`: seconds between two rounds while commits are read as they are made.
    """

    flow: FlowName
    selection: GroupSelection
    refresh: bool = True
    refresh_s: float = 5.0
    checkpoints: bool = True
    checkpoints_s: float = 5.0
    commits: bool = False
    commits_s: float = 5.0
    sweep_s: float = 60.0
    retry_s: float = 2.0
    backwards: bool = False


class HintsOfCommits(Protocol):
    """The part of `engine.flow.topic_logs.commit_reader.CommitReader` that the loop uses."""

    why_not: str
    not_there: bool

    def take(self) -> Hints: ...
    async def wait(self, most_s: float) -> None: ...
    async def run(self) -> None: ...


class GroupSyncLoop:
    """The rounds and turns of one flow's groups; `reader` reads commits as they are made (None: switched off).

    `moved`: knows the groups that have moved to the target (None: nobody does), see `GroupCommits.moved`.
    """

    def __init__(
        self,
        options: GroupOptions,
        source: Groups,
        target: Groups,
        translations: Translations,
        log: CheckpointLog,
        reader: HintsOfCommits | None = None,
    ) -> None:
        self.options = options
        self.report = GroupsReport()
        self.may_write: Callable[[], bool] = lambda: True
        self.moved: Moved | None = None
        self._source = source
        self._translations = translations
        self._log = log
        self._reader = reader
        self._notes = GroupNotes(options.flow)
        self._commits = GroupCommits(
            options.flow,
            target,
            translations,
            lambda: self.may_write(),
            self._notes.say,
            CommitRules(backwards=options.backwards),
        )
        self._groups: dict[str, None] = {}
        self._named = frozenset(filter(None, map(literal, options.selection.include.patterns)))
        """Groups that the configuration names."""
        self._strangers = False
        self._moves_unread = ""
        """Why it is not known which groups have moved; empty if it is."""
        self._retries = RetryQueue()
        self._all_retries = False
        self._generations = 0
        self._looked_at_s = self._committed_at_s = self._swept_at_s = self._follows_at_s = float("-inf")

    @property
    def idle(self) -> bool:
        """Whether neither checkpoints nor commits are to be written."""
        return not (self.options.checkpoints or self.options.commits)

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Return the events since the last call."""
        return self._notes.take_events()

    async def open(self) -> None:
        """Read the checkpoints that the flow's previous owner wrote and committed. Raises MirrorError."""
        if self.options.checkpoints:
            await self._log.read()
            self._commits.remember(self._log.written)
        if self.options.commits:
            await self._commits.open()

    async def run(self) -> None:
        """Mirror until cancelled, once opened; a turn that fails is noted as trouble and retried."""
        if self.idle:
            return
        if self._reader is None:
            await self._turns()
        else:
            await run_all(self._reader.run(), self._turns())

    async def _turns(self) -> None:
        while True:
            started_s, spent_s = now_s(), cpu_s()
            every_s = self._every_s
            if self.may_write():
                try:
                    await self.turn()
                except (MirrorError, OSError, TimeoutError) as failure:
                    self._all_retries = True  # the hints that this turn had taken are lost
                    self.trouble(str(failure))
                    every_s = min(every_s, self.options.retry_s)
                    await pause(max(0.0, started_s + every_s - now_s()))
                    continue
            else:
                self._all_retries = True
            await self._rest(cpu_s() - spent_s, started_s + every_s)

    async def _rest(self, spent_s: float, until_s: float) -> None:
        """Wait for the next turn: for the next round if groups are polled, else for the next commit or retry.

        `spent_s`: the CPU time of the last turn.
        """
        reader = self._reader
        if reader is None:
            await pause(max(0.0, until_s - now_s()))
            return
        await pause(max(_GATHER_S, 2.0 * spent_s))
        if self._reads:
            until_s = min(until_s, self._retries.next_at_s())
            if self._strangers and self.options.refresh:  # it may be the only commit for long
                until_s = min(until_s, self._looked_at_s + _STRANGERS_S)
        left_s = until_s - now_s()
        if left_s > 0.0 and self.may_write():
            await reader.wait(left_s)

    def trouble(self, what: str) -> None:
        """Note that a round failed, and why; several failures in a row make one event."""
        self.report = msgspec.structs.replace(self.report, trouble=what, failed_rounds=self.report.failed_rounds + 1)
        self._notes.trouble(what)

    @property
    def _reads(self) -> bool:
        """Whether commits are read as they are made."""
        return self._reader is not None and not self._reader.why_not

    @property
    def _polled_because(self) -> str:
        """Return why commits are not read; empty also while the topic is missing because no group has committed yet."""
        reader = self._reader
        return "" if reader is None or (reader.not_there and not self._groups) else reader.why_not

    @property
    def _every_s(self) -> float:
        """Return the seconds from the start of one round to the next if groups are polled."""
        options = self.options
        asked = [options.checkpoints_s] if options.checkpoints else []
        return min([*asked, self._commits_every_s] if options.commits else asked)

    @property
    def _commits_every_s(self) -> float:
        return sync_every_s(self.options.commits_s, self._commits.retention_s)

    @property
    def _sweep_s(self) -> float:
        return sync_every_s(max(self.options.sweep_s, self._every_s), self._commits.retention_s)

    # --- rounds and turns ----------------------------------------------------------------------------------

    async def turn(self) -> None:
        """Make a round if one is due, else take only the groups with commits or retries. Raises what `step` raises."""
        hints = _NO_HINTS if self._reader is None else self._reader.take()
        self._all_retries |= hints.missed
        if self._reader is not None:
            self._notes.reads(self._polled_because, self._every_s, self.options.sweep_s / 2)
        for group in hints.seen:
            self._retries.moved(group, hints.since_ms)
        passed_s = now_s() - self._swept_at_s
        due_s = (self._every_s * 0.9 if self._all_retries else self._sweep_s) if self._reads else 0.0
        if passed_s >= due_s:
            await self.step(hints)
        else:
            await self._some(hints)

    async def step(self, hints: Hints = _NO_HINTS) -> None:
        """Make one round. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal; a failing group affects no other."""
        started_s, at_ms = now_s(), wall_ms()
        if started_s - self._looked_at_s >= (self.options.refresh_s if self.options.refresh else float("inf")):
            await self._look()
        commit = self._reads or started_s - self._committed_at_s >= self._commits_every_s * 0.9
        if commit:
            self._committed_at_s = started_s
        await self._mirror(list(self._groups), hints, started_s, at_ms, follows=True, commit=commit)
        self._swept_at_s, self._all_retries = started_s, False

    async def _some(self, hints: Hints) -> None:
        """Take the groups that committed or are due for a retry through a round. Raises what `step` raises."""
        started_s, at_ms = now_s(), wall_ms()
        self._strangers |= any(one not in self._groups and one not in self._notes.not_synced for one in hints.seen)
        new: set[str] = set()
        since_s = started_s - self._looked_at_s
        if self.options.refresh and since_s >= (_STRANGERS_S if self._strangers else self.options.refresh_s):
            new = await self._look()
        due = hints.seen.keys() | self._retries.due(started_s)
        follows, began_cpu_s = started_s >= self._follows_at_s, cpu_s()
        if follows:
            due |= self._notes.ahead
        for gone in () if self._strangers else due - self._groups.keys():
            self._retries.settle(gone)
        groups = sorted((due & self._groups.keys()) | new)
        await self._mirror(groups, hints, started_s, at_ms, follows=follows, commit=True)
        if follows:
            self._follows_at_s = started_s + max(_FOLLOW_S, _FOLLOW_SHARE * (cpu_s() - began_cpu_s))

    async def _mirror(
        self, groups: list[str], hints: Hints, started_s: float, at_ms: int, *, follows: bool, commit: bool
    ) -> None:
        """Take groups through a round; `follows`: those that are ahead of the copy follow its end."""
        if not (self._groups or self._log.trouble):
            self._no_groups(at_ms, started_s)
            return
        answers = await self._source.offsets(groups)
        failed = dict(answers.failed)
        away = {group: (self.options.flow.source, node) for group, node in answers.away.items()}
        places = await self._translations.places(answers.found)
        self._notes.clamped(places)
        self._notes.unread(self._translations.without_stints, places)
        self._notes.away.listed(self.options.flow.target, self._translations.away)
        if self.options.checkpoints and self.may_write():
            written = await self._log.write(await self._news(places, follows=follows), at_ms)
            self._notes.written += written
            self._notes.latency.add((now_s() - started_s) * 1000, written)
        if self.options.commits and commit and await self._know_moves():
            failed |= await self._commits.commit(places, follows=follows)
            away |= {group: (self.options.flow.target, node) for group, node in self._commits.away.items()}
        self._notes.looked(groups, places, failed, away)
        self._note_owed(groups, answers.found, hints)
        if self._translations.generations != self._generations:
            self._generations = self._translations.generations
            self._all_retries = True  # a lane has a new owner, which may have found that the target lost records
        self.report = self._reported(at_ms, now_s() - started_s)
        if self._moves_unread:
            self.trouble(self._moves_unread)
        else:
            self._notes.well()

    async def _know_moves(self) -> bool:
        """Read which groups have moved; if that fails, nothing is committed: nobody knows whom it must not touch."""
        self._moves_unread = ""
        if self.moved is not None:
            try:
                self._commits.moved = await self.moved.read()
            except (MirrorError, OSError, TimeoutError) as failure:
                self._moves_unread = f"no commits, because which groups have moved is not known: {failure}"
                self._all_retries = True
        return not self._moves_unread

    def _no_groups(self, at_ms: int, started_s: float) -> None:
        """End a round without groups: the maps are read when there is an offset to translate."""
        self._notes.away.listed(self.options.flow.target, {})
        self.report = self._reported(at_ms, now_s() - started_s)
        self._notes.well()

    # --- which groups --------------------------------------------------------------------------------------

    async def _look(self) -> set[str]:
        """List the groups; return the new ones.

        A group that no broker lists is gone only if all brokers answered: an unreachable broker may coordinate it.
        """
        at_s = now_s()
        listed = await self._source.list_groups()
        self._notes.away.listed(self.options.flow.source, listed.unheard)
        found, left = sort_out(listed.groups, self.options.selection)
        groups = dict.fromkeys(found)
        if listed.unheard:
            left = {group: why for group, why in self._notes.not_synced.items() if group not in groups} | left
            groups |= dict.fromkeys(group for group in self._groups if group not in left)
        groups |= dict.fromkeys(await self._hidden(groups.keys() | left.keys(), any_listed=bool(listed.groups)))
        for gone in self._groups.keys() - groups.keys():
            self._commits.forget(gone)
            self._retries.settle(gone)
            self._notes.gone(gone)
        new = groups.keys() - self._groups.keys()
        self._notes.left(left)
        self._groups, self._strangers = groups, False
        self._looked_at_s = at_s
        return new

    async def _hidden(self, known: Collection[str], *, any_listed: bool) -> list[str]:
        """Return the groups that brokers do not list because raymirror may not describe them: the next round says so.

        A broker leaves such groups out of its list, and refuses them by name (KafkaApis.handleListGroupsRequest).
        Groups that the configuration names are asked for, too, if there are any groups: the question would create the
        topic of offsets on a cluster that never had one.
        """
        asked = set(self._groups) | (self._named if any_listed else set())
        missing = sorted(group for group in asked - set(known) if self.options.selection.wants(group))
        if not missing:
            return []
        answers = await self._source.offsets(missing)
        return [group for group in answers.failed if group not in answers.away]

    # --- checkpoints ---------------------------------------------------------------------------------------

    async def _news(self, places: Mapping[str, Sequence[TranslatedOffset]], *, follows: bool) -> list[News]:
        """Return the checkpoints that are not written yet."""
        news: list[News] = []
        nothing: dict[TopicPartition, WrittenCheckpoint] = {}
        for number, (group, rows) in enumerate(places.items()):
            if number % _BREATH == 0:
                await pause(0.0)
            written = self._log.written.get(group, nothing)
            for place in rows:
                known = written.get(place.target)
                if known is not None and known[1] == place.offset and known[2] == place.metadata:
                    continue  # nearly all checkpoints
                new = self._new(place, known, follows=follows)
                if new is not None and must_write(known, new, exact=place.exact):
                    news.append((group, place.target, new))
        return news

    def _new(
        self, place: TranslatedOffset, known: WrittenCheckpoint | None, *, follows: bool
    ) -> WrittenCheckpoint | None:
        """Return the checkpoint of a partition.

        Without a translation it is the end of the copy, if that lowers a checkpoint too high, or if the group has read
        everything before it: a group that keeps up with its producers would else have none while they write.
        """
        if place.offset >= 0:
            return WrittenCheckpoint(place.source_offset, place.offset, place.metadata)
        head = self._translations.lost(place.lane, known.target) if known is not None else None
        if head is not None:
            return WrittenCheckpoint(head.source_next, head.target_next, place.metadata)
        if place.end is None or (known is not None and known.target >= place.end.target):
            return None
        wanted = takes_end(None if known is None else known.source, place.end.source, follows=follows)
        return WrittenCheckpoint(*place.end) if wanted else None  # the group's metadata is of another offset

    # --- retries and report -------------------------------------------------------------------------------

    def _note_owed(self, groups: Sequence[str], found: Mapping[str, Offsets], hints: Hints) -> None:
        """Schedule retries of groups that are not settled: translations may arrive, members leave, brokers return.

        Groups whose coordinator's answer is still behind its log are retried too.
        """
        at_s, most_s, notes = now_s(), min(self._every_s, _OWED_S), self._notes
        for group in groups:
            wait = notes.waits(group) or notes.away.waits(group)
            kept = wait or group in notes.failed or group in self._commits.active or self._log.trouble
            seen = {} if kept else hints.seen.get(group, {})
            if kept or any(
                offset not in (NO_OFFSET, found[group].get(lane, _NONE)[0]) for lane, offset in seen.items()
            ):
                self._retries.again(group, at_s, most_s)
            elif (since_ms := self._retries.settle(group)) is not None:
                notes.commit_latency.add(wall_ms() - since_ms)

    def _reported(self, at_ms: int, round_s: float) -> GroupsReport:
        return msgspec.structs.replace(
            self._notes.report(at_ms, round_s, len(self._groups)),
            active=len(self._commits.active),
            ahead=sum(self._commits.ahead.values()),
            commits=self._commits.made,
            trouble=self._log.trouble,
            failed_rounds=self.report.failed_rounds + 1 if self._log.trouble else 0,
            on_commit=self._reads,
            polled_because=self._polled_because,
            map_bytes=self._translations.map_bytes,
        )

    async def close(self) -> None:
        """Disconnect."""
        await self._log.close()
