"""CPU and bytes of one fetch round with many idle partitions: `python -m bench.micro.fetch`.

A real inbox and a real source broker use a connection that answers at once, as a Kafka broker would. The bench compares
full fetches, each with an answer for every partition, with an incremental session (KIP-227). One partition has a new
batch in each answer; the others are at their end. Everything that this process does between two answers counts.
"""

import asyncio
import json
import struct
import time
from collections.abc import Sequence
from typing import cast
from uuid import UUID

from engine.base.errors import WireError
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.core.position.position import Position
from engine.core.position.position_keys import PositionKeys
from engine.core.streams.position_stream import PositionStream
from engine.flow.io.buffers import BufferPool
from engine.flow.io.inbox import Inbox, InboxLimits
from engine.flow.lane.lane_driver import LaneDriver, LaneStreams
from engine.flow.lane.lane_ownership import LaneOwnership
from engine.flow.ports.ports import FetchOptions, Leader, Room, Slice
from engine.flow.turns.fetch_turns import FetchTurns
from engine.kafka.client.connection import Connection
from engine.kafka.data.source import KafkaSourceBroker
from engine.kafka.protocol.codec import uvarint
from engine.wire.records import Record, encode_batch
from policies.model import FlowName, LaneName, TopicPartition
from tests.fakes.lane_events import NoEvents

_FLOW = FlowName("A", "B")
_TOPIC, _ID = "topic", UUID(int=7)
_RECORDS, _RECORD_BYTES = 16, 1000
_REPEATS = 5
_SESSION = 5
_ROW = struct.Struct(">ihqqq")


def _answer(session_id: int, idle: int, payload: bytes) -> tuple[bytearray, int]:
    """Write a Fetch v13 answer with one batch in partition 0 and `idle` empty partitions; find the batch."""
    body = bytearray(b"\0" + struct.pack(">ihi", 0, 0, session_id) + uvarint(2) + _ID.bytes + uvarint(idle + 2))
    body += _ROW.pack(0, 0, 0, 0, 0) + b"\0" + struct.pack(">i", -1) + uvarint(len(payload) + 1)
    at = len(body)
    body += payload + b"\0"
    for partition in range(1, idle + 1):
        body += _ROW.pack(partition, 0, 0, 0, 0) + b"\0" + struct.pack(">i", -1) + uvarint(1) + b"\0"
    return body + b"\0\0", at


class _Wire:
    """A connection that answers at once; the bytes that a kernel would copy are in place before the clock runs."""

    address = "bench"

    def __init__(self, rounds: int, partitions: int, *, lasting: bool) -> None:
        batch = encode_batch([Record(0, 1_700_000_000_000, b"key", bytes(_RECORD_BYTES))] * _RECORDS, 0)
        session_id = _SESSION if lasting else 0
        whole, change = (_answer(session_id, idle, bytes(batch)) for idle in (partitions - 1, 0))
        self.rounds, self.done = rounds, asyncio.Event()
        self.request_bytes = self.answer_bytes = self.count = 0
        self.began = 0.0
        self._first, self._later = whole, change if lasting else whole

    def supports(self, _key: int, version: int) -> bool:
        return version == 13

    async def request(
        self, _key: int, _version: int, _flexible: bool, parts: Sequence[bytes], _timeout_s: float, _room: Room
    ) -> memoryview:
        if self.count == 1:
            self.began = time.process_time()  # the first answer is full in both cases
        elif self.count > self.rounds:
            self.done.set()
            await asyncio.Event().wait()
        body, at = self._first if self.count == 0 else self._later
        if self.count:
            self.request_bytes += sum(map(len, parts))
            self.answer_bytes += len(body)
        struct.pack_into(">q", body, at, self.count * _RECORDS)
        self.count += 1
        return memoryview(body)

    async def close(self) -> None:
        return None


def _driver(partition: int) -> LaneDriver:
    name = LaneName(TopicPartition(_TOPIC, partition), TopicPartition(f"A.{_TOPIC}", partition))
    lane = Lane(_FLOW, name)
    stream = PositionStream(lane, PositionKeys(_FLOW.source).encode(name.source), lambda: 0)
    streams = LaneStreams(stream, TopicPartition("positions", 0))
    driver = LaneDriver(lane, LaneOwnership("set", 1), streams, 0, NoEvents())
    position = Position(
        source_next=0,
        target_next=0,
        sequence=0,
        producer_id=1,
        producer_epoch=0,
        runs=((0, 0),),
        assignment_epoch=1,
        deployment_id="bench",
    )
    lane.own(position, barrier_done=True)
    lane.on_position_durable(lane.plan_version)
    driver.leaders.lead_source(Leader(1, 0, str(_ID)))
    return driver


class _Side:
    """The broker as the inbox sees it, and the target: every batch is appended at once."""

    def __init__(self, wire: _Wire, drivers: list[LaneDriver], *, lasting: bool) -> None:
        self._wire, self._drivers, self._lasting = wire, drivers, lasting
        self.pool = BufferPool(64 << 20)
        self.turns = FetchTurns(self.pool, self.may_fetch, self.wake)

    async def connect(self) -> KafkaSourceBroker:
        return KafkaSourceBroker(cast("Connection", self._wire), {_TOPIC: _ID}, lasting=self._lasting)

    async def connect_beside(self) -> KafkaSourceBroker:
        return await self.connect()

    async def back_off(self, attempt: int) -> None: ...

    def wake(self) -> None: ...

    def served(self) -> list[LaneDriver]:
        return self._drivers

    def may_fetch(self, _driver: LaneDriver) -> bool:
        return True

    def may_hold(self, _driver: LaneDriver) -> bool:
        return True

    def lost(self) -> None: ...

    def silent(self) -> None: ...

    def taken(self, drivers: Sequence[LaneDriver]) -> None:
        for driver in drivers:
            lane = driver.lane
            while (piece := lane.next_append()) is not None:
                lane.on_outcome(piece, Outcome(OutcomeKind.APPENDED, lane.target_next))

    def fault(self, driver: LaneDriver, found: Slice) -> None: ...

    def corrupt(self, driver: LaneDriver, error: WireError) -> None: ...

    def idle(self, driver: LaneDriver, found: Slice) -> None: ...

    def awake(self, driver: LaneDriver) -> None: ...


async def _measure(partitions: int, rounds: int, *, lasting: bool) -> dict[str, float]:
    """Return microseconds of CPU and bytes per round."""
    wire = _Wire(rounds, partitions, lasting=lasting)
    drivers = [_driver(partition) for partition in range(partitions)]

    side = _Side(wire, drivers, lasting=lasting)
    inbox = Inbox(side, side, side.pool, FetchOptions(), InboxLimits(1 << 20))
    task = asyncio.create_task(inbox.run())
    await wire.done.wait()
    cpu_s = time.process_time() - wire.began
    task.cancel()
    await asyncio.wait([task])
    return {
        "cpu_us": cpu_s / rounds * 1e6,
        "request_bytes": wire.request_bytes / rounds,
        "answer_bytes_without_records": wire.answer_bytes / rounds - _RECORDS * _RECORD_BYTES,
    }


def main() -> None:
    """Print the best of some repeats, interleaved, and one JSON line."""
    cases = {
        (partitions, name): (rounds, lasting)
        for partitions, rounds in ((1, 5000), (1000, 200))
        for name, lasting in (("whole", False), ("session", True))
    }
    best: dict[tuple[int, str], dict[str, float]] = {}
    for _ in range(_REPEATS):
        for case, (rounds, lasting) in cases.items():
            found = asyncio.run(_measure(case[0], rounds, lasting=lasting))
            if case not in best or found["cpu_us"] < best[case]["cpu_us"]:
                best[case] = found
    rows = [
        {"partitions": partitions, "fetch": name, **{key: round(value) for key, value in found.items()}}
        for (partitions, name), found in best.items()
    ]
    for row in rows:
        print(row)
    print(json.dumps({"bench": "micro.fetch", "rounds": rows}))


if __name__ == "__main__":
    main()
