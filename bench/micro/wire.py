"""CPU cost of a raw batch in `engine/wire`, without any I/O: `python -m bench.micro.wire`.

Processes a fetched record set of 64 KiB batches: split, check CRC, aborted list, judge, restamp (a second CRC pass).
"""

import json
import os
import time

from engine.wire.aborted import AbortedTransactions
from engine.wire.batch import Verdict, check_crc, judge, read_header, restamp, split_batches
from engine.wire.records import Record, encode_batch, reencode

_BATCH_BYTES = 64 * 1024
_BATCHES = 512
_ROUNDS = 9
_LIMIT_BYTES = 1 << 20


def _record_set() -> bytearray:
    """One fetch of batches with consecutive offsets; values are incompressible, so the size is exact."""
    value = os.urandom(1000)
    count = _BATCH_BYTES // (len(value) + 12)
    made = bytearray()
    for index in range(_BATCHES):
        batch = encode_batch([Record(0, 1_700_000_000_000, b"key", value)] * count, 0)
        batch[0:8] = (index * count).to_bytes(8, "big")
        made += batch
    return made


def _pass_all(record_set: bytearray) -> int:
    """Process every batch as a lane does, and return how many passed raw."""
    passed = sequence = 0
    aborted = AbortedTransactions([])
    for at, header in split_batches(record_set, 0, len(record_set), "topic", 0):
        check_crc(record_set, at, header, "topic", 0)
        verdict, _ = judge(header, 0, _LIMIT_BYTES, aborted.is_aborted(header))
        if verdict is Verdict.PASS:
            restamp(record_set, at, header, 4711, 0, sequence)
            sequence += header.record_count
            passed += 1
    return passed


def _restore_offsets(record_set: bytearray) -> None:
    """Undo what `restamp` did to the base offsets, so that the next round walks a source log again."""
    at = offset = 0
    while at < len(record_set):
        header = read_header(record_set, at)
        record_set[at : at + 8] = offset.to_bytes(8, "big")
        at, offset = at + header.size_bytes, offset + header.record_count


def reencode_us(codec: int) -> float:
    """Return microseconds of CPU to write a batch of 700 records again without its first one; best of some rounds."""
    batch = encode_batch([Record(0, 0, b"key-%d" % index, b'{"id":%d}' % index * 8) for index in range(700)], codec)
    header = read_header(batch, 0)
    best = 1e9
    for _ in range(_ROUNDS):
        begun = time.process_time()
        reencode(batch, 0, header, "topic", 0, wanted_offset=1, max_batch_bytes=_LIMIT_BYTES)
        best = min(best, time.process_time() - begun)
    return best * 1e6


def main() -> None:
    """Print microseconds of CPU per batch, best and median of some rounds, and one JSON line."""
    record_set = _record_set()
    rounds = []
    for _ in range(_ROUNDS):
        begun = time.process_time()
        passed = _pass_all(record_set)
        rounds.append((time.process_time() - begun) / passed * 1e6)
        _restore_offsets(record_set)
    rounds.sort()
    found = {
        "batch_bytes": len(record_set) // _BATCHES,
        "pass_us": {"best": round(rounds[0], 2), "median": round(rounds[len(rounds) // 2], 2)},
        "reencode_700_records_us": {
            name: round(reencode_us(codec)) for codec, name in enumerate(("none", "gzip", "snappy", "lz4", "zstd"))
        },
    }
    print(f"pass: {found['pass_us']} us per batch of {found['batch_bytes']} bytes; reencode: {found}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
