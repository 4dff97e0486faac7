"""Groups that move: they commit random offsets on the source a few times a second, also around the copy's end.

A process: `python -m bench.recovery.movers SPEC`. It prints `{"moving": GROUPS}` when each has committed once. A line
`end` on its standard input: every group commits once more, it prints `{"commits": ..., "failed": ..., "last": {group:
{partition: offset}}}`, all acknowledged, and exits. A commit that fails is counted and not repeated.
"""

import asyncio
import json
import random
import sys
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from bench.recovery.ends import ClusterEnds

EVERY_S = 0.3
PER_GROUP = 8
"""Partitions of one group, at most."""
_AT_END, _CLOSE = 0.15, 0.6
_CLOSE_BY = 2_000
_LAST_S = 60.0


class MoversSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Groups that commit in some of a topic's partitions on `bootstrap`; its copy is `copied` on `target`."""

    bootstrap: str
    topic: str
    target: str
    copied: str
    partitions: int
    groups: tuple[str, ...]
    seed: int = 5


def partitions_of(number: int, partitions: int) -> list[int]:
    """Return the partitions of a group: with enough groups, every partition belongs to one."""
    return sorted({(number * PER_GROUP + at) % partitions for at in range(min(PER_GROUP, partitions))})


def somewhere(end: int, copied: int, dice: random.Random) -> int:
    """Choose an offset: some at the end, many close to the copy's end (few of its offsets are markers, so that is
    nearly the same offset), the others anywhere before.
    """
    kind, copied = dice.random(), min(end, copied)
    if kind < _AT_END:
        return end
    if kind < _CLOSE:
        return max(0, copied - int(_CLOSE_BY ** dice.random()) + 1)
    return dice.randrange(copied + 1)


class Mover:
    """One group and its last commits."""

    def __init__(self, spec: MoversSpec, number: int, consumer: Any) -> None:
        self._topic, self._consumer = spec.topic, consumer
        self._dice = random.Random(spec.seed + number)
        self._partitions = partitions_of(number, spec.partitions)
        self.name = spec.groups[number]
        self.last: dict[int, int] = {}
        self.commits = self.failed = 0

    async def open(self) -> None:
        """Connect, with partitions of its own choice and nothing to read."""
        await self._consumer.start()
        mine = [TopicPartition(self._topic, partition) for partition in self._partitions]
        self._consumer.assign(mine)
        self._consumer.pause(*mine)

    async def move(self, ends: "Ends") -> bool:
        """Commit some offsets; return whether that was acknowledged."""
        wanted = {at: somewhere(ends.source[at], ends.target[at], self._dice) for at in self._partitions}
        try:
            await self._consumer.commit({TopicPartition(self._topic, at): offset for at, offset in wanted.items()})
        except KafkaError:
            self.failed += 1
            return False
        self.last = wanted
        self.commits += 1
        return True

    async def move_again_and_again(self, ends: "Ends", ending: asyncio.Event) -> None:
        """Commit until a line says `end`; then once more, until that is acknowledged."""
        while not ending.is_set():
            await self.move(ends)
            await asyncio.sleep(EVERY_S)
        async with asyncio.timeout(_LAST_S):
            while True:
                if await self.move(ends):
                    return
                await asyncio.sleep(EVERY_S)

    async def close(self) -> None:
        """Disconnect."""
        await self._consumer.stop()


class Ends:
    """The current ends of both topics; a partition without a leader keeps its last known end."""

    def __init__(self, spec: MoversSpec) -> None:
        self._sides = (ClusterEnds(spec.bootstrap), spec.topic), (ClusterEnds(spec.target), spec.copied)
        self.source, self.target = [0] * spec.partitions, [0] * spec.partitions

    async def follow(self) -> None:
        """Read the ends again and again."""
        while True:
            for (looker, topic), ends in zip(self._sides, (self.source, self.target), strict=True):
                seen = await asyncio.to_thread(looker.read, topic, len(ends))
                ends[:] = [max(now, before) for now, before in zip(seen, ends, strict=True)]
            await asyncio.sleep(EVERY_S)

    def close(self) -> None:
        """Disconnect."""
        for looker, _ in self._sides:
            looker.close()


async def main(spec: MoversSpec) -> None:
    """Move until a line says `end`."""
    movers = [
        Mover(
            spec,
            number,
            AIOKafkaConsumer(bootstrap_servers=spec.bootstrap, group_id=group, enable_auto_commit=False),
        )
        for number, group in enumerate(spec.groups)
    ]
    ends, ending = Ends(spec), asyncio.Event()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        async with asyncio.TaskGroup() as group:
            for mover in movers:
                group.create_task(mover.open())
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(ends.follow())
            listening = group.create_task(_listen(reader, ending))
            async with asyncio.TaskGroup() as moving:
                for mover in movers:
                    moving.create_task(mover.move_again_and_again(ends, ending))
                while not all(mover.commits for mover in movers):  # noqa: ASYNC110 - each has a task of its own
                    await asyncio.sleep(EVERY_S)
                print(json.dumps({"moving": len(movers)}), flush=True)
            looking.cancel()
            listening.cancel()
    finally:
        for mover in movers:
            await mover.close()
        ends.close()
    said = {"commits": sum(one.commits for one in movers), "failed": sum(one.failed for one in movers)}
    print(json.dumps({**said, "last": {one.name: one.last for one in movers}}), flush=True)


async def _listen(reader: asyncio.StreamReader, ending: asyncio.Event) -> None:
    while (await reader.readline()).strip() not in (b"end", b""):
        pass
    ending.set()


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=MoversSpec)))
