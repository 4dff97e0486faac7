"""Reads batch headers from a broker's log files: the content of the log, independent of any client."""

import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from deploy.local.cluster import EmbeddedCluster

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12
_POLL_S = 0.01
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


def batches(cluster: EmbeddedCluster, topic: str, partition: int = 0, *, broker: int = 0) -> list[Batch]:
    """Read every batch header of a partition from a broker's segment files, in offset order."""
    folder = cluster.brokers[broker].data_folder / f"{topic}-{partition}"
    while True:
        try:
            before = _segments(folder)
            found = [one for path, _ in before for one in _parse(path.read_bytes())]
            if before == _segments(folder):
                return found
        except FileNotFoundError:
            pass
        time.sleep(_POLL_S)  # the cleaner puts another segment in their place: look again


def _segments(folder: Path) -> list[tuple[Path, int]]:
    """List a partition's segments, each with the file that it is; raises FileNotFoundError while one is replaced.

    The old ones are gone by then, and what takes their place still has another name.
    """
    if next(folder.glob("*.swap"), None) is not None:
        raise FileNotFoundError(folder)
    return [(path, path.stat().st_ino) for path in sorted(folder.glob("*.log"))]


def _parse(data: bytes) -> Iterator[Batch]:
    at = 0
    while at + _HEADER.size <= len(data):
        one = Batch(*_HEADER.unpack_from(data, at))
        if one.length <= 0 or at + _LENGTH_FROM + one.length > len(data):
            return  # preallocated or half written: the log ends here for now
        yield one
        at += _LENGTH_FROM + one.length
