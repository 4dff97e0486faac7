"""Reads a cluster's `__consumer_offsets` from its end on: which groups have just committed which offsets.

    leaders -> one long poll per broker -> commits of wanted groups and topics -> `take`
                                             of an open transaction: held until its marker

The commits are hints: the group sync asks the coordinators for the committed offsets, so a needless hint costs one
request and no more. If hints may be missing (the first read, a deleted offset, too many hints), `take` says `missed`,
and the group sync reads all groups. Without the right to read the topic there are no hints; `why_not` says so.

An unreachable broker is left out and retried: it coordinates just the groups whose commits it leads, so no hints of
other groups are missing.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from engine.base.clock import backoff_s, now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, MirrorError, WireError
from engine.base.tasks import run_all
from engine.core.mm2.commit_records import TOPIC, decode_commit
from engine.flow.ports.ports import LATEST, Cluster, FetchOptions, Leader, PartitionFetch, Slice
from engine.wire.batch import check_crc, control_type, split_batches
from engine.wire.header import BatchHeader
from engine.wire.records import decode_records
from policies.groups import GroupSelection
from policies.model import TopicPartition
from policies.selection import TopicSelection

_PARTITION_BYTES = 128 * 1024
_TERMS = FetchOptions(max_wait_s=5.0, min_bytes=1, max_bytes=1024 * 1024, read_committed=False)
"""Not read_committed: one transaction left open would hold back the groups of its whole partition."""
_FIRST_TERMS = msgspec.structs.replace(_TERMS, max_wait_s=0.0, min_bytes=0)
"""The first answer shows whether raymirror may read the topic; nothing counts as read before it."""
_GATHER_S = 0.1
"""Pause between two fetches, so that many commits come in one answer."""
_FIRST_COUNT = 64
_MOST = 200_000
"""The most partitions of groups kept until `take`, in and outside of transactions: some tens of MiB."""
_REFUSED_S, _MOST_S = 60.0, 30.0
_NOT_THERE_S = 5.0
"""Pause between two checks whether the topic exists: it is created with the first group, which waits for the sync."""
_COMMITTED = 1

Seen = dict[str, dict[TopicPartition, int]]
"""By group and source partition, the last committed offset (NO_OFFSET if it is not known)."""


class _NotThere(ConnectionLost):
    """The topic does not exist."""


class Hints(NamedTuple):
    """Commits since the last `take`. `missed`: there may be more. `since_ms`: the time of the oldest, Unix ms."""

    seen: Seen
    missed: bool
    since_ms: int


class CommitReader:
    """The reader of one cluster; it collects what `groups` commit in `topics`."""

    def __init__(self, cluster: Cluster, groups: GroupSelection, topics: TopicSelection) -> None:
        self._cluster = cluster
        self._wanted_groups, self._wanted_topics = groups, topics
        self._groups: dict[bytes, str | None] = {}
        self._topics: dict[bytes, str | None] = {}
        self._lanes: dict[tuple[str, int], TopicPartition] = {}
        self._next: dict[TopicPartition, int] = {}
        self._open: dict[tuple[TopicPartition, int], Seen] = {}
        self._seen: Seen = {}
        self._kept = 0
        self._missed = True
        self._since_ms = -1
        self._news = asyncio.Event()
        self.commits = 0
        """The number of commits read of wanted groups and topics."""
        self.why_not = f"the reader of topic {TOPIC} has not started to read yet"
        """Why commits are not read at the moment; empty while they are read."""
        self.not_there = False
        """Whether the reason is that the topic does not exist: a cluster that never had a group has none."""

    # --- for the group sync ----------------------------------------------------------------------------------

    def take(self) -> Hints:
        """Return the hints since the last call."""
        hints = Hints(self._seen, self._missed, self._since_ms)
        self._seen, self._missed, self._since_ms = {}, False, -1
        self._kept = sum(len(rows) for held in self._open.values() for rows in held.values())
        self._news.clear()
        return hints

    async def wait(self, most_s: float) -> None:
        """Return when there is something to take, or after `most_s` seconds."""
        try:
            async with asyncio.timeout(most_s):
                await self._news.wait()
        except TimeoutError:
            return

    # --- reading -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read until cancelled; a failure is noted in `why_not`, and reading is retried."""
        attempt = 0
        while True:
            began_s = now_s()
            try:
                await self._follow()
            except KafkaRefusal as refusal:
                self.why_not = str(refusal)
                await pause(_REFUSED_S)
                continue
            except (MirrorError, OSError, TimeoutError) as trouble:
                self.why_not, self.not_there = str(trouble), isinstance(trouble, _NotThere)
            if self.not_there:
                await pause(_NOT_THERE_S)
                continue
            attempt = attempt + 1 if now_s() - began_s < _MOST_S else 0
            await pause(backoff_s(attempt, most_s=_MOST_S))

    async def _follow(self) -> None:
        """Read all partitions until something fails. Raises ConnectionLost, KafkaRefusal."""
        leaders = await self._leaders()
        by_node: dict[int, dict[TopicPartition, Leader]] = {}
        for partition, leader in leaders.items():
            by_node.setdefault(leader.node, {})[partition] = leader
        heard = _Heard(by_node)

        async def keep_reading(node: int, led: Mapping[TopicPartition, Leader]) -> None:
            attempt = 0
            while True:
                try:
                    await self._read(node, led, heard)
                except BrokerUnreachable as away:
                    heard.away[node] = str(away)
                    self.why_not = heard.why_not
                attempt += 1
                await pause(backoff_s(attempt, most_s=_MOST_S))
                if await self._leaders() != leaders:
                    raise ConnectionLost(f"{min(led)}: the leaders of {TOPIC} have changed")

        await run_all(*(keep_reading(node, led) for node, led in by_node.items()))

    async def _leaders(self) -> dict[TopicPartition, Leader]:
        """Look up every partition of the topic. Raises KafkaRefusal, and ConnectionLost if the topic does not exist."""
        count = _FIRST_COUNT
        while True:
            found = await self._cluster.leaders([TopicPartition(TOPIC, number) for number in range(count)])
            if len(found) < count:
                break
            count *= 2
        if not found:
            raise await self._cluster.hides(TOPIC) or _NotThere(f"topic {TOPIC} does not exist")
        self.not_there = False
        return found

    async def _read(self, node: int, led: Mapping[TopicPartition, Leader], heard: "_Heard") -> None:
        """Read what one broker leads. Raises BrokerUnreachable for this broker, and errors that end all reading."""
        if node < 0:
            raise BrokerUnreachable(str(min(led)), "the partition has no leader")
        fresh = [one for one in led if one not in self._next]
        if fresh:
            self._next |= await self._cluster.offsets(fresh, LATEST)
            self._miss()
        broker = await self._cluster.source_broker(node)
        room, options = _Reused(), _FIRST_TERMS
        try:
            while True:
                wanted = [
                    PartitionFetch(one, self._next[one], leader.epoch, -1, _PARTITION_BYTES)
                    for one, leader in led.items()
                ]
                answer = await broker.fetch(wanted, options, room)
                for found in answer.slices:
                    self._take_in(answer.buffer, found)
                if options is _FIRST_TERMS and answer.slices:  # no slices: a quota is used up, so nothing is known yet
                    options = _TERMS
                    heard.answered(node)
                    self.why_not = heard.why_not
                await pause(max(_GATHER_S, answer.throttle_s))
        finally:
            await broker.close()

    def _take_in(self, buffer: memoryview, found: Slice) -> None:
        where, fault = found.partition, found.fault
        if fault is not None:
            if fault.out_of_range:
                del self._next[where]  # compacted, or truncated below this offset: start at the end again
            if fault.retry or fault.out_of_range:
                raise ConnectionLost(f"{where}: {fault.name}")
            raise KafkaRefusal(f"reading {where}", fault.code, fault.name, fault.right)
        try:
            for at, header in split_batches(buffer, found.start, found.end, *where):
                if header.next_offset > self._next[where]:
                    check_crc(buffer, at, header, *where)
                    self._batch(buffer, at, header, where)
                    self._next[where] = header.next_offset
        except WireError as error:
            del self._next[where]
            raise ConnectionLost(str(error)) from None

    # --- what is read --------------------------------------------------------------------------------------------

    def _batch(self, buffer: memoryview, at: int, header: BatchHeader, where: TopicPartition) -> None:
        if header.is_control:
            held = self._open.pop((where, header.producer_id), None)
            if control_type(buffer, at, header, *where) == _COMMITTED:
                if held is None:
                    self._miss()  # the transaction began before this reader
                else:
                    self._hand_out(held, header.max_timestamp)
            return
        seen: Seen = {}
        for record in decode_records(buffer, at, header, *where):
            commit = decode_commit(record.key, record.value) if record.offset >= self._next[where] else None
            if commit is None:
                continue
            group, topic = self._group(commit.group), self._topic(commit.topic)
            if group is not None and topic is not None:
                lane = self._lanes.get((topic, commit.partition))
                if lane is None:
                    lane = self._lanes[topic, commit.partition] = TopicPartition(topic, commit.partition)
                seen.setdefault(group, {})[lane] = commit.offset
        if header.is_transactional:
            _merge(self._open.setdefault((where, header.producer_id), {}), seen)
            self._keep(seen)
        elif seen:
            self._hand_out(seen, header.max_timestamp)

    def _hand_out(self, seen: Seen, at_ms: int) -> None:
        self.commits += sum(map(len, seen.values()))
        _merge(self._seen, seen)
        self._keep(seen)
        if self._since_ms < 0:
            self._since_ms = at_ms
        self._news.set()

    def _keep(self, seen: Seen) -> None:
        self._kept += sum(map(len, seen.values()))
        if self._kept > _MOST:
            self._seen, self._open, self._kept = {}, {}, 0
            self._miss()

    def _miss(self) -> None:
        self._missed = True
        self._news.set()

    def _group(self, name: bytes) -> str | None:
        """Return a group's name if the group is wanted, else None."""
        return _chosen(self._groups, name, self._wanted_groups)

    def _topic(self, name: bytes) -> str | None:
        return _chosen(self._topics, name, self._wanted_topics)


class _Heard:
    """Which leaders have answered. Commits count as read once each has answered or is unreachable, and one has."""

    def __init__(self, nodes: Collection[int]) -> None:
        self._nodes = nodes
        self._heard: set[int] = set()
        self.away: dict[int, str] = {}
        """Unreachable brokers, and why."""

    def answered(self, node: int) -> None:
        """Note the first answer of a broker, or the first answer after it was unreachable."""
        self._heard.add(node)
        self.away.pop(node, None)

    @property
    def why_not(self) -> str:
        """Why commits are not read; empty if they are read."""
        for node in self._nodes:
            if node not in self._heard and node not in self.away:
                return f"broker {node} has not answered yet"
        return "" if self._heard - self.away.keys() else "; ".join(self.away.values())


class _Reused:
    """A buffer for one answer after the other: an answer is read before the next request is sent."""

    def __init__(self) -> None:
        self._memory = bytearray()

    def room(self, size: int) -> memoryview:
        """Return memory of that size, the same as before if it is large enough."""
        if len(self._memory) < size:
            self._memory = bytearray(size)
        return memoryview(self._memory)[:size]


def _chosen(known: dict[bytes, str | None], name: bytes, wanted: GroupSelection | TopicSelection) -> str | None:
    if name not in known:
        if len(known) >= _MOST:
            known.clear()
        text = name.decode(errors="replace")
        known[name] = text if wanted.wants(text) else None
    return known[name]


def _merge(into: Seen, seen: Seen) -> None:
    for group, rows in seen.items():
        into.setdefault(group, {}).update(rows)
