"""The batch walk of the light client; its requests are tried by every bench run, against real brokers."""

import struct

from bench.kafka_peek import walk_batches

_HEADER = struct.Struct(">qiibIhiqqqhii")
CONTROL = 0x20


def encode_batch(base: int, count: int, *, attributes: int = 0, holes: int = 0, body: bytes = b"r" * 10) -> bytes:
    last_delta = count + holes - 1
    size = _HEADER.size - 12 + len(body)
    return _HEADER.pack(base, size, 0, 2, 0, attributes, last_delta, 0, 0, -1, -1, -1, count) + body


def test_batches_are_walked_with_their_counts_and_offsets() -> None:
    data = encode_batch(5, 3) + encode_batch(8, 2, attributes=3, holes=4) + encode_batch(14, 1, attributes=CONTROL)
    assert walk_batches(memoryview(data)) == [(71, 0, 5, 7, 3), (71, 3, 8, 13, 2), (71, CONTROL, 14, 14, 1)]


def test_a_truncated_last_batch_is_left_out() -> None:
    data = encode_batch(0, 3) + encode_batch(3, 3)
    for cut in (1, 10, 60, 70):
        assert walk_batches(memoryview(data)[:-cut]) == [(71, 0, 0, 2, 3)]
