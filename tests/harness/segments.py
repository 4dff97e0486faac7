"""Batch headers straight from a broker's log files: what the log holds, whatever a client would say of it."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from deploy.local.cluster import Cluster

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12
_CONTROL, _DELETE_HORIZON = 1 << 5, 1 << 6


class Batch(NamedTuple):
    """One batch header (Kafka's DefaultRecordBatch)."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction marker."""
        return bool(self.attributes & _CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the cleaner has set when its tombstones may go (KIP-534)."""
        return bool(self.attributes & _DELETE_HORIZON)

    @property
    def has_holes(self) -> bool:
        """Whether the cleaner took records out of it, but not all."""
        return 0 < self.record_count < self.last_offset_delta + 1


def batches(cluster: Cluster, topic: str, partition: int = 0, *, broker: int = 0) -> list[Batch]:
    """Read every batch header of a partition from a broker's segment files, in offset order."""
    folder = cluster.brokers[broker].data_folder / f"{topic}-{partition}"
    while True:
        try:
            return [one for path in sorted(folder.glob("*.log")) for one in _parse(path.read_bytes())]
        except FileNotFoundError:
            continue  # the cleaner put another segment in its place: look again


def _parse(data: bytes) -> Iterator[Batch]:
    at = 0
    while at + _HEADER.size <= len(data):
        one = Batch(*_HEADER.unpack_from(data, at))
        if one.length <= 0 or at + _LENGTH_FROM + one.length > len(data):
            return  # preallocated or half written: the log ends here for now
        yield one
        at += _LENGTH_FROM + one.length
