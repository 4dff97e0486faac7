"""Reads for each partition of a flow what both clusters have, and what each has alone. Writes nothing.

The order of the reads makes every mistake a cautious one while the flow is copied: maps, then the target's ends, then
the source's ends. So the target never seems to lack what a map counts, and D is rather too large. Records of raymirror
that no map counts yet are told from N by their producer id; so are refused records that were replayed, which the source
has.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, OffsetGone
from engine.base.tasks import run_all
from engine.core.offset_map.map_runs import MapHead
from engine.core.offset_map.offset_map import How, Translation
from engine.core.refused.entries import RefusedState, by_lane
from engine.core.reports.log_content import ContentRange, LogContent
from engine.flow.lane.bisection import by_leaders, offsets_by_leaders
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster, EpochEnd, Leader
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.flow.topic_logs.last_known import KnownLane
from policies.dr.separation import LogBounds, Separation, TopicTraits
from policies.model import LaneName, TopicPartition

_LOOK_BACK = 1000
"""Offsets before the end of the copy that are searched for transactions which the copy has torn."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes that are read of each part of a partition to count its records; what follows is projected."""
_MARKER_BYTES = 256 * 1024
"""Bytes that are read of what is shared, to see whether it is nothing but markers."""
_AT_ONCE = 8
_LOOKS, _AGAIN_S, _EACH_S = 5, 1.0, 0.001
"""How often leaders are asked, and seconds in between: partitions change their leaders when a cluster has just come
back, and the question goes to the leader of before. `_EACH_S`: what a question about one more partition may take."""
NOT_COPIED = "raymirror has not copied it yet"
BY_MM2 = "MM2 copied it, so where the copy ends on the target is not stored"
_FAILURES = (BrokerUnreachable, ConnectionLost, KafkaRefusal)


class SurveyMaps(Protocol):
    """The exact maps of lanes, and the producers that wrote their copies."""

    async def follow(self) -> None:
        """Read all that was written until now. Raises ConnectionLost, BrokerUnreachable, KafkaRefusal."""

    def head(self, lane: TopicPartition) -> MapHead | None:
        """Return where the copy of a lane ends; None if it is not known."""

    def head_ms(self, lane: TopicPartition) -> int:
        """Return when that was written (Unix ms); -1: not known."""

    def producer(self, lane: TopicPartition) -> int | None:
        """Return the producer id in a lane's last position."""

    def source_of(self, lane: TopicPartition, target_offset: int) -> Translation:
        """Answer from memory; UNREAD names a block to `recall`."""

    def translate(self, lane: TopicPartition, source_offset: int) -> Translation:
        """Answer from memory, like `source_of`."""

    async def recall(self, lane: TopicPartition, blocks: Collection[int]) -> None:
        """Read blocks of one lane back into memory."""


class SurveyedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition: its separation, and what D and N hold, projected if they are too large to read.

    `diverged` None: it is not known how far the partition is copied, or what its source holds.
    """

    separation: Separation
    diverged: LogContent | None = None
    new: LogContent = LogContent()
    as_of_ms: int = -1
    """When the position or offset sync was written that says how far it is copied (Unix ms); -1: not known."""

    @property
    def is_counted(self) -> bool:
        """Whether D and N were read to their ends."""
        return self.diverged is not None and self.diverged.is_whole and self.new.is_whole


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    led: Mapping[TopicPartition, Leader]
    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def bounds(self, partition: TopicPartition) -> LogBounds:
        return LogBounds(
            start=self.starts.get(partition, -1),
            end=self.ends.get(partition, -1),
            stable_end=self.stable.get(partition, -1),
        )

    def topic_id(self, partition: TopicPartition) -> str:
        return self.led[partition].topic_id if partition in self.led else ""

    def completed(self, later: "_Side") -> "_Side":
        """Return both; where both have an answer, the later one counts."""
        return _Side(
            led={**self.led, **later.led},
            starts={**self.starts, **later.starts},
            stable={**self.stable, **later.stable},
            ends={**self.ends, **later.ends},
        )


class SeparationSurvey:
    """Surveys the lanes of one flow; both clusters must answer."""

    def __init__(self, source: Cluster, target: Cluster, maps: SurveyMaps, quarantine: QuarantineReader) -> None:
        self._source, self._target, self._maps = source, target, maps
        self._quarantine = quarantine
        self._replayers = frozenset[int]()
        self._refused: Mapping[TopicPartition, list[RefusedState]] = {}
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def look(
        self, lanes: Sequence[LaneName], known: Mapping[TopicPartition, KnownLane], topics: Mapping[str, TopicTraits]
    ) -> list[SurveyedPartition]:
        """Survey lanes, in their order; `known`: their positions, `topics`: their source topics.

        A partition that cannot be read says why.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal if a cluster answers nothing.
        """
        await self._maps.follow()
        self._replayers = await self._quarantine.replayers()
        self._refused = by_lane(await self._quarantine.states())
        there = await _side(self._target, [lane.target for lane in lanes])
        moved = {lane: one.gone_on(self._maps.head(lane), self._maps.head_ms(lane)) for lane, one in known.items()}
        here = await _side(self._source, [lane.source for lane in lanes])
        epochs = {lane: one.source_epoch for lane, one in known.items() if one.source_epoch >= 0 and lane in here.led}
        ends = await self._source.epoch_ends(epochs) if epochs else {}
        found: dict[LaneName, SurveyedPartition] = {}

        async def survey(lane: LaneName) -> None:
            one = moved.get(lane.source)
            other = one.other_copy(there.topic_id(lane.target)) if one is not None else ""
            if one is not None and other:  # whatever it holds by now is no copy
                one = msgspec.structs.replace(one, why=other)
            blank = Separation(
                lane=lane,
                source=here.bounds(lane.source),
                target=LogBounds() if other else there.bounds(lane.target),
                topic=topics[lane.source.topic],
            )
            if one is not None:
                blank = _copied_to(blank, one, ends.get(lane.source), here.topic_id(lane.source))
            async with self._at_once:
                found[lane] = await self._surveyed(blank, one)

        await run_all(*(survey(lane) for lane in lanes))
        return [found[lane] for lane in lanes]

    async def _surveyed(self, blank: Separation, known: KnownLane | None) -> SurveyedPartition:
        """Count D, and N if the partition can be judged; a count that fails says why it cannot."""
        found = SurveyedPartition(
            separation=msgspec.structs.replace(blank, unknown=_why_unknown(blank, known)),
            as_of_ms=known.at_ms if known is not None else -1,
        )
        try:
            if known is None or known.source_next >= 0:
                found = await self._with_divergence(found, known)
            if known is None or found.separation.unknown:
                return found
            return await self._with_shared(await self._with_new(found, known))
        except (*_FAILURES, OffsetGone) as failure:
            separation = msgspec.structs.replace(found.separation, unknown=str(failure))
            return msgspec.structs.replace(found, separation=separation)

    async def _with_divergence(self, found: SurveyedPartition, known: KnownLane | None) -> SurveyedPartition:
        """Count D; all of a log that was never copied is D."""
        blank = found.separation
        if not blank.source.is_known:
            return found
        first = max(0 if known is None else blank.split, blank.source.start)
        since = first if known is None else max(blank.source.start, first - _LOOK_BACK)
        wanted = ContentRange(first=first, end=blank.source.end, since=since, most_bytes=MOST_BYTES)
        diverged = await _content(self._source, blank.lane.source, wanted)
        separation = msgspec.structs.replace(
            blank,
            diverged=diverged.records,
            diverged_end=diverged.records_end,
            erased=known is not None and _is_erased(blank.topic, diverged, known),
        )
        return msgspec.structs.replace(found, separation=separation, diverged=diverged)

    async def _with_new(self, found: SurveyedPartition, known: KnownLane) -> SurveyedPartition:
        """Count N, without the records of raymirror that are in no map."""
        blank = found.separation
        ours = self._maps.producer(blank.lane.source)
        first = max(blank.target_next, blank.target.start)
        wanted = ContentRange(
            first=first,
            end=blank.target.end,
            since=first,
            most_bytes=MOST_BYTES,
            without=self._replayers if ours is None else self._replayers | {ours},
        )
        new = await _content(self._target, blank.lane.target, wanted)
        separation = msgspec.structs.replace(
            blank,
            new=new.records,
            new_end=new.records_end,
            left_out=await self._left_out(blank.lane.source, known),
            replayed=self._replayed(blank),
            oldest_kept=await self._oldest_kept(blank),
            apart_ms=0 if new.is_empty else max(0, wall_ms() - known.at_ms),
            ended_ms=known.at_ms,
        )
        return msgspec.structs.replace(found, separation=separation, new=new)

    async def _with_shared(self, found: SurveyedPartition) -> SurveyedPartition:
        """Say that nothing is shared if neither log holds a record of P; asked only if no leader epoch tells more.

        A position that was only moved, or that counts nothing but markers, has no epoch.
        """
        one = found.separation
        if not one.is_epoch_unknown:
            return found
        parts = (
            (self._source, one.lane.source, one.source, one.source_next),
            (
                self._target,
                one.lane.target,
                one.target,
                one.target_next,
            ),
        )
        for cluster, partition, bounds, end in parts:
            first = bounds.start
            wanted = ContentRange(first=first, end=min(end, bounds.end), since=first, most_bytes=_MARKER_BYTES)
            if wanted.first >= wanted.end:
                continue
            content = await cluster.read_content(partition, wanted)
            if content.records or not content.is_whole:
                return found
        return msgspec.structs.replace(found, separation=msgspec.structs.replace(one, is_unshared=True))

    def _replayed(self, blank: Separation) -> int:
        """Count refused records that were replayed behind the copy's end; one without a mark may have been, too."""
        marks = [state.mark for state in self._refused.get(blank.lane.source, ())]
        pending = sum(mark is None for mark in marks) if self._replayers else 0
        return pending + sum(mark is not None and mark.target_offset >= blank.target_next for mark in marks)

    async def _left_out(self, lane: TopicPartition, known: KnownLane) -> int:
        """Count refused records of what is copied, without those that are done with or that the map has a copy of."""
        count = 0
        for state in self._refused.get(lane, ()):
            name = state.record.name
            is_other = bool(name.topic_id) and known.source_topic_id not in ("", name.topic_id)
            if state.mark is not None or is_other or name.offset >= known.source_next:
                continue
            answer = self._maps.translate(lane, name.offset)
            if answer.how is How.UNREAD:
                await self._maps.recall(lane, [answer.block])
                answer = self._maps.translate(lane, name.offset)
            count += answer.how is not How.RUN
        return count

    async def _oldest_kept(self, blank: Separation) -> int:
        lane, offset = blank.lane.source, min(blank.target.start, blank.target_next)
        answer = self._maps.source_of(lane, offset)
        if answer.how is How.UNREAD:
            await self._maps.recall(lane, [answer.block])
            answer = self._maps.source_of(lane, offset)
        return answer.offset


def _is_erased(topic: TopicTraits, diverged: LogContent, known: KnownLane) -> bool:
    """Whether D may have had tombstones that the source's cleaner removed: it keeps each for delete.retention.ms."""
    is_late = wall_ms() - known.at_ms >= topic.source_delete_retention_ms
    return topic.is_compacted and is_late and (diverged.gone > 0 or not diverged.is_whole)


def _copied_to(blank: Separation, known: KnownLane, told: EpochEnd | None, topic_id: str) -> Separation:
    """Add how far a partition is copied, and up to where the source still has that log for certain.

    The epoch in a position says nothing of what was copied after the position. A log without a record of that epoch has
    parted from the copied one where an earlier epoch ended, which no position says. A topic that was created again
    shares nothing with what was copied.
    """
    end = -1 if told is None else told.end
    if known.epoch_next <= end < known.source_next:
        end = -1
    if told is not None and 0 <= told.epoch < known.source_epoch:
        end = 0
    if known.source_topic_id and topic_id and known.source_topic_id != topic_id:
        end = 0
    return msgspec.structs.replace(blank, source_next=known.source_next, target_next=known.target_next, epoch_end=end)


async def _content(cluster: Cluster, partition: TopicPartition, wanted: ContentRange) -> LogContent:
    if wanted.first >= wanted.end:
        return LogContent()
    return (await cluster.read_content(partition, wanted)).projected(wanted.first)


def _why_unknown(blank: Separation, known: KnownLane | None) -> str:
    """Say why a partition cannot be judged; empty if it can."""
    if not blank.source.is_known:
        return f"the leader of {blank.lane.source} on the source does not report its log"
    if known is None:
        return NOT_COPIED
    if known.why:
        return known.why
    if known.target_next < 0:
        return BY_MM2
    if not blank.target.is_known:
        return f"the leader of {blank.lane.target} on the target does not report its log"
    return blank.topic.unknown


async def _side(cluster: Cluster, partitions: Sequence[TopicPartition]) -> _Side:
    """Ask leaders for starts and ends; partitions whose leader does not answer are left out.

    If all that answer do so at once, for their number, the others are asked again: a broker that is away takes longer.
    """
    found = _Side(led={}, starts={}, stable={}, ends={})
    for look in range(_LOOKS):
        missing = [one for one in partitions if not found.bounds(one).is_known]
        if not missing:
            break
        if look:
            await pause(_AGAIN_S)
        began_s = now_s()
        found = found.completed(await _asked(cluster, missing))
        if now_s() - began_s > _AGAIN_S + len(missing) * _EACH_S:
            break
    return found


async def _asked(cluster: Cluster, partitions: Sequence[TopicPartition]) -> _Side:
    """Ask leaders once.

    The last stable offset is asked for last: a transaction that has ended by then is not open, and one that has begun
    since lies behind the end.
    """
    led = await cluster.leaders(sorted(partitions)) if partitions else {}
    starts = await offsets_by_leaders(cluster, led, EARLIEST)
    ends = await offsets_by_leaders(cluster, led, LATEST)
    stable = await by_leaders(cluster.stable_ends, led)
    return _Side(
        led=led,
        starts=starts,
        ends=ends,
        stable={one: min(at, ends.get(one, at)) for one, at in stable.items()},
    )
