"""Commits offsets for consumer groups on the target, or leaves them, by the table in `policies/groups.py`.

For some groups at a time: ask whether they have members, read their stored offsets, then commit. If a consumer joined
and left in between, its commits are among the stored offsets. If a consumer is still a member, the broker protects it:
it refuses raymirror's commit.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, GroupActive, KafkaRefusal
from engine.base.parts import parts
from engine.core.events.events import AnyEvent, GroupWentBack
from engine.core.offset_map.offset_map import How
from engine.flow.groups.translations import EndOfCopy, TranslatedOffset, Translations
from engine.flow.ports.ports import Groups, Offsets, Stored
from policies.groups import BACKWARDS, OwnCommit, Why, WrittenCheckpoint, barred, renew_after_s, takes_end, wanted
from policies.model import FlowName, TopicPartition

_AT_ONCE = 200
"""Groups whose members are read together before their commits: few, so that the commits follow soon."""
_COMMITS_AT_ONCE = 100
_BREATH = 100
"""Groups handled in a row, which takes some milliseconds; then other tasks of this event loop get their turn."""

Wish = tuple[TranslatedOffset, Why]


class CommitRules(msgspec.Struct, frozen=True):
    """`backwards`: commit even if the group is further on the target. `renews`: repeat equal commits of unknown age.

    `ends`: place groups that are ahead of the copy at its end.
    """

    backwards: bool = False
    renews: bool = True
    ends: bool = True


class GroupCommits:
    """Commits for the groups of one flow; asks `may_write` before each, and reports commits that go back to `say`."""

    def __init__(
        self,
        flow: FlowName,
        target: Groups,
        translations: Translations,
        may_write: Callable[[], bool] = lambda: True,
        say: Callable[[AnyEvent], object] = lambda _event: None,
        rules: CommitRules | None = None,
    ) -> None:
        self._flow = flow
        self._target = target
        self._translations = translations
        self._may_write = may_write
        self._say = say
        rules = rules or CommitRules()
        self._backwards, self._ends = rules.backwards, rules.ends
        self._unknown_age_s = None if rules.renews else 0.0
        self._ours: dict[str, dict[TopicPartition, OwnCommit]] = {}
        self.moved: Collection[str] = ()
        """Groups that have moved to the target. What is committed there is their own: who is set back there must not be
        set forward to where it once left the source. Only what stands there still is kept from expiring."""
        self.retention_s: float | None = None
        """Seconds until commits expire on the target; None if the target does not say."""
        self.active: set[str] = set()
        """Groups with members on the target, for which something would be committed."""
        self.ahead: dict[str, int] = {}
        """By group, how many partitions are further on the target, and stay there."""
        self.away: dict[str, int] = {}
        """Groups that failed at the last commit because their coordinator, this broker, cannot be reached."""
        self.made = 0
        """How many partitions were committed."""

    async def open(self) -> None:
        """Ask how long the target keeps commits. Raises ConnectionLost, BrokerUnreachable."""
        self.retention_s = await self._target.retention_s()

    def remember(self, written: Mapping[str, Mapping[TopicPartition, WrittenCheckpoint]]) -> None:
        """Take the checkpoints of the flow's previous owner as offsets that raymirror committed."""
        for group, rows in written.items():
            self._ours[group] = {where: OwnCommit(one.source, one.target) for where, one in rows.items()}

    def forget(self, group: str) -> None:
        """Forget a group that is gone."""
        self._ours.pop(group, None)
        self.active.discard(group)
        self.ahead.pop(group, None)

    async def commit(self, places: Mapping[str, Sequence[TranslatedOffset]], *, follows: bool = True) -> dict[str, str]:
        """Commit what some groups need; return the groups that failed, and why. Raises what `Groups` raises.

        `follows`: whether groups that are ahead of the copy follow its end; else only those without a commit do.
        """
        stored = await self._target.offsets([group for group, rows in places.items() if rows])
        failed, self.away = dict(stored.failed), dict(stored.away)
        self.active.difference_update(places)
        due: list[str] = []
        for number, (group, there) in enumerate(stored.found.items()):
            if number % _BREATH == 0:
                await pause(0.0)
            if self._wishes(group, places[group], there, follows=follows):
                due.append(group)
        for part in parts(due, _AT_ONCE):
            if not self._may_write():
                break
            failed |= await self._commit_some(part, places, follows=follows)
        return failed

    async def _commit_some(
        self, groups: Sequence[str], places: Mapping[str, Sequence[TranslatedOffset]], *, follows: bool
    ) -> dict[str, str]:
        states = await self._target.states(groups)
        free = [group for group, state in states.found.items() if barred(state) is None]
        self.active.update(states.found.keys() - set(free))
        stored = await self._target.offsets(free)
        failed = states.failed | stored.failed
        self.away |= states.away | stored.away
        at_once = asyncio.Semaphore(_COMMITS_AT_ONCE)

        async def one(group: str, wishes: dict[TopicPartition, Wish]) -> None:
            async with at_once:
                why = await self._commit_one(group, wishes)
                if why:
                    failed[group] = why

        async with asyncio.TaskGroup() as tasks:
            for group, there in stored.found.items():
                if wishes := self._wishes(group, places[group], there, follows=follows):
                    tasks.create_task(one(group, wishes))
        return failed

    def _wishes(
        self, group: str, rows: Iterable[TranslatedOffset], stored: Offsets, *, follows: bool
    ) -> dict[TopicPartition, Wish]:
        """Return what to commit for a group, by target partition; count the partitions that are ahead on the target."""
        ahead = 0
        wishes: dict[TopicPartition, Wish] = {}
        ours = self._ours.get(group, {})
        renew_s, at_s = renew_after_s(self.retention_s), now_s()
        for place in rows:
            there, mine = stored.get(place.target), ours.get(place.target)
            source, offset, exact = place.source_offset, place.offset, place.exact
            if offset < 0:
                head = self._translations.lost(place.lane, there[0]) if there is not None else None
                if head is not None and mine is not None:
                    source, offset = mine.source, head.target_next
                    place = place._replace(offset=offset)
                elif place.end is not None and self._takes_end(place.end, there, mine, follows=follows):
                    (source, offset), exact = place.end, False
                    place = place._replace(source_offset=source, offset=offset, metadata="")  # it is of another offset
                else:
                    continue
            age_s = self._unknown_age_s if mine is None or mine.at_s is None else at_s - mine.at_s
            why = wanted(
                None if there is None else there[0],
                source,
                offset,
                mine,
                age_s=age_s,
                renew_after_s=renew_s,
                backwards=self._backwards,
                exact=exact,
            )
            if group in self.moved and why is not Why.RENEWED:
                continue
            if why.commits:
                wishes[place.target] = place, why
            elif why is Why.TARGET_AHEAD and place.how != How.BEYOND.value:
                ahead += 1
        if ahead:
            self.ahead[group] = ahead
        else:
            self.ahead.pop(group, None)
        return wishes

    def _takes_end(self, end: EndOfCopy, stored: Stored | None, mine: OwnCommit | None, *, follows: bool) -> bool:
        """Whether a partition is committed at the end of the copy; what somebody else has committed there stays."""
        if not self._ends or (mine is None and stored is not None):
            return False
        return takes_end(None if mine is None else mine.source, end.source, follows=follows)

    async def _commit_one(self, group: str, wishes: Mapping[TopicPartition, Wish]) -> str:
        """Commit for one group; return why it failed, or an empty string."""
        if not self._may_write():
            return ""
        rows: dict[TopicPartition, Stored] = {
            where: (place.offset, place.metadata) for where, (place, _) in wishes.items()
        }
        try:
            refused = await self._target.commit(group, rows)
        except GroupActive:
            self.active.add(group)
            return ""
        except (KafkaRefusal, ConnectionLost, BrokerUnreachable) as failure:
            return str(failure)
        ours, at_s = self._ours.setdefault(group, {}), now_s()
        back: Counter[Why] = Counter()
        for where, (place, why) in wishes.items():
            if where not in refused:
                ours[where] = OwnCommit(place.source_offset, place.offset, at_s)
                self.made += 1
                back[why] += why in BACKWARDS
        for why, count in (+back).items():
            self._say(GroupWentBack(flow=self._flow, group=group, partitions=count, why=why.value))
        return "; ".join(f"commit of {where} on the target: {why}" for where, why in list(refused.items())[:3])
