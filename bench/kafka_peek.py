"""A blocking client of two requests, light enough to poll a broker fifty times a second during a measurement.

It shares no code with raymirror or aiokafka. One connection, plaintext, to the one broker of an embedded cluster.

    ListOffsets v1: replica int32, [topic string, [partition int32, timestamp int64]]
                 -> [topic string, [partition int32, error int16, timestamp int64, offset int64]]
    Fetch v4:       replica int32, wait int32, min int32, max int32, isolation int8,
                    [topic string, [partition int32, offset int64, max int32]]
                 -> throttle int32, [topic, [partition int32, error int16, high watermark int64, last stable int64,
                    [aborted: producer int64, first int64], records: length int32, bytes]]
(Kafka 4.x: clients/src/main/resources/common/message; both are the oldest versions a 4.x broker takes.)
"""

import socket
import struct
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

_FETCH, _LIST_OFFSETS = 1, 2
_LATEST = -1
_FETCH_BYTES = 8 * 1024 * 1024
_CONTROL_BIT, _CODEC_MASK = 0x20, 0x07
_NOT_THERE_YET = frozenset({3, 5, 6})
"""Unknown topic or partition, leader not available, not leader: errors while a topic is being created."""
_TIMEOUT_S = 30
_BATCH_PREFIX_BYTES = 12
"""Base offset and length, which the length field does not count."""
_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, crc, attributes, last offset delta, two times, producer id, epoch, first
sequence, record count: the 61 bytes before the records of a v2 batch (KIP-98)."""


class PeekError(Exception):
    """The broker answered with an error code, or with something that is not an answer."""

    def __init__(self, what: str, topic: str, partition: int, code: int) -> None:
        super().__init__(what, topic, partition, code)
        self.what, self.topic, self.partition, self.code = what, topic, partition, code

    def __str__(self) -> str:
        return f"{self.what} of {self.topic}-{self.partition}: the broker answered error {self.code}"


class LogCount(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a partition's log, without control batches."""

    records: int
    batches: int
    wire_bytes: int
    codecs: frozenset[int]


class Batch(NamedTuple):
    """The header of one batch that is not a control batch."""

    first_offset: int
    records: int
    wire_bytes: int
    codec: int


class KafkaPeek:
    """One connection to `host:port`; a context manager. Raises OSError if the broker is unreachable, PeekError."""

    def __init__(self, address: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """High watermark of each partition, by number; 0 for a partition that does not exist yet."""
        body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">i", partitions)
        body += b"".join(struct.pack(">iq", number, _LATEST) for number in range(partitions))
        answer = self._ask(_LIST_OFFSETS, 1, body)
        at = 4 + 2 + len(topic.encode()) + 4
        ends = [0] * partitions
        for number, code, _, offset in struct.iter_unpack(">ihqq", answer[at:]):
            if code and code not in _NOT_THERE_YET:
                raise PeekError("end offset", topic, number, code)
            ends[number] = max(offset, 0)
        return ends

    def count(self, topic: str, partition: int) -> LogCount:
        """Read the whole partition and count its records by batch header."""
        records = batches = wire_bytes = 0
        codecs: set[int] = set()
        for batch in self.batches(topic, partition):
            records, batches, wire_bytes = records + batch.records, batches + 1, wire_bytes + batch.wire_bytes
            codecs.add(batch.codec)
        return LogCount(records=records, batches=batches, wire_bytes=wire_bytes, codecs=frozenset(codecs))

    def batches(self, topic: str, partition: int) -> Iterator[Batch]:
        """Read the headers of a whole partition, in order."""
        end = self.end_offsets(topic, partition + 1)[partition]
        at = 0
        while at < end:
            data = self._fetch(topic, partition, at)
            before = at
            for size, attributes, first_offset, last_offset, count in walk_batches(data):
                at = last_offset + 1
                if not attributes & _CONTROL_BIT:
                    yield Batch(first_offset, count, size, attributes & _CODEC_MASK)
            if at == before:
                raise PeekError(f"offset {at}: no whole batch in {len(data)} bytes", topic, partition, 0)

    def _fetch(self, topic: str, partition: int, offset: int) -> memoryview:
        body = struct.pack(">iiiibi", -1, 500, 1, _FETCH_BYTES, 0, 1) + _string(topic)
        answer = self._ask(_FETCH, 4, body + struct.pack(">iiqi", 1, partition, offset, _FETCH_BYTES))
        at = 4 + 4 + 2 + len(topic.encode()) + 4
        _, code, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
        if code:
            raise PeekError("fetch", topic, partition, code)
        at += 26 + 16 * max(aborted, 0)
        (size,) = struct.unpack_from(">i", answer, at)
        return memoryview(answer)[at + 4 : at + 4 + size]

    def _ask(self, api: int, version: int, body: bytes) -> bytearray:
        self._correlation += 1
        frame = struct.pack(">hhi", api, version, self._correlation) + _string("bench-peek") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        (correlation,) = struct.unpack_from(">i", answer)
        if correlation != self._correlation:
            raise PeekError("an answer to another request", "", -1, correlation)
        return answer[4:]

    def _receive(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self._socket.recv_into(view)
            if not got:
                raise ConnectionError("the broker closed the connection")
            view = view[got:]
        return data


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def walk_batches(data: memoryview) -> list[tuple[int, int, int, int, int]]:
    """Give (size, attributes, first and last offset, record count) of each whole batch; not of a truncated one."""
    found = []
    at = 0
    while len(data) - at >= _BATCH_HEADER.size:
        header = _BATCH_HEADER.unpack_from(data, at)
        base, size, attributes, last_delta, count = (header[i] for i in (0, 1, 5, 6, 12))
        size += _BATCH_PREFIX_BYTES
        if len(data) - at < size:
            break
        found.append((size, attributes, base, base + last_delta, count))
        at += size
    return found
