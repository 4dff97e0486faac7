"""Fills topics with many partitions, and lets many groups commit there, for the times of operations. Librdkafka."""

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bench.errors import BenchError
from bench.producing import Sent, produce_all
from bench.recovery.records import encode_record
from bench.story.scene import GROUP, TOPIC

PER_TOPIC = 500
PER_GROUP = 4
"""Partitions in which one group has commits."""
_FLUSH_S, _AGAIN_S = 600.0, 0.5
_AT_ONCE = 200

Place = tuple[str, int]


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What operations work on: `records` are on both clusters before them, `new` come while only one cluster is up."""

    partitions: int
    groups: int
    records: int
    new: int

    @property
    def topics(self) -> dict[str, int]:
        """Partitions by topic."""
        starts = range(0, self.partitions, PER_TOPIC)
        return {f"{TOPIC}-{at:03d}": min(PER_TOPIC, self.partitions - start) for at, start in enumerate(starts)}

    @property
    def places(self) -> list[Place]:
        """Every partition, in order."""
        return [(topic, at) for topic, partitions in self.topics.items() for at in range(partitions)]

    def __str__(self) -> str:
        return f"{self.partitions:,} partitions, {self.groups:,} groups, {self.records:,} records and {self.new:,} new"


def cells_of(text: str, records: int, new: int) -> list[Cell]:
    """Read `PARTITIONSxGROUPS[xRECORDSxNEW],...`. Raises BenchError."""
    found = []
    for word in text.split(","):
        numbers = word.split("x")
        if len(numbers) not in (2, 4) or not all(one.isdecimal() and int(one) for one in numbers):
            raise BenchError(
                "dr-times", f"{word!r} is no cell: give PARTITIONSxGROUPS or PARTITIONSxGROUPSxRECORDSxNEW"
            )
        partitions, groups, *more = map(int, numbers)
        found.append(
            Cell(partitions=partitions, groups=groups, records=(more or [records])[0], new=(more or [new])[-1])
        )
    return found


def write(address: str, places: Sequence[Place], records: int) -> None:
    """Write numbered records in turn to all partitions. Raises BenchError."""
    rows = (
        Sent(topic, partition, encode_record(partition, number // len(places)))
        for number in range(records)
        for topic, partition in [places[number % len(places)]]
    )
    produce_all(address, rows, {"linger.ms": 200, "enable.idempotence": True})


def commits_of(cell: Cell, seed: int = 5) -> dict[str, dict[Place, int]]:
    """Give every group some partitions, and an offset anywhere in each."""
    dice, places = random.Random(seed), cell.places
    held = {place: cell.records // len(places) + (at < cell.records % len(places)) for at, place in enumerate(places)}
    return {
        f"{GROUP}-{number:05d}": {
            place: dice.randint(0, held[place]) for place in dice.sample(places, min(PER_GROUP, len(places)))
        }
        for number in range(cell.groups)
    }


def commit(address: str, commits: Mapping[str, Mapping[Place, int]]) -> None:
    """Commit for all groups, as an administrator resets their offsets. Raises what librdkafka raises, BenchError.

    A group is asked for again as long as a new cluster has no coordinator for it.
    """
    from confluent_kafka.admin import AdminClient

    client: Any = AdminClient({"bootstrap.servers": address})
    left, give_up_at = list(commits), time.monotonic() + _FLUSH_S
    while left:
        failed: dict[str, str] = {}
        for start in range(0, len(left), _AT_ONCE):
            failed |= _refused(client, {group: commits[group] for group in left[start : start + _AT_ONCE]})
        left = list(failed)
        if left and time.monotonic() > give_up_at:
            raise BenchError("dataset", f"no commit of {left[0]}: {failed[left[0]]}")
        if left:
            time.sleep(_AGAIN_S)


def _refused(client: Any, commits: Mapping[str, Mapping[Place, int]]) -> dict[str, str]:
    """Commit for some groups; return those that failed, and why."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    asked: dict[str, Any] = {}
    for group, offsets in commits.items():
        places = [TopicPartition(topic, at, offset) for (topic, at), offset in offsets.items()]
        wanted = [ConsumerGroupTopicPartitions(group, places)]
        asked |= client.alter_consumer_group_offsets(wanted, request_timeout=_FLUSH_S)
    failed: dict[str, str] = {}
    for group, future in asked.items():
        try:
            errors = [one.error for one in future.result(_FLUSH_S).topic_partitions if one.error is not None]
        except KafkaException as error:
            errors = [error]
        if errors:
            failed[group] = str(errors[0])
    return failed
