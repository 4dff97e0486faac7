"""Starts aiokafka's own consumer at the commits of groups, and returns the first record of each partition.

It shares no code with the engine's reading, so it sees what an application would see. It assigns itself its partitions
and joins no group: so it moves nobody else's partitions, no rebalance delays it, and after a kill no member is left.
"""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from threading import Event
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from engine.base.clock import now_s
from engine.base.tasks import run_all
from policies.dr.drill import SeenRecord
from policies.model import TopicPartition

AT_ONCE = 8
"""Consumers that run at the same time."""
FETCH_BYTES = 64 * 1024
"""A broker sends at least one batch, however large it is."""
DIGEST_BYTES = 16
_POLL_MS = 250
_QUIET_S = 2.0
"""A partition that has answered and sent nothing for so long is at its end: longer than a few fetches."""
_LOG_APPEND_TIME = 1


class ConsumerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One consumer: its group, and the partitions that it starts to read at the group's commits."""

    group: str
    partitions: tuple[TopicPartition, ...]


class FirstRead(msgspec.Struct, frozen=True, kw_only=True):
    """What came first; `record` None: nothing. `failed`: why the consumer could not read, empty if it could."""

    record: SeenRecord | None = None
    failed: str = ""


Reads = dict[tuple[str, TopicPartition], FirstRead]
"""By group and partition."""


def read_first(plans: Sequence[ConsumerPlan], connection: Mapping[str, Any], within_s: float, stop: Event) -> Reads:
    """Run all consumers, a few at a time, in this thread, which must have no loop; each ends after `within_s` seconds.

    `connection`: keyword arguments of aiokafka's consumer. `stop` ends them early. Raises nothing that a broker causes.
    """
    return asyncio.run(_read_all(plans, connection, within_s, stop))


async def _read_all(
    plans: Sequence[ConsumerPlan], connection: Mapping[str, Any], within_s: float, stop: Event
) -> Reads:
    found: Reads = {}
    waiting = iter(plans)

    async def work() -> None:
        for plan in waiting:  # each takes the next
            if stop.is_set():
                return
            found.update(await _read_one(plan, connection, within_s, stop))

    await run_all(*(work() for _ in range(min(AT_ONCE, len(plans)))))
    return found


async def _read_one(plan: ConsumerPlan, connection: Mapping[str, Any], within_s: float, stop: Event) -> Reads:
    consumer = AIOKafkaConsumer(
        group_id=plan.group,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        max_partition_fetch_bytes=FETCH_BYTES,
        **connection,
    )
    reading = _Reading(plan, now_s() + within_s, stop)
    try:
        async with asyncio.timeout(within_s):
            await consumer.start()
            await reading.run(consumer)
    except (KafkaError, OSError, TimeoutError) as failure:
        reading.fail(f"a stock consumer could not read: {str(failure) or f'no answer within {within_s:.0f} s'}")
    finally:
        await consumer.stop()
    return reading.found


class _Reading:
    """The partitions of one consumer, until each has a first record, has failed, or is at its end."""

    def __init__(self, plan: ConsumerPlan, give_up_at_s: float, stop: Event) -> None:
        self.found: Reads = {}
        self._plan, self._give_up_at_s, self._stop = plan, give_up_at_s, stop
        self._open = {KafkaPartition(*one): one for one in plan.partitions}
        self._answered_at_s: dict[KafkaPartition, float] = {}

    async def run(self, consumer: Any) -> None:
        """Read until all partitions are done. Raises KafkaError."""
        consumer.assign(list(self._open))
        while self._open and not self._stop.is_set():
            try:
                batches = await consumer.getmany(*self._open, timeout_ms=_POLL_MS, max_records=len(self._open))
            except OffsetOutOfRangeError as failure:
                for one in self._outside(failure):
                    self._close(consumer, one, FirstRead(failed="its commit is outside of the log (OffsetOutOfRange)"))
                continue
            for one, records in batches.items():
                if records and one in self._open:
                    self._close(consumer, one, FirstRead(record=seen(records[0])))
            for one in [one for one in self._open if self._is_at_end(consumer, one)]:
                self._close(consumer, one, FirstRead())

    def fail(self, why: str) -> None:
        """Close all open partitions with a failure."""
        for one in self._open.values():
            self.found[self._plan.group, one] = FirstRead(failed=why)
        self._open.clear()

    def _outside(self, failure: OffsetOutOfRangeError) -> list[KafkaPartition]:
        """Return the partitions that an error names, all if it names none."""
        named = failure.args[0] if failure.args and isinstance(failure.args[0], dict) else {}
        return [one for one in self._open if one in named] or list(self._open)

    def _is_at_end(self, consumer: Any, one: KafkaPartition) -> bool:
        if consumer.last_stable_offset(one) is None:
            return False
        return now_s() - self._answered_at_s.setdefault(one, now_s()) >= _QUIET_S

    def _close(self, consumer: Any, one: KafkaPartition, read: FirstRead) -> None:
        self.found[self._plan.group, self._open.pop(one)] = read
        consumer.pause(one)


def seen(record: Any) -> SeenRecord:
    """Return a record of aiokafka's consumer in the form that is compared."""
    return SeenRecord(
        key=record.key,
        digest=digest_of(record.value),
        timestamp_ms=-1 if record.timestamp_type == _LOG_APPEND_TIME else record.timestamp,
        headers=tuple((name.encode(), value) for name, value in record.headers),
    )


def digest_of(value: bytes | None) -> bytes | None:
    """Return the digest of a value; None if there is no value."""
    return None if value is None else blake2b(value, digest_size=DIGEST_BYTES).digest()
