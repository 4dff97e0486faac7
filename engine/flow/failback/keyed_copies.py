"""Copies what only the source has to a compacted copy, by keys, and deletes on the source what the target has deleted.

    target   P | N .. D'         D': of D the records whose keys N lacks, for N is newer than D
    source   P | T | N           T: tombstones of keys that the target lacks, where its cleaner may have dropped them;
                                 also of keys that it has deleted, where it may drop tombstones before N is copied

Applications write to the target all the time, and no client can append a record only if its key is not there. So D' is
appended in a transaction, and the log before it is read once more: if a key of D' came in between, the transaction is
rolled back, and it begins again with that key known.

T lies before all of N. A key that the target gets later is in N, so it lives.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.base.parts import parts
from engine.flow.failback.errors import FailbackReason, FailbackRefused
from engine.flow.failback.rows import KEYED, KeyedPart, LaneRow
from engine.flow.failback.world import FailbackWorld
from engine.flow.operations.driver import StepRun
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.flow.remaking.keyed_writer import KeyedWriter, Ranges, joined
from engine.wire.record import Record
from policies.model import TopicPartition

KEYS, TARGET_OPEN = "keys-must-be-compared", "target-transaction-open"
TOMBSTONES = "tombstones-gone"
_PATIENCE_S, _LOOK_S = 300.0, 0.2
"""Seconds to try while applications write the same keys, and between two tries."""
_TOMBSTONES_AT_ONCE = 10_000
"""Tombstones of one transaction."""
_SOURCE, _TARGET = "source", "target"


class KeyedCopies:
    """The keyed copies of one run of a step."""

    def __init__(self, world: FailbackWorld, run: StepRun) -> None:
        self._world, self._run = world, run

    async def late(self, row: LaneRow, end: int) -> Ranges:
        """Copy D up to a source offset by keys, and return where it lies on the target.

        Raises FailbackRefused, NotWritten, ConnectionLost, BrokerUnreachable, KafkaRefusal.
        """
        writer = self._writer(self._world.target.cluster, row.target)
        try:
            producer = await writer.acquire()
            known = self._parts(_TARGET, row)
            done = await writer.committed(known[0].first, _ids(known)) if known else ()
            if not known:
                part = _part(_TARGET, row, producer, await writer.end(), (row.split, end))
            elif not any(place[0] >= known[-1].first for place in done):  # it was begun, or had nothing to copy
                part = msgspec.structs.replace(known.pop(), producer_id=producer, source_end=end)
            else:
                part = _part(_TARGET, row, producer, await writer.end(), (known[-1].source_end, end))
            if part.source_from >= part.source_end:
                return done
            await self._keep([*known, part])  # before the first append
            return joined(sorted([*done, *await self._appended(writer, row, part, done)]))
        finally:
            await writer.close()

    def has_buried(self, row: LaneRow) -> bool:
        """Whether tombstones of a partition may have been written."""
        return bool(self._parts(_SOURCE, row))

    async def bury(self, row: LaneRow) -> int:
        """Write the tombstones that the target has lost or may lose, and return the offset behind; -1: there are none.

        To be called before any of N is copied. Each transaction has so many of them that it ends long before its
        timeout. Raises as `late` does.
        """
        writer = self._writer(self._world.source.cluster, row.source)
        try:
            await self._keep_writer(row, writer)
            known = self._parts(_SOURCE, row)
            done = await writer.committed(known[0].first, _ids(known))
            written = await self._keys_in(row.source, done)
            keys = [key for key in await self._deleted(row) if key not in written]
            if keys:
                self._run.say(f"{row.source}: writing {len(keys)} tombstones of keys that the target has deleted")
            end = done[-1][1] if done else -1
            for number, some in enumerate(parts(keys, _TOMBSTONES_AT_ONCE)):
                if number:
                    await self._keep_writer(row, writer)
                self._run.assure()
                places = await writer.append([Record(0, wall_ms(), key, None) for key in some])
                self._run.assure()
                await writer.commit()
                end = places[-1][1]
            return end
        finally:
            await writer.close()

    async def _keep_writer(self, row: LaneRow, writer: KeyedWriter) -> None:
        """Begin an epoch of the writer of tombstones; its producer id is stored before it appends anything."""
        producer, known = await writer.acquire(), self._parts(_SOURCE, row)
        if producer not in _ids(known):
            first = known[0].first if known else await writer.end()
            await self._keep([*known, _part(_SOURCE, row, producer, first, (row.split, row.split))])

    async def _keys_in(self, partition: TopicPartition, places: Ranges) -> set[bytes]:
        """Return the keys of the records in some ranges of the source's log."""
        cluster, keys = self._world.source.cluster, set[bytes]()
        for first, end in places:
            async for record in _records(cluster, partition, first, end, committed=True):
                keys.add(record.key or b"")
        return keys

    async def _deleted(self, row: LaneRow) -> list[bytes]:
        """Return the keys that live in P on the source, and that the target has deleted, by its log or by its lack."""
        source, target = self._world.source.cluster, self._world.target.cluster
        living: dict[bytes, bool] = {}
        first = (await source.offsets([row.source], EARLIEST))[row.source]
        async for record in _records(source, row.source, first, row.split, committed=True):
            if record.key is not None:
                living[record.key] = record.value is not None
        first = (await target.offsets([row.target], EARLIEST))[row.target]
        stable = (await target.stable_ends([row.target]))[row.target]
        there: dict[bytes, bool] = {}
        async for record in _records(target, row.target, first, stable, committed=True):
            if living.get(record.key or b""):
                there[record.key or b""] = record.value is not None
        return [key for key, lives in living.items() if lives and not there.get(key, not row.lacking)]

    async def _appended(self, writer: KeyedWriter, row: LaneRow, part: KeyedPart, done: Ranges) -> Ranges:
        """Append the records of a part of D whose keys the target has not got since; return where they lie."""
        source, target = self._world.source.cluster, self._world.target.cluster
        first = (await source.offsets([row.source], EARLIEST))[row.source]  # retention may have deleted a part of D
        span = max(part.source_from, first), part.source_end
        diverged = [one async for one in _records(source, row.source, *span, committed=True)]
        keys, read_to, give_up_at_s = set[bytes](), row.target_next, now_s() + _PATIENCE_S
        while True:
            stable = (await target.stable_ends([row.target]))[row.target]
            async for record in _records(target, row.target, read_to, stable, committed=True, without=done):
                keys.add(record.key or b"")
            read_to = max(read_to, stable)
            wanted = [one for one in diverged if self._key(row, one) not in keys]
            if not wanted:
                return ()
            self._run.assure()
            places = await writer.append(wanted)
            ours = {one.key or b"" for one in wanted}
            between = _records(target, row.target, read_to, places[-1][1], committed=False, without=(*done, *places))
            if not [record async for record in between if (record.key or b"") in ours]:
                await self._see_tombstones(row, writer)
                self._run.assure()
                await writer.commit()
                return places
            await writer.acquire()  # what was appended is rolled back
            if now_s() >= give_up_at_s:
                why = "applications write keys on the target that only the source has records of, all the time"
                raise FailbackRefused([FailbackReason(TARGET_OPEN, str(row.target), why)])
            self._run.say(f"{row.target}: an application wrote one of the keys meanwhile; again")
            await pause(_LOOK_S)

    @staticmethod
    async def _see_tombstones(row: LaneRow, writer: KeyedWriter) -> None:
        """Refuse to commit unless the keys of N were read while the target had all of them; then it is rolled back."""
        try:
            see_tombstones([row])
        except FailbackRefused:
            await writer.acquire()
            raise

    @staticmethod
    def _key(row: LaneRow, record: Record) -> bytes:
        if record.key is None:
            why = f"the record at offset {record.offset} has no key, so it cannot be compared"
            raise FailbackRefused([FailbackReason(KEYS, str(row.source), why)])
        return record.key

    def _writer(self, cluster: Cluster, partition: TopicPartition) -> KeyedWriter:
        flow = self._world.forward if cluster is self._world.target.cluster else self._world.back
        name = f"raymirror.{flow.flow}.failback.{partition}"
        return KeyedWriter(cluster, name, partition, flow.request_timeout_s)

    def _parts(self, side: str, row: LaneRow) -> list[KeyedPart]:
        known = self._run.notes(KEYED, KeyedPart) or ()
        return [one for one in known if (one.side, one.topic, one.partition) == (side, row.topic, row.partition)]

    async def _keep(self, rows: Sequence[KeyedPart]) -> None:
        """Store the rows of one side of a partition instead of its earlier ones."""
        where = {(one.side, one.topic, one.partition) for one in rows}
        known = self._run.notes(KEYED, KeyedPart) or ()
        others = [one for one in known if (one.side, one.topic, one.partition) not in where]
        await self._run.keep(KEYED, [*others, *rows])


def see_tombstones(rows: Iterable[LaneRow]) -> None:
    """Refuse D where the target may have lost tombstones of N, since the count or before. Raises FailbackRefused."""
    now_ms = wall_ms()
    why = (
        "the target may have lost tombstones, so it is not known which keys of what only the source has it has deleted"
    )
    if lost := [row for row in rows if row.buries or row.may_lack_tombstones(now_ms)]:
        raise FailbackRefused([FailbackReason(TOMBSTONES, str(row.source), why) for row in lost])


async def first_keyless(cluster: Cluster, partition: TopicPartition, first: int, end: int) -> int | None:
    """Return the offset of the first record without a key in a range; None if all have one."""
    async for record in _records(cluster, partition, first, end, committed=True):
        if record.key is None:
            return record.offset
    return None


def _part(side: str, row: LaneRow, producer_id: int, first: int, span: tuple[int, int]) -> KeyedPart:
    return KeyedPart(
        side=side,
        topic=row.topic,
        partition=row.partition,
        producer_id=producer_id,
        first=first,
        source_from=span[0],
        source_end=span[1],
    )


def _ids(rows: Collection[KeyedPart]) -> set[int]:
    return {one.producer_id for one in rows}


async def _records(
    cluster: Cluster, partition: TopicPartition, first: int, end: int, *, committed: bool, without: Ranges = ()
) -> AsyncIterator[Record]:
    """Read records one by one, but those in some ranges."""
    if first >= end:
        return
    async for records in cluster.read_log(partition, first, end, committed=committed):
        for record in records:
            if not any(begin <= record.offset < until for begin, until in without):
                yield record
