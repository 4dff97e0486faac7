"""The 61-byte header of a record batch, format v2 (Kafka's `DefaultRecordBatch`).

 0 base offset      8   outside the CRC: the broker assigns it
 8 batch length     4   bytes after this field: batch size = 12 + length
12 leader epoch     4   outside the CRC: the broker assigns it
16 magic            1   2; formats 0 and 1 have their magic at the same place
17 CRC-32C          4   over everything from 21 to the end
21 attributes       2   codec 0-2 | log append time 3 | transactional 4 | control 5 | delete horizon 6
23 last offset delta 4
27 base timestamp   8   record timestamps are deltas to it; with bit 6 it is the delete horizon (KIP-534), and the
                        deltas are to that, so clearing the bit keeps every timestamp
35 max timestamp    8   with bit 3, the timestamp of every record
43 producer id      8
51 producer epoch   2
53 base sequence    4
57 record count     4   the log cleaner lowers it, but not the last offset delta
61 records
"""

import struct

import msgspec

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12  # base offset and batch length, which the length does not count
LAYOUT = struct.Struct(">qiibIhiqqqhii")
assert LAYOUT.size == HEADER_BYTES

CODEC_MASK = 0x07
LOG_APPEND_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

MAX_SEQUENCE = 0x7FFF_FFFF
Buffer = bytearray | memoryview


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """A batch header as the source has it; timestamps in ms.

    An entry of format 0 or 1 has `magic` 0 or 1, its size, codec, log-append bit and timestamp. A compressed entry has
    only its last offset, which is then `base_offset`. Pass arguments by position: 12,000 headers per second and core.
    """

    base_offset: int
    batch_length: int
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
    def size_bytes(self) -> int:
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The id of the compression codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_BIT != 0

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first record; the newest one if the header does not have it (KIP-32, KIP-534)."""
        is_other = self.is_log_append_time or self.has_delete_horizon or self.base_timestamp < 0
        return self.max_timestamp if is_other else min(self.base_timestamp, self.max_timestamp)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 if none; wraps to 0 after 2^31 - 1 (`incrementSequence`)."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buffer: Buffer, at: int) -> BatchHeader:
    """Read the v2 header at `at`. Raises `struct.error` for fewer than 61 bytes."""
    return BatchHeader(*LAYOUT.unpack_from(buffer, at))
