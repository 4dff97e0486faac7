"""Batches as a source broker holds them, built by aiokafka's builders and patched to what only brokers write.

The builder is aiokafka's Python one: the compiled one reads a first timestamp of -1 as "none yet".
"""

import struct
import zlib

from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

from engine.wire.batch import BatchHeader, read_header, split_batches
from engine.wire.records import Record, decode_records

TOPIC, PARTITION = "orders", 3
LOG_APPEND, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


def records(count: int = 10, *, first: int = 0, size: int = 20) -> list[Record]:
    """Records at offsets first, first + 1, ..., compressible, with headers, null and empty fields among them."""
    made = []
    for index in range(count):
        key = None if index % 5 == 4 else b"" if index % 7 == 6 else b"key-%d" % index
        value = None if index % 6 == 5 else b"value-%d-" % index + b"x" * size
        headers = ((b"trace", b"%d" % index), (b"none", None), (b"", b"")) if index % 2 else ()
        made.append(Record(first + index, 1_700_000_000_000 + 7 * index, key, value, headers))
    return made


def batch(
    content: list[Record],
    codec: int = 0,
    *,
    bits: int = 0,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
    producer: tuple[int, int, int] = (77, 5, 1000),
) -> bytearray:
    """Return `content` as one v2 batch of a source log, offset gaps as they are, leader epoch 9, `bits` set."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, *producer, 1 << 30)
    base = content[0].offset
    for record in content:
        headers = [(name.decode(), value) for name, value in record.headers]
        builder.append(record.offset - base, record.timestamp, record.key, record.value, headers)
    built = builder.build()
    struct.pack_into(">q", built, 0, base)
    struct.pack_into(">i", built, 12, 9)
    struct.pack_into(">h", built, 21, struct.unpack_from(">h", built, 21)[0] | bits)
    struct.pack_into(">q", built, 35, max(record.timestamp for record in content))
    if last_offset_delta is not None:
        struct.pack_into(">i", built, 23, last_offset_delta)
    if max_timestamp is not None:
        struct.pack_into(">q", built, 35, max_timestamp)
    return with_crc(built)


def with_crc(built: bytearray) -> bytearray:
    """Put the right CRC over whatever was patched into a v2 batch."""
    struct.pack_into(">I", built, 17, crc32c(bytes(built[21:])))
    return built


def with_area(header: bytearray, area: bytes) -> bytearray:
    """Return the batch with another record area, length and CRC right."""
    built = header[:61] + area
    struct.pack_into(">i", built, 8, len(built) - 12)
    return with_crc(built)


def control(kind: int, offset: int, producer_id: int = 77, codec: int = 0) -> bytearray:
    """Return a transaction marker: 0 abort, 1 commit."""
    marker = Record(offset, 1_700_000_000_000, struct.pack(">hh", 0, kind), bytes(6))
    return batch([marker], codec, bits=CONTROL | TRANSACTIONAL, producer=(producer_id, 5, -1))


def legacy(content: list[Record], magic: int, codec: int = 0) -> bytearray:
    """Return entries of format 0 or 1 as a broker stored them; compressed ones in one wrapper."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    first = content[0].offset
    for record in content:
        inner = record.offset - first if codec and magic == 1 else record.offset
        builder.append(inner, record.timestamp, record.key, record.value)
    built: bytearray = builder.build()
    if codec:
        struct.pack_into(">q", built, 0, content[-1].offset)
    return built


def wrapper(inner: bytes | None, magic: int, attributes: int, offset: int, timestamp: int = 0) -> bytearray:
    """Return a compressed entry of format 0 or 1 around bytes that are already compressed."""
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    body += struct.pack(">i", -1) + (struct.pack(">i", -1) if inner is None else struct.pack(">i", len(inner)) + inner)
    return bytearray(struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body)


def only(built: bytearray) -> BatchHeader:
    """Return the header of the one batch in `built`."""
    ((at, header),) = split_batches(built, 0, len(built), TOPIC, PARTITION)
    assert at == 0
    return header


def decoded(built: bytearray) -> list[Record]:
    """Return the records of one batch through our decoder."""
    return decode_records(built, 0, only(built), TOPIC, PARTITION)


def read_by_aiokafka(built: bytes | bytearray) -> list[Record]:
    """Return all records through a reader that shares no code with ours; every CRC checked."""
    found = []
    reader = MemoryRecords(bytes(built))
    while reader.has_next():
        read = reader.next_batch()
        assert read is not None
        assert read.validate_crc()
        for record in read:
            headers = tuple((name.encode(), value) for name, value in record.headers)
            found.append(Record(record.offset, record.timestamp, record.key, record.value, headers))
    return found


def contents(some: list[Record]) -> list[tuple[object, ...]]:
    """Return what must survive a copy: all but the offset."""
    return [(record.timestamp, record.key, record.value, record.headers) for record in some]


def header_of(built: bytearray) -> BatchHeader:
    """Return the v2 header without any check."""
    return read_header(built, 0)
