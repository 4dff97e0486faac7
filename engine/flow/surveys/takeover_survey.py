"""Surveys a takeover of a flow, lane by lane: what a start would find, and what MM2 would do after it. Writes nothing.

It reads both logs, with the same computation and the same comparison of contents as a real start
(`core/position/resume.py`, `flow/ownership/takeover.py`), but without a barrier. While another process copies, the
figures are a snapshot.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.resume import ResumePoint, Unknown
from engine.core.position.target_tail import Tail
from engine.flow.ownership.starts import StartResolver
from engine.flow.ownership.stored_positions import Stored, Unreadable, writer_of
from engine.flow.ownership.tail import tail_headers
from engine.flow.ownership.takeover import LogStarts, Reach, Takeover
from engine.flow.ownership.told_by_contents import ended
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster
from policies.model import LaneName, TopicPartition

_AT_ONCE = 4
"""Lanes whose logs are read in parallel: each may hold fingerprints of some hundred thousand records in memory."""
_FAILURES = (BrokerUnreachable, ConnectionLost, KafkaRefusal)
_ALTERED = "a user has set its position: what the target has after it is copied again"
_WRITER = "records of another writer"


class LaneSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """One lane. Offsets are next offsets, ranges are inclusive; -1: not known.

    `behind`: records of MM2 after the position that are on the target and are not copied again.
    `repeats`: records that MM2, if it started now, would append again, because the position does not cover them.
    """

    topic: str
    partition: int
    target_topic: str
    writer: str
    position: int = -1
    source_next: int = -1
    source_end: int = -1
    behind: int = 0
    again: tuple[int, int] | None = None
    gap: tuple[int, int] | None = None
    repeats: int = 0
    trouble: str = ""

    @property
    def to_copy(self) -> int:
        """Source offsets that are left to copy."""
        return max(0, self.source_end - self.source_next) if self.source_next >= 0 else 0

    @property
    def exact(self) -> bool:
        """Whether every record would be on the target exactly once."""
        return self.again is None and self.gap is None and not self.trouble


class _Ends(msgspec.Struct, frozen=True):
    """Log starts and high watermarks on both sides; the target's are 0 if its topic does not exist yet."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int


class TakeoverSurvey:
    """Surveys the lanes of one flow; `read_committed` is the isolation level that MM2 copied with."""

    def __init__(self, source: Cluster, target: Cluster, starts: StartResolver, *, read_committed: bool) -> None:
        self._source = source
        self._target = target
        self._starts = starts
        self._takeover = Takeover(source, target, read_committed=read_committed)

    async def survey(
        self,
        lanes: Sequence[LaneName],
        stored: Mapping[TopicPartition, Stored],
        done: Callable[[], object] = lambda: None,
    ) -> list[LaneSurvey]:
        """Survey lanes, in their order; `done` is called after each. A failure affects only its lane or topic."""
        found: dict[TopicPartition, LaneSurvey] = {}
        at_once = asyncio.Semaphore(_AT_ONCE)
        topics: defaultdict[str, list[LaneName]] = defaultdict(list)
        for lane in lanes:
            topics[lane.source.topic].append(lane)

        async def survey(lane: LaneName, ends: _Ends) -> None:
            blank, known = _blank(lane, stored.get(lane.source)), stored.get(lane.source)
            async with at_once:
                found[lane.source] = await _tried(blank, lambda: self._lane(lane, blank, known, ends))
            done()

        async def topic(group: list[LaneName]) -> None:
            async with at_once:
                try:
                    ends = await self._ends(group)
                except _FAILURES as failure:
                    for lane in group:
                        blank = _blank(lane, stored.get(lane.source))
                        found[lane.source] = msgspec.structs.replace(blank, trouble=str(failure))
                        done()
                    return
            await run_all(*(survey(lane, ends[lane.source]) for lane in group))

        await run_all(*(topic(group) for group in topics.values()))
        return [found[lane.source] for lane in lanes]

    async def _ends(self, lanes: Sequence[LaneName]) -> dict[TopicPartition, _Ends]:
        sources = [lane.source for lane in lanes]
        led = list(await self._target.leaders([lane.target for lane in lanes]))
        starts, ends = await self._source.offsets(sources, EARLIEST), await self._source.offsets(sources, LATEST)
        first = await self._target.offsets(led, EARLIEST) if led else {}
        last = await self._target.offsets(led, LATEST) if led else {}
        return {
            lane.source: _Ends(
                starts[lane.source], ends[lane.source], first.get(lane.target, 0), last.get(lane.target, 0)
            )
            for lane in lanes
        }

    # --- one lane --------------------------------------------------------------------------------------------

    async def _lane(self, lane: LaneName, blank: LaneSurvey, stored: Stored, ends: _Ends) -> LaneSurvey:
        blank = msgspec.structs.replace(blank, source_end=ends.source_end)
        match stored:
            case Unreadable():
                return msgspec.structs.replace(blank, trouble=stored.reason)
            case Position():
                return await self._ours(lane, blank, stored, ends)
            case ForeignPosition(altered=True):
                at = stored.offset + 1 if stored.offset >= 0 else await self._start_of(lane.source, ends)
                set_here = msgspec.structs.replace(blank, position=at, source_next=at, trouble=_ALTERED)
                return _gap(set_here, ends)
            case ForeignPosition():
                at = stored.offset + 1
                return _gap(await self._behind(lane, blank, at, ends.source_start, ends), ends)
            case None:
                at = await self._start_of(lane.source, ends)
                found = await self._behind(lane, blank, at, at, ends)
                if not found.behind and await self._holds_records(lane.target, ends):
                    trouble = f"the target holds {_WRITER}: offsets {ends.target_start} to {ends.target_end - 1}"
                    found = msgspec.structs.replace(found, again=None, trouble=trouble)
                return _gap(found, ends)

    async def _start_of(self, lane: TopicPartition, ends: _Ends) -> int:
        return await self._starts.resolve(lane, start=ends.source_start, end=ends.source_end)

    async def _behind(
        self, lane: LaneName, blank: LaneSurvey, source_next: int, source_start: int, ends: _Ends
    ) -> LaneSurvey:
        reach = Reach(
            source_start=source_start,
            source_next=source_next,
            source_end=ends.source_end,
            target_start=ends.target_start,
            target_end=ends.target_end,
        )
        taken = await self._takeover.find(lane, reach)
        return msgspec.structs.replace(
            blank,
            position=source_next,
            source_next=taken.source_next,
            behind=taken.records,
            again=taken.twice,
            repeats=taken.records,
        )

    async def _ours(self, lane: LaneName, blank: LaneSurvey, stored: Position, ends: _Ends) -> LaneSurvey:
        blank = msgspec.structs.replace(blank, position=stored.source_next)
        if ends.target_end < stored.target_next:
            lost = f"the target ends at {ends.target_end}, and {stored.target_next} was acknowledged: it lost records"
            return msgspec.structs.replace(blank, trouble=lost)
        batches = await tail_headers(self._target, lane.target, stored, ends.target_start, ends.target_end)
        tail = Tail(log_start=ends.target_start, end=ends.target_end, batches=batches)
        starts = LogStarts(ends.source_start, ends.target_start)
        found = await ended(stored, tail, partial(self._takeover.holds, lane, starts=starts))
        if isinstance(found, Unknown):
            return msgspec.structs.replace(blank, trouble=f"target offset {found.found}: {found.cause}")
        if found.foreign:
            return await self._foreign_tail(lane, blank, stored, found, ends)
        went_on = msgspec.structs.replace(blank, source_next=found.source_next, repeats=found.tail_records)
        return _gap(went_on, ends)

    async def _foreign_tail(
        self, lane: LaneName, blank: LaneSurvey, stored: Position, found: ResumePoint, ends: _Ends
    ) -> LaneSurvey:
        """Judge what another writer wrote after raymirror's position: perhaps an MM2 that continued from there."""
        taken = await self._behind(lane, blank, stored.source_next, ends.source_start, ends)
        if taken.behind:
            return _gap(taken, ends)
        first, last = found.foreign[0][0], found.foreign[-1][1]
        return msgspec.structs.replace(
            blank,
            source_next=found.source_next,
            repeats=found.tail_records,
            trouble=f"the target holds {_WRITER}: offsets {first} to {last}",
        )

    async def _holds_records(self, target: TopicPartition, ends: _Ends) -> bool:
        """Whether a log holds anything but markers; it is read piece by piece, because it may be long."""
        at = ends.target_start
        while at < ends.target_end:
            batches = await self._target.read_headers(target, at, at + 1)
            if not batches:
                return False
            if not all(batch.is_control for batch in batches):
                return True
            at = batches[-1].next_offset
        return False


def _blank(lane: LaneName, stored: Stored) -> LaneSurvey:
    return LaneSurvey(
        topic=lane.source.topic,
        partition=lane.source.partition,
        target_topic=lane.target.topic,
        writer=writer_of(stored).value,
    )


async def _tried(blank: LaneSurvey, look: Callable[[], Awaitable[LaneSurvey]]) -> LaneSurvey:
    try:
        return await look()
    except _FAILURES as failure:
        return msgspec.structs.replace(blank, trouble=str(failure))


def _gap(found: LaneSurvey, ends: _Ends) -> LaneSurvey:
    """Fill in the gap: the offsets that would be copied next, and that the source no longer has."""
    if found.source_next < ends.source_start:
        return msgspec.structs.replace(found, gap=(found.source_next, ends.source_start - 1))
    if found.source_next > ends.source_end:
        return msgspec.structs.replace(found, gap=(ends.source_end, found.source_next - 1))
    return found
