"""Partitions of `__consumer_offsets` in memory, with real bytes, and the records that are written there."""

import struct
from collections.abc import Mapping

from crc32c import crc32c

from engine.core.mm2.commit_records import TOPIC
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.source_log import COMMIT, CONTROL, LEADER_EPOCH, TRANSACTIONAL, SourceLog

BORN_MS = 1_700_000_000_000


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def commit_key(group: str, topic: str, partition: int, version: int = 1) -> bytes:
    """Write an OffsetCommitKey."""
    return struct.pack(">h", version) + _text(group) + _text(topic) + struct.pack(">i", partition)


def commit_value(offset: int, version: int = 3, metadata: str = "") -> bytes:
    """Write an OffsetCommitValue of any version that there is (4 is flexible: compact text, tags behind)."""
    head = struct.pack(">hq", version, offset)
    if version >= 3:
        head += struct.pack(">i", -1)
    text = bytes([len(metadata.encode()) + 1]) + metadata.encode() if version == 4 else _text(metadata)
    tail = struct.pack(">q", BORN_MS) + (struct.pack(">q", BORN_MS) if version == 1 else b"")
    return head + text + tail + (b"\x00" if version == 4 else b"")


class CommitLog(SourceLog):
    """One partition of the topic."""

    def __init__(self) -> None:
        super().__init__()
        self.raw: list[tuple[int, bytes]] = []

    @property
    def last_stable(self) -> int:
        return self.end

    def put(self, records: list[tuple[bytes | None, bytes | None]], *, producer_id: int = -1, bits: int = 0) -> None:
        """Append records as one batch."""
        batch = encode_batch([Record(0, BORN_MS, key, value) for key, value in records], 0, producer_id=producer_id)
        struct.pack_into(">q", batch, 0, self.end)
        struct.pack_into(">i", batch, 12, LEADER_EPOCH)
        struct.pack_into(">h", batch, 21, bits)
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
        self.end += len(records)
        self.raw.append((self.end, bytes(batch)))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int], *, producer_id: int = -1) -> None:
        """Append commits; of a transaction where a producer is named."""
        rows = [(commit_key(group, *where), commit_value(offset)) for where, offset in offsets.items()]
        self.put(list(rows), producer_id=producer_id, bits=TRANSACTIONAL if producer_id >= 0 else 0)

    def mark(self, producer_id: int, control: int = COMMIT) -> None:
        """Append a marker."""
        marker = struct.pack(">hh", 0, control), bytes(6)
        self.put([marker], producer_id=producer_id, bits=TRANSACTIONAL | CONTROL)

    def fetch(
        self, offset: int, batches: int, *, committed: bool = True, late: bool = False
    ) -> tuple[bytes, list[tuple[int, int]]]:
        assert not committed
        assert not late
        return b"".join([batch for end, batch in self.raw if end > offset][:batches]), []


def commit_log(cluster: FakeCluster, partition: int = 0, node: int = 1) -> CommitLog:
    """Give a cluster a partition of the topic."""
    cluster.source(TOPIC, partition, node)
    log = cluster.sources[TopicPartition(TOPIC, partition)] = CommitLog()
    return log
