"""Reads the quarantine topic of a flow: entries, their contents, marks, and who replays."""

from collections.abc import Sequence

from engine.core.position.target_tail import TailBatch
from engine.core.refused.entries import (
    CONTENTS,
    ENTRIES,
    MARKS,
    RefusedMark,
    RefusedName,
    RefusedState,
    fold,
    quarantine_topic,
    read_contents,
    read_entry,
    read_mark,
    read_producer,
)
from engine.flow.ports.ports import LATEST, Cluster
from engine.wire.record import Record
from policies.model import TopicPartition

Ranges = tuple[tuple[int, int], ...]
"""(first, last) target offsets, both inclusive."""


class QuarantineReader:
    """Reads the quarantine topic of flows from `source`, on their target. Raises what the Cluster port raises.

    `is_used`: the flow leaves records out, or an operator asks for them, so raymirror needs the right to see the topic.
    Else a topic that it may not see counts as none, because brokers do not say whether it exists.
    """

    def __init__(self, target: Cluster, source: str, *, is_used: bool = False) -> None:
        self._target, self._is_used = target, is_used
        self.topic = quarantine_topic(source)
        self.partitions = [TopicPartition(self.topic, number) for number in (ENTRIES, MARKS, CONTENTS)]
        self.entries, self.marks, self.held = self.partitions

    async def exists(self) -> bool:
        """Whether the topic exists, with all partitions. Raises KafkaRefusal if raymirror may not see one in use."""
        if len(await self._target.leaders(self.partitions)) == len(self.partitions):
            return True
        if self._is_used and (refusal := await self._target.hides(self.topic)) is not None:
            raise refusal
        return False

    async def states(self) -> list[RefusedState]:
        """Return the state of every record that was ever left out; none without the topic.

        Raises BadEntry, NewerFormat for entries that this version cannot read.
        """
        if not await self.exists():
            return []
        marks = await self.marked()  # before the entries: what is marked has an entry
        read = await self._target.read_records(self.topic, [ENTRIES])
        return fold([facts for key, value in read if (facts := read_entry(key, value)) is not None], marks)

    async def contents(self, state: RefusedState) -> Record | None:
        """Return the refused record itself, with its source offset; None if the topic does not hold it any more.

        A repeat may have replaced the contents that the entry names: then they are further behind.
        """
        facts = state.record
        if not facts.held:
            return None
        end = (await self._target.offsets([self.held], LATEST))[self.held]
        for until in (facts.contents_at + 1, end):
            async for records in self._target.read_log(self.held, facts.contents_at, until, committed=True):
                for one in records:
                    if (found := read_contents(one, facts)) is not None:
                        return found
        return None

    async def marked(self) -> dict[RefusedName, RefusedMark]:
        """Return the last mark of each record that has one. Raises BadEntry, NewerFormat."""
        read = await self._target.read_records(self.topic, [MARKS])
        return dict(mark for key, value in read if (mark := read_mark(key, value)) is not None)

    async def replayers(self) -> frozenset[int]:
        """Return the producer ids that replay, or have replayed, records of the topic; none without the topic."""
        if not await self.exists():
            return frozenset()
        read = await self._target.read_records(self.topic, [MARKS])
        return frozenset(one for key, _ in read if (one := read_producer(key)) is not None)


class Replayers:
    """Tells records that were replayed from those of another writer; asks again only for producers that are new.

    `is_used`: as for `QuarantineReader`.
    """

    def __init__(self, target: Cluster, source: str, *, is_used: bool = False) -> None:
        self._target = target
        self._reader = QuarantineReader(target, source, is_used=is_used)
        self._known: frozenset[int] = frozenset()
        self._strangers = {-1}
        """Producers that replay nothing: who replays was noted before the first record of it."""

    async def knows(self, batches: Sequence[TailBatch]) -> bool:
        """Whether all these batches of other producers are replays."""
        producers = {batch.producer_id for batch in batches}
        if producers & self._strangers:
            return False
        if not producers <= self._known:
            self._known = await self._reader.replayers()
            self._strangers |= producers - self._known
        return producers <= self._known

    async def others(self, target: TopicPartition, ranges: Ranges) -> Ranges:
        """Return the ranges without those in which every record was replayed."""
        left: list[tuple[int, int]] = []
        for first, last in ranges:
            batches = await self._target.read_headers(target, first, last + 1)
            within = [
                one for one in batches if not one.is_control and one.next_offset > first and one.base_offset <= last
            ]
            if not within or not await self.knows(within):
                left.append((first, last))
        return tuple(left)
