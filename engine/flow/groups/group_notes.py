"""Keeps the notes of a flow's consumer groups: events, each reported once, and the report of the last round."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from engine.base.clock import now_s
from engine.core.events.events import (
    AnyEvent,
    CommitsNotRead,
    GroupClamped,
    GroupNotSynced,
    GroupRefused,
    GroupWentBack,
)
from engine.core.events.recovery_events import WorksAgain
from engine.core.mm2.offset_resets import OffsetResets
from engine.core.offset_map.offset_map import CLAMPED, How
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.latency import LatencyHistogram
from engine.flow.groups.away import AwayBrokers
from engine.flow.groups.translations import UNREAD_STINTS, TranslatedOffset
from policies.model import FlowName

_NAMED = 20
"""Most groups named in one report, or in the events of one round; the rest is only counted."""
_EVENTS = 1_000
_ALL = "consumer groups"
_OLD = "consumer groups that have read nothing since a switchover"
_TOLD = float("inf")
"""Replaces the time of the last read after an event has said that commits are not read."""
_TOLD_AFTER = 3
"""Failed rounds in a row before an event: brokers that restart take a few seconds."""


class GroupNotes:
    """The notes of one flow."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self._events: deque[AnyEvent] = deque(maxlen=_EVENTS)
        self._rewinds = OffsetResets(flow)
        self.not_synced: dict[str, str] = {}
        """Groups of a kind that is not mirrored, and why."""
        self._unread = ""
        """Why earlier stints could not be read when that was last said; empty if they were read since."""
        self._clamped: dict[str, int] = {}
        self._how: dict[str, Counter[tuple[bool, str]]] = {}
        self._total: Counter[tuple[bool, str]] = Counter()
        self.ahead: set[str] = set()
        """Groups with an offset that the copy has not reached."""
        self._read_at_s: float | None = None
        self._failures = 0
        self.failed: dict[str, str] = {}
        """Groups that could not be read or committed for, and why; without those that wait for a broker."""
        self.away = AwayBrokers(flow)
        self.latency, self.commit_latency = LatencyHistogram(), LatencyHistogram()
        self.written = 0
        """How many checkpoints were written."""

    def say(self, event: AnyEvent) -> None:
        """Keep an event until it is taken; groups that go back repeatedly are only counted."""
        told = self._rewinds.admit(event, now_s()) if isinstance(event, GroupWentBack) else event
        if told is not None:
            self._events.append(told)

    def take_events(self) -> tuple[AnyEvent, ...]:
        """Return the events since the last call."""
        events = (*self._events, *self._rewinds.due(now_s()), *self.away.take_events())
        self._events.clear()
        return events

    def trouble(self, what: str) -> None:
        """Note a failed round; several in a row make one event."""
        self._failures += 1
        if self._failures == _TOLD_AFTER:
            self.say(GroupRefused(flow=self._flow, group=_ALL, what=f"not mirrored; raymirror retries: {what}"))

    def well(self) -> None:
        """Note a round that succeeded."""
        if self._failures >= _TOLD_AFTER:
            self.say(WorksAgain(flow=self._flow, subject=_ALL, what="mirrored again"))
        self._failures = 0

    def reads(self, why_not: str, every_s: float, patience_s: float) -> None:
        """Note whether commits are read as they are made; one event if they are not for `patience_s` seconds.

        The time counts from the first call: before it the clusters may not have answered, so reading could not begin.
        """
        if not why_not or self._read_at_s is None:
            if self._read_at_s == _TOLD:
                self.say(WorksAgain(flow=self._flow, subject=_ALL, what="raymirror reads commits as they happen again"))
            self._read_at_s = now_s()
        elif now_s() - self._read_at_s >= patience_s:
            self._read_at_s = _TOLD
            self.say(CommitsNotRead(flow=self._flow, group=_ALL, every_s=every_s, why=why_not))

    def left(self, groups: dict[str, str]) -> None:
        """Note the groups that are not mirrored, and why."""
        for group in list(groups.keys() - self.not_synced.keys())[:_NAMED]:
            self.say(GroupNotSynced(flow=self._flow, group=group, why=groups[group]))
        self.not_synced = groups

    def gone(self, group: str) -> None:
        """Forget a group."""
        self._clamped.pop(group, None)
        self.failed.pop(group, None)
        self.away.gone(group)
        self._count(group, ())

    def looked(
        self,
        groups: Sequence[str],
        places: Mapping[str, Sequence[TranslatedOffset]],
        failed: Mapping[str, str],
        away: Mapping[str, tuple[str, int]],
    ) -> None:
        """Note the results for some groups; `away`: groups that failed because a broker of a cluster is unreachable."""
        self.away.looked(groups, away, failed)
        failed = {group: why for group, why in failed.items() if group not in away}
        new = [group for group in failed if group not in self.failed]
        for group in new[:_NAMED]:
            self.say(GroupRefused(flow=self._flow, group=group, what=failed[group]))
        for group in groups:
            self.failed.pop(group, None)
        self.failed.update(failed)
        for group, rows in places.items():
            self._count(group, rows)

    def _count(self, group: str, rows: Sequence[TranslatedOffset]) -> None:
        """Count how the offsets of a group were found; this replaces the group's earlier counts."""
        self._total.subtract(self._how.pop(group, {}))
        self.ahead.discard(group)
        if rows:
            self._how[group] = Counter((place.offset >= 0, place.how) for place in rows)
            self._total.update(self._how[group])
            if (False, How.BEYOND.value) in self._how[group]:
                self.ahead.add(group)

    def waits(self, group: str) -> bool:
        """Whether an offset of the group has no translation yet, but may get one."""
        return any(not there and how != How.BEFORE.value for there, how in self._how.get(group, ()))

    def unread(self, why: str, places: Mapping[str, Sequence[TranslatedOffset]]) -> None:
        """Note why earlier stints cannot be read, once, if a group needs them; and that they were."""
        if self._unread and not why:
            self._unread = ""
            self.say(WorksAgain(flow=self._flow, subject=_OLD, what="mirrored again"))
        elif why and not self._unread and any(one.how == UNREAD_STINTS for rows in places.values() for one in rows):
            self._unread = why
            self.say(GroupRefused(flow=self._flow, group=_OLD, what=f"not mirrored; raymirror retries: {why}"))

    def clamped(self, places: Mapping[str, Sequence[TranslatedOffset]]) -> None:
        """Report groups that begin at the target's log start, because retention there deleted what they point at."""
        told = 0
        for group, rows in places.items():
            count = sum(place.how == CLAMPED for place in rows)
            if count > self._clamped.get(group, 0) and told < _NAMED:
                told += 1
                self.say(GroupClamped(flow=self._flow, group=group, partitions=count))
                self._clamped[group] = count
            elif not count:
                self._clamped.pop(group, None)

    def report(self, at_ms: int, round_s: float, groups: int) -> GroupsReport:
        """Return the report; the caller fills in the other fields."""
        total = +self._total
        return GroupsReport(
            at_ms=at_ms,
            round_s=round_s,
            groups=groups,
            how={how: count for (there, how), count in total.items() if there},
            without={how: count for (there, how), count in total.items() if not there},
            checkpoints=self.written,
            not_synced=dict(list(self.not_synced.items())[:_NAMED]),
            failing=len(self.failed),
            failed=dict(list(self.failed.items())[:_NAMED]),
            away=self.away.lines(),
            waiting=self.away.waiting,
            latency=self.latency.snapshot(),
            commit_latency=self.commit_latency.snapshot(),
        )
