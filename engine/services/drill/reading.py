"""Compares what consumers of shadow groups have read with the source's records at the groups' source offsets.

    consumer on the target reads ──> source is read ──> compare;  nothing was read, and the source has a record:
                                                          the target is read once more, for the record may be on its way

The source is read last: whatever the target has, the source has then, too.
"""

import asyncio
from collections.abc import Iterable, Mapping
from random import Random

import msgspec

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.flow.groups.translations import TranslatedOffset
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.kafka.groups.stock_consumer import ConsumerPlan, FirstRead, Reads, digest_of
from engine.services.drill.groups import Places
from engine.services.drill.log_reads import read_some
from engine.wire.record import Record
from policies.dr.drill import DrillFinding, ReadBack, SeenRecord, judge_read, shadow_group
from policies.model import TopicPartition

BEHIND = 200
"""Records that are compared in a compacted topic if the first ones differ."""
ARRIVES_S = 10.0
"""So long a record of the source may take to arrive on the target."""
_AT_ONCE = 8
_AGAIN_S = 0.25
_FAILURES = (BrokerUnreachable, ConnectionLost, KafkaRefusal)


def sampled(places: Places, count: int, run_id: str) -> Places:
    """Return `count` of the groups, chosen by the run's id; all of them for 0."""
    if not count or count >= len(places):
        return places
    chosen = Random(run_id).sample(sorted(places), count)
    return {group: places[group] for group in sorted(chosen)}


def consumer_plans(run_id: str, places: Places) -> list[ConsumerPlan]:
    """Return a consumer for each group."""
    return [
        ConsumerPlan(group=shadow_group(run_id, group), partitions=tuple(row.target for row in rows))
        for group, rows in places.items()
    ]


class ReadComparison:
    """Compares reads of one flow's target with its source. `compacted`: source topics where either log is compacted."""

    def __init__(self, source: Cluster, target: Cluster, compacted: frozenset[str]) -> None:
        self._source, self._target, self._compacted = source, target, compacted
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def compare(self, run_id: str, places: Places, reads: Reads) -> list[DrillFinding]:
        """Judge every read. A partition that cannot be read on the source now is a finding of its own."""
        rows = [(group, row) for group, some in places.items() for row in some]
        starts = await self._starts({row.lane for _, row in rows})
        found: list[DrillFinding | None] = []

        async def one(group: str, row: TranslatedOffset) -> None:
            async with self._at_once:
                read = reads.get((shadow_group(run_id, group), row.target), FirstRead(failed="no consumer was started"))
                found.append(judge_read(await self._read_back(group, row, read, starts)))

        async with asyncio.TaskGroup() as tasks:
            for group, row in rows:
                tasks.create_task(one(group, row))
        return [finding for finding in found if finding is not None]

    async def _starts(self, lanes: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        try:
            return await self._source.offsets(list(lanes), EARLIEST)
        except _FAILURES:
            return {}  # then each partition says for itself why it cannot be read

    async def _read_back(
        self, group: str, row: TranslatedOffset, read: FirstRead, starts: Mapping[TopicPartition, int]
    ) -> ReadBack:
        blank = ReadBack(
            group=group,
            partition=str(row.target),
            source_offset=row.source_offset,
            target_offset=row.offset,
            source_start=starts.get(row.lane, 0),
            is_compacted=row.lane.topic in self._compacted,
            read=read.record,
            failed=read.failed,
        )
        if read.failed or blank.source_offset < blank.source_start:
            return blank
        try:
            return await self._with_source(blank, row)
        except _FAILURES as failure:
            return msgspec.structs.replace(blank, failed=f"its records cannot be compared: {failure}")

    async def _with_source(self, blank: ReadBack, row: TranslatedOffset) -> ReadBack:
        wanted = await first_records(self._source, row.lane, row.source_offset, 1)
        one = msgspec.structs.replace(blank, wanted=wanted[0] if wanted else None)
        if one.read is None and wanted:
            arrived = await self._arriving(row)
            one = msgspec.structs.replace(one, read=arrived)
        if one.is_compacted and one.read is not None and one.wanted is not None and one.read.difference(one.wanted):
            later = await first_records(self._source, row.lane, row.source_offset, BEHIND)
            before = await first_records(self._target, row.target, row.offset, BEHIND)
            is_cut = BEHIND in (len(later), len(before))
            one = msgspec.structs.replace(one, later=later[1:], before=before[1:], is_cut=is_cut)
        return one

    async def _arriving(self, row: TranslatedOffset) -> SeenRecord | None:
        give_up_at_s = now_s() + ARRIVES_S
        while True:
            found = await first_records(self._target, row.target, row.offset, 1)
            if found or now_s() >= give_up_at_s:
                return found[0] if found else None
            await pause(_AGAIN_S)


async def first_records(cluster: Cluster, partition: TopicPartition, first: int, count: int) -> tuple[SeenRecord, ...]:
    """Return the first committed records from an offset on, at most `count`. Raises what `read_log` raises."""
    end = (await cluster.stable_ends([partition])).get(partition, first)
    return tuple(map(seen_here, await read_some(cluster, partition, first, end, count)))


def seen_here(record: Record) -> SeenRecord:
    """Return a record that the engine has read in the form that is compared."""
    return SeenRecord(
        key=record.key, digest=digest_of(record.value), timestamp_ms=record.timestamp, headers=tuple(record.headers)
    )


async def read_by_own(cluster: Cluster, run_id: str, places: Places) -> Reads:
    """Read as consumers would, with raymirror's own reader: where a stock consumer cannot log in."""
    found: Reads = {}
    for group, rows in places.items():
        for row in rows:
            try:
                records = await first_records(cluster, row.target, row.offset, 1)
                read = FirstRead(record=records[0] if records else None)
            except _FAILURES as failure:
                read = FirstRead(failed=str(failure))
            found[shadow_group(run_id, group), row.target] = read
    return found
