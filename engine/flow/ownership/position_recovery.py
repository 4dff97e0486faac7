"""Finds the offset where a lane resumes, after its barrier, from its stored position and the target's batch headers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from engine.base.clock import wall_ms
from engine.base.errors import ConnectionLost
from engine.base.shared_read import SharedRead
from engine.base.tasks import run_all
from engine.core.events.events import IdentityChanged, LaneRefused, SourceGap, TargetGap
from engine.core.offset_map.map_runs import MapRun, join_runs
from engine.core.position.map_resume import map_reaches, needed_blocks, unfolded
from engine.core.position.missing import missing_records
from engine.core.position.position import Behind, ForeignPosition, Position, Seen
from engine.core.position.resume import REGRESSION, START, ResumePoint, Unknown, judged_from
from engine.core.position.right_before import behind_in
from engine.core.position.stored_tail import read_stored_tail
from engine.core.position.target_tail import Tail, ranges_of, split_at
from engine.core.position.vacancy import may_be_vacant
from engine.flow.lane.lane_driver import LaneDriver
from engine.flow.lane.lane_leaders import KnownLeader
from engine.flow.ownership.block_scan import find_blocks, read_blocks
from engine.flow.ownership.earlier_source import refusal
from engine.flow.ownership.starts import StartResolver
from engine.flow.ownership.stored_positions import LogOffsets, Stored, resumable_positions
from engine.flow.ownership.tail import is_kept, tail_headers
from engine.flow.ownership.takeover import LogStarts, Reach, Takeover
from engine.flow.ownership.told_by_contents import ended
from engine.flow.ports.options import FlowOptions
from engine.flow.ports.ports import EARLIEST, LATEST, Cluster, Producer, ProducerState
from engine.flow.refused.quarantine_reader import Replayers
from policies.model import LaneName, TopicPartition


class PreFenceState(msgspec.Struct, frozen=True):
    """State of one target partition and of its position's partition, as brokers reported it before the barrier."""

    end: int
    producers: list[ProducerState]
    positions_end: int
    may_be_vacant: bool = False
    """Whether to ask for an epoch without a barrier first (`core/position/vacancy.py`); the brokers agree who leads."""
    stored: Position | None = None
    """The lane's position, if the lane may be vacant."""


class FencedLane(msgspec.Struct, frozen=True):
    """A lane after its barrier: its producer, the state before, and how often the lease guard had shut by then.

    `vacant`: no barrier was written, because no request of a previous owner can arrive. `leader`: of the target, as it
    was known before the log was read.
    """

    producer: Producer
    before: PreFenceState
    times_shut: int
    vacant: bool = False
    leader: KnownLeader = KnownLeader()

    @property
    def owner(self) -> tuple[int, int]:
        """The id and the epoch of its producer."""
        return self.producer.producer_id, self.producer.epoch

    @property
    def marked(self) -> bool:
        """Whether the barrier wrote its markers."""
        return self.producer.fenced and not self.vacant

    def behind(self, stored: Stored, found: ResumePoint) -> Seen:
        """Return what is known to be right before the point where it resumes, if the map may not say it.

        A lane without a barrier rests behind what the owner before was behind. Where nothing was read, the barrier is
        there if the log has grown by no more since the state before.
        """
        if self.vacant and isinstance(stored, Position):
            what = stored.behind.what if stored.target_next == found.target_next else Behind.NOT_SAID
            return found.behind._replace(what=what)
        reads_nothing = found.how == START and not found.behind.what
        is_last = reads_nothing and self.marked and found.target_next == self.before.end + 1
        return Seen(Behind.MARKER) if is_last else found.behind


class PositionRecovery:
    """Reads both clusters, and finds where one lane resumes."""

    def __init__(self, options: FlowOptions, source: Cluster, target: Cluster, starts: StartResolver) -> None:
        self._options = options
        self._source = source
        self._target = target
        self._starts = starts
        self._reads: dict[int, SharedRead[dict[TopicPartition, Stored]]] = {}
        """By positions partition."""
        self._replayers = Replayers(target, options.flow.source, is_used=options.faults.leaves_out)
        self._takeover = Takeover(source, target, read_committed=options.mm2_read_committed)

    # --- reads for many lanes --------------------------------------------------------------------------------

    async def stored(self, drivers: Sequence[LaneDriver]) -> dict[TopicPartition, Stored]:
        """Read the positions of lanes, with announced runs; nothing for a lane without one.

        A read takes a whole partition, with the positions of all lanes that have theirs there. So lanes that are
        acquired at one time share it.
        """
        lanes: dict[int, list[TopicPartition]] = defaultdict(list)
        for driver in drivers:
            lanes[driver.position_appender.partition.partition].append(driver.name.source)
        found: dict[TopicPartition, Stored] = {}

        async def read(partition: int) -> None:
            positions = await self._reads_of(partition).get()
            found.update((lane, positions[lane]) for lane in lanes[partition] if lane in positions)

        await run_all(*map(read, lanes))
        return found

    def _reads_of(self, partition: int) -> SharedRead[dict[TopicPartition, Stored]]:
        if partition not in self._reads:
            self._reads[partition] = SharedRead(partial(self._read_positions, partition))
        return self._reads[partition]

    async def _read_positions(self, partition: int) -> dict[TopicPartition, Stored]:
        records = await self._target.read_records(self._options.positions_topic, {partition})
        return resumable_positions(records, self._options.position_keys)

    async def agreed(self, drivers: Sequence[LaneDriver]) -> bool:
        """Whether every target broker names the leaders of these lanes' copies and positions: none can know newer ones.

        A broker that is silent for 1 s counts as one that does not name them: a barrier takes less time.
        """
        return bool(drivers) and await self._target.survey(_with_positions(drivers), hurry=True)

    async def before(
        self, drivers: Sequence[LaneDriver], vacant: Mapping[TopicPartition, Position | None]
    ) -> dict[TopicPartition, PreFenceState]:
        """Read the leaders' producer state and ends before any barrier changes them; by source partition.

        `vacant`: the positions of the lanes that may be vacant.
        """
        targets = [driver.name.target for driver in drivers]
        producers: dict[TopicPartition, list[ProducerState]] = {}
        ends: dict[TopicPartition, int] = {}

        async def ask_producers() -> None:
            producers.update(await self._target.producers(targets))

        async def ask_ends() -> None:
            ends.update(await self._target.offsets(_with_positions(drivers), LATEST))

        await run_all(ask_producers(), ask_ends())
        return {
            driver.name.source: PreFenceState(
                ends[driver.name.target],
                producers.get(driver.name.target, []),
                ends[driver.position_appender.partition],
                driver.name.source in vacant and may_be_vacant(vacant[driver.name.source], ends[driver.name.target]),
                vacant.get(driver.name.source),
            )
            for driver in drivers
        }

    async def read_offsets(
        self, drivers: Sequence[LaneDriver], *, stored: dict[TopicPartition, Stored] | None
    ) -> LogOffsets:
        """Ask both clusters for the offsets and ids that lanes are judged by, in parallel; unless given, positions too.

        In parallel is right after a barrier, when they no longer change. Without a barrier, read positions first.
        """
        sources = [driver.name.source for driver in drivers]
        targets = [driver.name.target for driver in drivers]
        logs = LogOffsets(stored=stored or {}, asked_ms=wall_ms())

        async def positions() -> None:
            logs.stored = await self.stored(drivers) if stored is None else stored

        async def offsets(
            into: dict[TopicPartition, int], cluster: Cluster, partitions: list[TopicPartition], at: int
        ) -> None:
            into.update(await cluster.offsets(partitions, at))

        async def ids() -> None:
            logs.source_cluster_id = await self._source.cluster_id()
            logs.target_cluster_id = await self._target.cluster_id()

        await run_all(
            offsets(logs.source_starts, self._source, sources, EARLIEST),
            offsets(logs.source_ends, self._source, sources, LATEST),
            offsets(logs.target_starts, self._target, targets, EARLIEST),
            offsets(logs.target_ends, self._target, _with_positions(drivers), LATEST),
            ids(),
            positions(),
        )
        return logs

    async def read_offsets_again(self, driver: LaneDriver, logs: LogOffsets) -> None:
        """Ask again for the start and end offsets of one lane's logs."""
        fresh = await self.read_offsets([driver], stored=logs.stored)
        logs.source_starts |= fresh.source_starts
        logs.source_ends |= fresh.source_ends
        logs.target_starts |= fresh.target_starts
        logs.target_ends |= fresh.target_ends

    # --- one lane --------------------------------------------------------------------------------------------

    async def find(
        self, driver: LaneDriver, fenced: FencedLane, logs: LogOffsets, *, same_source: bool = True
    ) -> ResumePoint | TargetGap:
        """Find where the copy ended. Raises ConnectionLost if a read did not see the barrier.

        `same_source`: whether this is the source that the position was written for, so that contents can be compared.
        """
        target, stored = driver.name.target, logs.stored.get(driver.name.source)
        start, end = logs.target_starts[target], logs.target_ends[target]
        self.check_behind(driver, fenced, logs)
        if isinstance(stored, Position):
            tail = await self._tail(driver, stored, fenced, start, end)
            found = read_stored_tail(stored, tail, distrusts=True)
            reached = found.target_end if (first := judged_from(stored, tail)) < 0 else first + 1
            if reached >= 0 and not map_reaches(stored, reached):
                logs.stored[driver.name.source] = stored = await self._unfolded(driver, stored, reached)
                found = read_stored_tail(stored, tail, distrusts=True)
            if same_source:
                found = await ended(stored, tail, partial(self._compare, driver.name, logs))
            if isinstance(found, Unknown):
                return TargetGap(
                    flow=self._options.flow,
                    lane=driver.name.source,
                    expected=found.expected,
                    found=found.found,
                    cause=found.cause,
                )
            found = msgspec.structs.replace(found, behind=behind_in(tail, found.target_next, fenced.owner, Seen()))
            if found.foreign:
                others = await self._replayers.others(target, found.foreign)
                found = msgspec.structs.replace(found, foreign=others)
            if found.foreign and same_source and self._options.takes_over:
                return await self._continued_by_mm2(driver, logs, stored, found)
            return found
        if isinstance(stored, ForeignPosition) and stored.altered:
            return await self._altered(driver, logs, stored)
        if isinstance(stored, ForeignPosition):
            return await self._taken_over(driver, logs, stored.offset + 1, logs.source_starts[driver.name.source])
        source_next = await self._start_of(driver.name.source, logs)
        foreign = await self.strangers(target, logs)
        if foreign and self._options.takes_over:  # perhaps of an MM2 that was killed before its first position
            taken = await self._taken_over(driver, logs, source_next, source_next)
            if taken.tail_records:
                return taken
        return ResumePoint(
            source_next=source_next,
            target_next=end,
            sequence=0,
            how=START,
            tail_records=0,
            foreign=foreign,
        )

    async def with_behind(
        self, driver: LaneDriver, fenced: FencedLane, logs: LogOffsets, found: ResumePoint
    ) -> ResumePoint:
        """Return a resume point with what is right before it, read from the log if no tail was read.

        Its leader epoch shows later whether the log is still the one that the lane continues. A lane that only starts
        has no record there to lose. Raises OffsetGone, and as the reads of `Cluster` do.
        """
        target, last = driver.name.target, found.target_next - 1
        if found.how == START or found.behind != Seen() or last < logs.target_starts[target]:
            return found
        batches = tuple(await self._target.read_headers(target, last, last + 1))
        tail = Tail(log_start=logs.target_starts[target], end=last + 1, batches=batches)
        return msgspec.structs.replace(found, behind=behind_in(tail, last + 1, fenced.owner, Seen()))

    async def _continued_by_mm2(
        self, driver: LaneDriver, logs: LogOffsets, stored: Position, found: ResumePoint
    ) -> ResumePoint:
        """Take over what an MM2 copied that went on where the lane ended, and was killed before it wrote a position.

        MM2 went on from the lane's position; in a log with late requests, that is behind these.
        """
        is_cut = found.how == REGRESSION
        source_next = found.source_next if is_cut else stored.source_next
        taken = await self._taken_over(driver, logs, source_next, logs.source_starts[driver.name.source])
        if not taken.tail_records:
            return found
        if not is_cut:
            return taken
        copied = join_runs((*found.copied, *taken.copied))
        return msgspec.structs.replace(taken, how=REGRESSION, copied=copied, target_end=found.target_end)

    async def _compare(self, name: LaneName, logs: LogOffsets, runs: Sequence[MapRun]) -> bool | None:
        """Compare the records of some runs, as far as both logs still have them."""
        reach = LogStarts(logs.source_starts[name.source], logs.target_starts[name.target])
        return await self._takeover.holds(name, runs, reach)

    async def _altered(self, driver: LaneDriver, logs: LogOffsets, stored: ForeignPosition) -> ResumePoint:
        """Return where a lane continues after its position was set: what the target held by then does not matter."""
        offset, target = stored.offset, driver.name.target
        return ResumePoint(
            source_next=offset + 1 if offset >= 0 else await self._start_of(driver.name.source, logs),
            target_next=logs.target_ends[target],
            sequence=0,
            how="altered offsets",
            tail_records=0,
            foreign=() if stored.target_next < 0 else await self._others_behind(target, stored.target_next, logs),
        )

    async def _others_behind(self, target: TopicPartition, first: int, logs: LogOffsets) -> tuple[tuple[int, int], ...]:
        """Return the offset ranges of records from an offset on, without replayed ones."""
        end = logs.target_ends[target]
        found = await self._first_data(target, max(first, logs.target_starts[target]), end)
        if found is None:
            return ()
        batches = await self._target.read_headers(target, found, end)
        return await self._replayers.others(target, ranges_of(batches))

    async def _start_of(self, lane: TopicPartition, logs: LogOffsets) -> int:
        return await self._starts.resolve(lane, start=logs.source_starts[lane], end=logs.source_ends[lane])

    async def is_kept(self, driver: LaneDriver, stored: Position, logs: LogOffsets) -> bool:
        """Whether the records that an atomic position counts were committed, so that readers see them."""
        target = driver.name.target
        return await is_kept(self._target, target, stored, logs.target_starts[target], logs.target_ends[target])

    async def strangers(self, target: TopicPartition, logs: LogOffsets) -> tuple[tuple[int, int], ...]:
        """Return the offset range of records that no raymirror copier wrote: from the first record on, or nothing."""
        end = logs.target_ends[target]
        first = await self._first_data(target, logs.target_starts[target], end)
        return () if first is None else ((first, end - 1),)

    @staticmethod
    def check_behind(driver: LaneDriver, fenced: FencedLane, logs: LogOffsets) -> None:
        """Raise ConnectionLost if a stale leader reported the ends.

        The barrier wrote a marker to each log. An end that has not grown since came from a stale leader.
        """
        positions = driver.position_appender.partition
        for where, end in ((driver.name.target, fenced.before.end), (positions, fenced.before.positions_end)):
            if fenced.marked and logs.target_ends[where] <= end:
                raise _not_behind(where)

    async def _taken_over(
        self, driver: LaneDriver, logs: LogOffsets, source_next: int, source_start: int
    ) -> ResumePoint:
        source, target = driver.name
        reach = Reach(
            source_start=source_start,
            source_next=source_next,
            source_end=logs.source_ends[source],
            target_start=logs.target_starts[target],
            target_end=logs.target_ends[target],
        )
        taken = await self._takeover.find(driver.name, reach)
        return ResumePoint(
            source_next=taken.source_next,
            target_next=reach.target_end,
            sequence=0,
            how="MM2's position",
            tail_records=taken.records,
            twice=taken.twice,
            copied=taken.copied,
        )

    async def _tail(self, driver: LaneDriver, stored: Position, fenced: FencedLane, start: int, end: int) -> Tail:
        target, before = driver.name.target, fenced.before
        batches = tuple(split_at(stored, await tail_headers(self._target, target, stored, start, end)))
        mark = fenced.owner
        if any(batch.producer_id == mark[0] and batch.producer_epoch > mark[1] for batch in batches):
            raise ConnectionLost(f"{target}: another owner's barrier follows this lane's")
        marked = any(batch.is_control and (batch.producer_id, batch.producer_epoch) == mark for batch in batches)
        if fenced.marked and not marked and start <= before.end:
            raise _not_behind(target)
        markers = sum(1 for batch in batches if batch.is_control and batch.base_offset >= before.end)
        # Only markers were appended since the leader was asked: the sequence that it remembered is still the last.
        untouched = before.end + markers >= end
        ours = (stored.producer_id, stored.producer_epoch)
        state = [p for p in before.producers if (p.producer_id, p.epoch) == ours]
        last = state[0].last_sequence if untouched and state and state[0].last_sequence >= 0 else None
        return Tail(log_start=start, end=end, batches=batches, last_sequence=last)

    async def _unfolded(self, driver: LaneDriver, stored: Position, target_end: int) -> Position:
        """Read the map's blocks back from the block that holds a target offset, and put their runs into the map's tail.

        If a block is lost, the part of the map before it is lost too.
        """
        lane, partition = driver.name.source, driver.block_appender.partition
        found = await find_blocks(self._target, partition, self._options.flow.source, [lane])
        needed = needed_blocks(stored, found[lane], target_end)
        return unfolded(stored, await read_blocks(self._target, partition, needed), target_end)

    async def _first_data(self, target: TopicPartition, start: int, end: int) -> int | None:
        """Return the first offset that holds a record and not a marker; None if no offset does."""
        while start < end:
            batches = await self._target.read_headers(target, start, start + 1)  # one read; the log may be long
            for batch in batches:
                if not batch.is_control:
                    return batch.base_offset
            if not batches:
                break
            start = batches[-1].next_offset
        return None

    # --- reasons not to resume -------------------------------------------------------------------------------

    def changed_identity(self, driver: LaneDriver, stored: Position, logs: LogOffsets) -> IdentityChanged | None:
        """Compare topics and clusters with those the position was written for."""
        source, target = driver.name
        checks = (  # clusters first: on another cluster every topic id differs, and no rule for topics covers that
            ("the source cluster's id", stored.source_cluster_id, logs.source_cluster_id),
            ("the target cluster's id", stored.target_cluster_id, logs.target_cluster_id),
            (f"the id of source topic {source.topic}", stored.source_topic_id, driver.leaders.source.topic_id),
            (f"the id of target topic {target.topic}", stored.target_topic_id, driver.leaders.target.topic_id),
        )
        for what, expected, found in checks:
            if expected and found and expected != found:
                return IdentityChanged(flow=self._options.flow, lane=source, what=what, expected=expected, found=found)
        return None

    async def earlier_source(self, driver: LaneDriver, stored: Position) -> LaneRefused | None:
        """Refuse a source that is an earlier state of its cluster: led at a lower epoch than was copied (KIP-101).

        A broker that did not answer may know a newer leader; then this returns None. Raises ConnectionLost,
        BrokerUnreachable.
        """
        lane, copied = driver.name.source, stored.source_leader_epoch
        if not driver.leaders.source_is_older(copied) or not await self._source.survey([lane]):
            return None
        return await refusal(
            self._options.flow,
            self._source,
            driver,
            topic_id=stored.source_topic_id,
            copied_epoch=copied,
            source_next=stored.source_next,
        )

    async def source_gap(self, driver: LaneDriver, source_next: int, logs: LogOffsets) -> SourceGap | None:
        """Return the gap if the source no longer has the offsets to copy next.

        Raises ConnectionLost, BrokerUnreachable. A stale leader reports a stale end: before raymirror believes an end,
        it asks every broker who leads.
        """
        lane, stored = driver.name.source, logs.stored.get(driver.name.source)
        if source_next > logs.source_ends[lane]:
            await self._source.survey([lane])
            logs.source_ends |= await self._source.offsets([lane], LATEST)
            if isinstance(stored, Position) and driver.leaders.source_is_older(stored.source_leader_epoch):
                copied = stored.source_leader_epoch
                raise ConnectionLost(f"{lane}: copied up to leader epoch {copied}, but its leader has an older one")
        missing = missing_records(source_next, logs.source_starts[lane], logs.source_ends[lane])
        if missing is None:
            return None
        return SourceGap(
            flow=self._options.flow, lane=lane, first=missing.first, last=missing.last, cause=missing.cause
        )


def _with_positions(drivers: Sequence[LaneDriver]) -> list[TopicPartition]:
    """Return the target partitions of some lanes, and those with their positions, each once."""
    positions = {driver.position_appender.partition for driver in drivers}
    return [*(driver.name.target for driver in drivers), *sorted(positions)]


def _not_behind(target: TopicPartition) -> ConnectionLost:
    """Make the error for a stale leader (thawed, or cut off from its controller): its log lacks the lane's marker."""
    return ConnectionLost(f"{target}: the broker that answered does not have the marker of this lane's barrier yet")
