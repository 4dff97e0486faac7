"""CPU cost of batches in pure Python and compiled, without any I/O: `python -m bench.micro.native`.

Small batches: a fetched partition of one-record batches with values of 100 bytes. `intake`: sift and queue in a lane,
one batch after the other. `survey`: the same bytes as stretches. `merge`: survey, and one target batch of at most 1 MB
after the other, stamped. Large batches: 64 KiB of lz4; sift (split, CRC, verdict), queue and stamp; survey and stamp.
"""

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.micro.wire import reencode_us
from engine.core.lane.intake import queue, sift, stamp, work_for
from engine.core.lane.lane import Lane
from engine.core.lane.pending_batch import Limits
from engine.core.lane.stretch_intake import sift_stretches
from engine.core.position.position import Position
from engine.wire import native
from engine.wire.batch import read_header, restamp
from engine.wire.merging.merge import merge
from engine.wire.merging.survey import BatchStretch, SurveyRules, survey
from engine.wire.records import Record, encode_batch
from policies.model import FlowName, LaneName, TopicPartition
from policies.rebatch import SmallBatches

_ROUNDS = 9
_FETCH_BYTES = 2 * 1024 * 1024
_MOST_BYTES = 1_048_588
_SMALL = SmallBatches(plain_bytes=16 * 1024, compressed_bytes=4 * 1024)
_RULES = SurveyRules(max_batch_bytes=_MOST_BYTES, small_plain=16 * 1024, small_compressed=4 * 1024, committed=True)
_LANE = LaneName(TopicPartition("orders", 0), TopicPartition("a.orders", 0))


class _Lease:
    """A share of a buffer that belongs to nobody."""

    def own(self, size: int, *, stuck: bool) -> "_Lease":
        return self

    def retain(self) -> "_Lease":
        return self

    def release(self) -> None:
        pass


def _small_batches(value_bytes: int, codec: int) -> bytearray:
    """Return 2 MiB of one-record batches with consecutive offsets."""
    made = bytearray()
    offset = 0
    while len(made) < _FETCH_BYTES:
        record = Record(offset, 1_700_000_000_000 + offset // 8, None, os.urandom(value_bytes))
        batch = encode_batch([record], codec, producer_id=7, producer_epoch=1, base_sequence=offset)
        batch[0:8] = offset.to_bytes(8, "big")
        made += batch
        offset += 1
    return made


def _large_batches() -> bytearray:
    """Return 2 MiB of lz4 batches of about 64 KiB, which hold records of 1 KiB that do not shrink."""
    made = bytearray()
    count = 63
    for index in range(_FETCH_BYTES // 65536):
        batch = encode_batch([Record(0, 1_700_000_000_000, b"key", os.urandom(1024)) for _ in range(count)], 3)
        batch[0:8] = (index * count).to_bytes(8, "big")
        made += batch
    return made


def _lane() -> Lane:
    lane = Lane(FlowName("a", "b"), _LANE, Limits(queue_bytes=1 << 30))
    position = Position(
        source_next=0,
        target_next=0,
        sequence=0,
        producer_id=9,
        producer_epoch=1,
        runs=(),
        assignment_epoch=1,
        deployment_id="bench",
    )
    lane.own(position, barrier_done=True)
    lane.on_position_durable(lane.plan_version)
    return lane


def _intake(view: memoryview, *, stamped: bool) -> int:
    """Sift and queue as a copier does for every batch; return the number of records."""
    lane = _lane()
    work = work_for(lane, view, 0, len(view), aborted=[], max_batch_bytes=_MOST_BYTES)
    queue(lane, work, sift(work, at_length=False), _Lease())
    if stamped:
        for piece in lane.pieces.waiting:
            stamp(piece, 9, 1)
    return lane.fetched


def _survey(view: memoryview) -> int:
    return sum(one.record_count for one in survey(view, 0, len(view), _RULES, wanted=0).stretches)


def _survey_and_stamp(view: memoryview) -> int:
    records = 0
    for one in survey(view, 0, len(view), _RULES, wanted=0).stretches:
        restamp(view, one.at, read_header(view, one.at), 9, 1, records)
        records += one.record_count
    return records


def _survey_and_merge(view: memoryview) -> int:
    """Make target batches straight from the fetched bytes, and stamp them."""
    records = 0
    work = work_for(_lane(), view, 0, len(view), aborted=[], max_batch_bytes=_MOST_BYTES)
    for one in sift_stretches(work, _SMALL):
        assert isinstance(one, BatchStretch), "all batches are regular"
        at = one.at
        while at < one.end:
            rest = view[at : one.end]
            found = merge([rest], codec=one.codec, max_batch_bytes=_MOST_BYTES)
            if found.encoded is not None:
                payload = found.encoded.payload
                restamp(payload, 0, read_header(payload, 0), 9, 1, records)
                records += found.encoded.record_count
            else:
                records += 1
            at = one.end if found.region else at + found.at
    return records


def _seconds(work: Callable[[memoryview], int], made: bytearray) -> tuple[float, int]:
    """Return the median of some rounds in seconds of CPU, and the records of one."""
    took, records = [], 0
    for _ in range(_ROUNDS):
        view = memoryview(bytearray(made))
        gc.collect()
        begun = time.process_time()
        records = work(view)
        took.append(time.process_time() - begun)
    return statistics.median(took), records


def _measured(is_native: bool) -> dict[str, Any]:
    kept = native.module
    native.module = kept if is_native else None
    try:
        found: dict[str, Any] = {}
        for name, codec in (("plain", 0), ("lz4", 3)):
            small = _small_batches(100, codec)
            rates = {}
            for step, work in (
                ("intake", lambda view: _intake(view, stamped=False)),
                ("intake_and_stamp", lambda view: _intake(view, stamped=True)),
                ("survey", _survey),
                ("survey_merge_and_stamp", _survey_and_merge),
            ):
                seconds, records = _seconds(work, small)
                rates[step] = round(records / seconds)
            found[f"small_{name}_records_per_cpu_s"] = rates
        large = _large_batches()
        found["large_lz4_cpu_s_per_gib"] = {
            step: round(_seconds(work, large)[0] * (1 << 30) / len(large), 4)
            for step, work in (
                ("sift_queue_and_stamp", lambda view: _intake(view, stamped=True)),
                ("survey", _survey),
                ("survey_and_stamp", _survey_and_stamp),
            )
        }
        found["reencode_700_records_us"] = {
            name: round(reencode_us(codec)) for codec, name in ((0, "none"), (3, "lz4"), (4, "zstd"))
        }
    finally:
        native.module = kept
    return found


def main() -> None:
    """Print both ways and one JSON line."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    found: dict[str, Any] = {"in_use": native.in_use(), "pure": _measured(False)}
    if native.module is not None:
        found["native"] = _measured(True)
    for way in ("pure", "native"):
        for name, row in found.get(way, {}).items():
            print(f"{way:7} {name:34} {row}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
