"""raymirror's heartbeats, checkpoints and offset syncs compared with MM2 4.3.1's bytes, readers and printers."""

import random
from typing import Any

import pytest

from engine.core.mm2.mm2_records import (
    Checkpoint,
    Heartbeat,
    OffsetSync,
    encode_checkpoint,
    encode_heartbeat,
    encode_offset_sync,
)
from engine.core.mm2.sync_store import SyncStore
from engine.core.offset_map.map_blocks import encode_tail
from engine.core.offset_map.map_runs import MapHead, MapRun
from policies.model import TopicPartition

pytestmark = pytest.mark.contract

MIRROR = "org.apache.kafka.connect.mirror"
TAIL = encode_tail(MapHead(3, 2, 130, 140, (MapRun(7, 9, 1), MapRun(100, 110, 20))))
TEXTS = ["", "g", "группа-1", "a.b_c-d", "値" * 200]
NUMBERS = [-1, 0, 5, 2**31, 2**63 - 1]


def record(java: Any, key: bytes, value: bytes) -> Any:
    """Make what a consumer would hand to a reader."""
    return java.org.apache.kafka.clients.consumer.ConsumerRecord("t", 0, 0, key, value)


def hidden(java: Any, target: Any, method: str, *values: Any) -> Any:
    """Call a method that Java keeps to its package."""
    found = next(one for one in target.getClass().getDeclaredMethods() if one.getName() == method)
    found.setAccessible(True)
    arguments = java.java.util.ArrayList()
    for value in values:
        arguments.append(value)
    return found.invoke(target, arguments.toArray())


def bytes_of(java: Any, made: Any) -> tuple[bytes, bytes]:
    return bytes(hidden(java, made, "recordKey")), bytes(hidden(java, made, "recordValue"))


@pytest.mark.parametrize("text", TEXTS)
def test_mm2_writes_the_bytes_that_we_write(java: Any, text: str) -> None:
    classes = java.org.apache.kafka.connect.mirror
    for number in NUMBERS:
        assert bytes_of(java, classes.Heartbeat(text, "B", number)) == encode_heartbeat(Heartbeat(text, "B", number))
        where = java.org.apache.kafka.common.TopicPartition(text, 3)
        theirs = bytes_of(java, classes.Checkpoint("g", where, number, 7, text))
        assert theirs == encode_checkpoint(Checkpoint("g", text, 3, number, 7, text))
        theirs = bytes_of(java, classes.OffsetSync(where, number, 8))
        assert theirs == encode_offset_sync(OffsetSync(text, 3, number, 8))


@pytest.mark.parametrize("tail", [b"", TAIL, b"\xff" * 500], ids=["MM2's bytes", "our tail", "anything"])
def test_mm2_reads_a_sync_whatever_follows_it(java: Any, tail: bytes) -> None:
    key, value = encode_offset_sync(OffsetSync("orders", 3, 119, 129, tail))
    found = java.org.apache.kafka.connect.mirror.OffsetSync.deserializeRecord(record(java, key, value))
    assert (found.topicPartition().toString(), found.upstreamOffset(), found.downstreamOffset()) == (
        "orders-3",
        119,
        129,
    )


@pytest.mark.parametrize("tail", [b"", TAIL], ids=["MM2's bytes", "our tail"])
def test_its_formatters_print_our_records(java: Any, tail: bytes) -> None:
    heartbeat = encode_heartbeat(Heartbeat("A", "B", 1234))
    checkpoint = encode_checkpoint(Checkpoint("g", "A.t", 1, 10, 8, "m"))
    sync = encode_offset_sync(OffsetSync("t", 1, 10, 8, tail))
    formatters = java.org.apache.kafka.connect.mirror.formatters
    assert printed(java, formatters.HeartbeatFormatter(), *heartbeat) == (
        "Heartbeat{sourceClusterAlias=A, targetClusterAlias=B, timestamp=1234}"
    )
    assert printed(java, formatters.CheckpointFormatter(), *checkpoint) == (
        "Checkpoint{consumerGroupId=g, topicPartition=A.t-1, upstreamOffset=10, downstreamOffset=8, metadata=m}"
    )
    assert printed(java, formatters.OffsetSyncFormatter(), *sync) == (
        "OffsetSync{topicPartition=t-1, upstreamOffset=10, downstreamOffset=8}"
    )


def printed(java: Any, formatter: Any, key: bytes, value: bytes) -> str:
    out = java.java.io.ByteArrayOutputStream()
    stream = java.java.io.PrintStream(out)
    formatter.writeTo(record(java, key, value), stream)
    stream.flush()
    return str(out.toString()).strip()


class TheirStore:
    """MM2's own store of offset syncs, without the consumer that feeds it."""

    def __init__(self, java: Any, *, must_read_to_end: bool) -> None:
        self._java = java
        self._class = java.java.lang.Class.forName(f"{MIRROR}.OffsetSyncStore")
        made = next(one for one in self._class.getDeclaredConstructors() if one.getParameterCount() == 0)
        made.setAccessible(True)
        self._store = made.newInstance(java.java.util.ArrayList().toArray())
        self._set("initializationMustReadToEnd", must_read_to_end)

    def _set(self, field: str, value: bool) -> None:
        found = self._class.getDeclaredField(field)
        found.setAccessible(True)
        found.setBoolean(self._store, value)

    def read_to_end(self) -> None:
        self._set("readToEnd", True)

    def add(self, sync: OffsetSync) -> None:
        hidden(self._java, self._store, "handleRecord", record(self._java, *encode_offset_sync(sync)))

    def translate(self, lane: TopicPartition, offset: int) -> int | None:
        found = self._store.translateDownstream("g", self._java.org.apache.kafka.common.TopicPartition(*lane), offset)
        return int(found.getAsLong()) if found.isPresent() else None


@pytest.mark.parametrize("must_read_to_end", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_our_store_of_syncs_answers_as_theirs(java: Any, seed: int, must_read_to_end: bool) -> None:
    """Random syncs of two partitions, in holes and jumps, with a source that goes back now and then."""
    chance = random.Random(seed)
    theirs, ours = TheirStore(java, must_read_to_end=must_read_to_end), SyncStore(must_read_to_end=must_read_to_end)
    at = {0: 0, 1: 1000}
    for number in range(60):
        partition = chance.randrange(2)
        at[partition] = max(0, at[partition] + chance.choice([1, 1, 7, 100, 5000, 0, -300 if number % 20 == 19 else 3]))
        tail = b"" if chance.random() < 0.5 else TAIL
        sync = OffsetSync("t", partition, at[partition], at[partition] * 2 + chance.randrange(3), tail)
        theirs.add(sync)
        ours.add(sync)
        if number == 30:
            theirs.read_to_end()
            ours.read_to_end()
    for partition, newest in at.items():
        lane = TopicPartition("t", partition)
        for asked in {0, newest, newest + 1, *(chance.randrange(newest + 2) for _ in range(25))}:
            assert ours.translate(lane, asked) == theirs.translate(lane, asked), (partition, asked)
    assert ours.translate(TopicPartition("t", 9), 5) == theirs.translate(TopicPartition("t", 9), 5)
