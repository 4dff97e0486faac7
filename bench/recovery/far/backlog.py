"""Fills the source with numbered records in small batches of unequal size, before the mirror starts.

A produce request takes one batch of a partition, so each request has one batch for every partition of a broker. Many
requests are under way on a connection. aiokafka's producer, which has one batch of a partition under way, would take
minutes. Without retries and without faults no record is doubled: an error ends the fill.

    Produce v3: transactional id nullable string, acks int16, timeout int32, [topic, [partition int32, records bytes]]
             -> [topic, [partition int32, error int16, base offset int64, log append time int64]], throttle int32
(Kafka 4.x: clients/src/main/resources/common/message; the oldest version that a 4.x broker takes.)
"""

import contextlib
import random
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Self

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from bench.errors import BenchError
from bench.recovery.ends import ClusterEnds
from bench.recovery.far.settings import MOST_RECORDS
from bench.recovery.leading import led
from bench.recovery.records import encode_record
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST

_PRODUCE, _VERSION, _LEADER_ONLY = 0, 3, 1
_PLAIN, _LZ4 = 0, 3
_LZ4_EVERY = 4
"""Every fourth partition is compressed."""
_UNDER_WAY = 16
_TIMEOUT_S = 60.0
_BATCH_BYTES = 64 * 1024
_ANSWER = struct.Struct(">ihqq")
_SEED = 16
_WHOLE_S, _POLL_S = 60.0, 0.2


def batch_sizes(records: int) -> Iterator[int]:
    """Give the number of records of each batch of a partition, `records` together; the same in every run."""
    dice = random.Random(_SEED)
    while records > 0:
        size = min(dice.randint(1, MOST_RECORDS), records)
        yield size
        records -= size


def fill(cluster: EmbeddedCluster, topic: str, partitions: int, records: int) -> int:
    """Write `records` in all; return how many each partition has, from number 0 on. Raises BenchError, OSError."""
    each = records // partitions
    addresses = {broker.node_id: (HOST, broker.port) for broker in cluster.brokers}
    leaders: dict[int, list[int]] = {}
    for (_, partition), one in led(cluster, topic).items():
        leaders.setdefault(one.leader, []).append(partition)
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(_Writer(addresses[leader], topic, sorted(led_here)))
            for leader, led_here in leaders.items()
        ]
        now_ms, first = int(time.time() * 1000), 0
        for count in batch_sizes(each):
            for writer in writers:
                writer.write(first, count, now_ms, is_first=not first)
            first += count
        for writer in writers:
            writer.finish()
    _wait_visible(cluster, topic, partitions, each)
    return each


def _wait_visible(cluster: EmbeddedCluster, topic: str, partitions: int, each: int) -> None:
    """Wait until the followers have everything too, where there are followers."""
    give_up_at = time.monotonic() + _WHOLE_S
    with contextlib.closing(ClusterEnds(cluster.bootstrap_servers)) as ends:
        while (there := ends.read(topic, partitions)) != [each] * partitions:
            if time.monotonic() > give_up_at:
                raise BenchError("backlog", f"{topic} has {sum(there):,} of {each * partitions:,} records")
            time.sleep(_POLL_S)


class _Writer:
    """One connection to a broker, for the partitions that it leads."""

    def __init__(self, address: tuple[str, int], topic: str, partitions: list[int]) -> None:
        self._topic, self._partitions = topic, partitions
        self._socket = socket.create_connection(address, timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._owed: deque[int] = deque()
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def write(self, first: int, count: int, now_ms: int, *, is_first: bool) -> None:
        """Send the records of these numbers to every partition, as one batch each.

        The first ones are sent until each partition has them: a broker may not lead yet what was created just now.
        """
        batches = {at: encode_batch(at, first, count, now_ms) for at in self._partitions}
        give_up_at = time.monotonic() + _TIMEOUT_S
        while is_first and (refused := self._ask(batches)):
            if time.monotonic() > give_up_at:
                raise _refused(self._topic, refused)
            batches = {at: batches[at] for at in refused}
            time.sleep(_POLL_S)
        if not is_first:
            self._send(batches)
            if len(self._owed) >= _UNDER_WAY:
                self._take_answer()

    def _ask(self, batches: Mapping[int, bytes]) -> dict[int, int]:
        self._send(batches)
        return self._answered()

    def _send(self, batches: Mapping[int, bytes]) -> None:
        self._sent += 1
        self._socket.sendall(encode_produce(self._sent, self._topic, batches))
        self._owed.append(self._sent)

    def finish(self) -> None:
        """Wait for every answer."""
        while self._owed:
            self._take_answer()

    def _take_answer(self) -> None:
        if refused := self._answered():
            raise _refused(self._topic, refused)

    def _answered(self) -> dict[int, int]:
        """Take the next answer; return the error codes of partitions that refused their batch."""
        (size,) = struct.unpack(">i", self._answers.read(4))
        answer = self._answers.read(size)
        (correlation,) = struct.unpack_from(">i", answer)
        if correlation != self._owed.popleft():
            raise BenchError("backlog", "the broker answered another request")
        at = 4 + 4 + 2 + len(self._topic.encode()) + 4
        return {at: code for at, code, _, _ in _ANSWER.iter_unpack(answer[at : len(answer) - 4]) if code}


def _refused(topic: str, codes: Mapping[int, int]) -> BenchError:
    return BenchError("backlog", f"batches of {topic} were refused: error by partition {dict(codes)}")


def encode_batch(partition: int, first: int, count: int, now_ms: int) -> bytes:
    """Encode one batch of numbered records."""
    codec = _LZ4 if partition % _LZ4_EVERY == _LZ4_EVERY - 1 else _PLAIN
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, _BATCH_BYTES)
    for place in range(count):
        builder.append(place, now_ms, None, encode_record(partition, first + place), [])
    return bytes(builder.build())


def encode_produce(correlation: int, topic: str, batches: Mapping[int, bytes]) -> bytes:
    """Encode a request with one batch for each of some partitions, behind its length."""
    name = topic.encode()
    head = struct.pack(">hhihhhii", _PRODUCE, _VERSION, correlation, -1, -1, _LEADER_ONLY, int(_TIMEOUT_S * 1000), 1)
    parts = [head, struct.pack(">h", len(name)), name, struct.pack(">i", len(batches))]
    for partition, batch in batches.items():
        parts += [struct.pack(">ii", partition, len(batch)), batch]
    body = b"".join(parts)
    return struct.pack(">i", len(body)) + body
