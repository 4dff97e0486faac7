"""Runs over a distance: the backlog, appends in flight, merged batches, and what makes a run fail."""

import argparse
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.recovery.command import far_of
from bench.recovery.far.backlog import batch_sizes, encode_batch, encode_produce
from bench.recovery.far.flight import Flight, Sample, summarise
from bench.recovery.far.judging import Judged, Merging, Proof, count_merged, numbers_at, proof_of, random_offsets
from bench.recovery.far.settings import COPIED_PER_S, FULL_S, MESSAGE_BYTES, MOST_RECORDS, Far
from bench.recovery.opening import Size
from bench.recovery.reader import Copy
from bench.recovery.records import decode_record
from bench.recovery.table import FAULTS

FAR = Far(rtt_ms=50)


# --- the backlog ------------------------------------------------------------------------------------------------------


def test_a_backlog_lasts_for_the_fault_unless_one_was_given() -> None:
    size = Size()
    for fault in FAULTS.values():
        seconds = size.before_s + fault.copies_s + size.after_s
        assert FAR.lasting(seconds).backlog == int((FULL_S + seconds) * COPIED_PER_S)
        assert fault.copies_s <= 40.0
    assert msgspec.structs.replace(FAR, backlog=77).lasting(500.0).backlog == 77


def test_faults_that_need_the_same_clusters_follow_each_other() -> None:
    kinds = [fault.stage for fault in FAULTS.values()]
    starts = [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind]
    assert len(starts) == len({msgspec.json.encode(kind) for kind in kinds})


@given(st.integers(0, 500))
def test_the_backlog_is_in_small_batches_that_are_together_all_records(records: int) -> None:
    sizes = list(batch_sizes(records))
    assert sum(sizes) == records
    assert all(1 <= size <= MOST_RECORDS for size in sizes)


@pytest.mark.parametrize("partition", range(4))
def test_a_batch_has_numbered_records_and_leaves_room_for_others_in_a_batch_of_the_copy(partition: int) -> None:
    batch = encode_batch(partition, 7, MOST_RECORDS, 1_700_000_000_000)
    read = [decode_record(record.value or b"") for record in DefaultRecordBatch(bytearray(batch))]
    assert read == [(partition, 7), (partition, 8), (partition, 9)]
    assert len(batch) * 3 / 2 < MESSAGE_BYTES


def test_a_request_has_one_batch_of_each_partition() -> None:
    request = encode_produce(5, "t", {0: b"abc", 3: b"d"})
    (size,) = struct.unpack_from(">i", request)
    assert size == len(request) - 4
    assert request.endswith(struct.pack(">iii", 2, 0, 3) + b"abc" + struct.pack(">ii", 3, 1) + b"d")


# --- appends in flight ------------------------------------------------------------------------------------------------


def behind(at: float, appends: int, widest: int = 9) -> Sample:
    return Sample(at, appends, widest, 50_000)


def test_only_instants_with_a_backlog_outside_of_the_fault_count() -> None:
    during, done = behind(10.5, 0), Sample(20.0, 1, 1, 100)
    before = [behind(float(at), 200) for at in range(5)]
    after = [behind(12.0, 130), behind(13.0, 140), behind(14.0, 150)]
    found = summarise([behind(-1.0, 3), *before, during, *after, done], since=0.0, began=10.0, ended=11.0)
    assert (found.before, found.after, found.appends, found.widest) == (200, 140, 200, 9)
    assert (found.samples, found.seconds_behind) == (8, 3.0)
    assert found.shortcoming(FAR) == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([127] * 5, [500] * 9, "127 appends in flight at the median before the fault, 128 are asked"),
        ([500] * 4, [3] * 9, "3 appends in flight at the median outside the fault, 128 are asked"),
        ([500] * 3, [], "the copy had a backlog at 3 instants only: the backlog is too small"),
        ([], [], "the copy had a backlog at 0 instants only: the backlog is too small"),
    ],
)
def test_windows_that_were_not_full_are_named(before: list[int], after: list[int], said: str) -> None:
    samples = [behind(1.0, one) for one in before] + [behind(3.0, one) for one in after]
    assert summarise(samples, since=0.0, began=2.0, ended=2.5).shortcoming(FAR) == said


def test_a_fault_that_meets_no_backlog_any_more_is_named() -> None:
    samples = [*(behind(float(at), 200) for at in range(9)), Sample(9.0, 3, 1, 100)]
    found = summarise(samples, since=0.0, began=10.0, ended=11.0)
    assert not found.hit
    assert found.shortcoming(FAR) == "the backlog was copied before the fault began: it is too small"


def test_a_wide_mirror_of_narrow_lanes_is_not_enough() -> None:
    samples = [behind(float(at), 200, widest=5) for at in range(9)]
    found = summarise(samples, since=0.0, began=5.5, ended=6.5)
    assert found.shortcoming(FAR) == "5 appends of the widest lane at the median: a broker remembers 5"


# --- merging ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=30),
    st.lists(st.integers(1, 4), min_size=1, max_size=30),
    st.integers(0, 5),
)
def test_merged_batches_are_counted(sizes: list[int], groups: list[int], spare: int) -> None:
    """The copy has groups of whole source batches; the last ones pass alone. An invisible batch changes nothing."""
    source_firsts: list[int] = []
    target_firsts: list[int] = []
    at = left = merged = 0
    wanted = iter(groups)
    for size in sizes:
        if not left:
            left = next(wanted, 1)
            target_firsts.append(at)
            merged += left > 1 and len(source_firsts) < len(sizes) - 1
        source_firsts.append(at)
        left, at = left - 1, at + size
    numbers = np.arange(at, dtype=np.int64)
    begins = np.array([*target_firsts, *[at] * spare], dtype=np.int64)
    assert count_merged(np.array(source_firsts, dtype=np.int64), begins, numbers) == merged


def test_a_copy_without_records_has_no_merged_batch() -> None:
    none = np.array([], dtype=np.int64)
    assert count_merged(none, none, none) == 0
    assert numbers_at([3], none, none).size == 0


# --- the judgement ----------------------------------------------------------------------------------------------------


def test_offsets_to_translate_are_spread_over_the_partitions_and_hold_records() -> None:
    offsets = {0: np.array([3, 5, 9]), 1: np.array([], dtype=np.int64), 2: np.array([1])}
    chosen = random_offsets(Copy(numbers=offsets, offsets=offsets), 10)
    assert len(chosen) == 10
    assert [partition for partition, _ in chosen] == [0, 2] * 5
    assert all(offset in offsets[partition] for partition, offset in chosen)
    assert random_offsets(Copy(numbers={}, offsets={}), 10) == []


PROOF = {"whole": True, "records": 100, "differences": 0, "waiting": 0, "behind": 0, "unmapped": 0, "took_s": 1.0}


@pytest.mark.parametrize(
    "wrong", [{"whole": False}, {"records": 99}, {"differences": 1}, {"waiting": 1}, {"behind": 1}]
)
def test_a_proof_must_be_of_every_record(wrong: dict[str, Any]) -> None:
    def judged(**more: Any) -> Judged:
        merging = Merging(source_batches=10, target_batches=5, merged=5)
        return Judged(proof=Proof(**(PROOF | more)), merging=merging, translated=20, exact=20, wrong=0)

    for target_lost in (False, True):
        assert judged().shortcomings(100, target_lost=target_lost) == []
        assert len(judged(**wrong).shortcomings(100, target_lost=target_lost)) == 1
    unmapped = judged(records=90, unmapped=10)
    assert unmapped.shortcomings(100, target_lost=True) == []
    assert len(unmapped.shortcomings(100, target_lost=False)) == 1


def test_an_offset_that_is_not_translated_exactly_is_counted() -> None:
    merging = Merging(source_batches=10, target_batches=10, merged=0)
    judged = Judged(proof=Proof(**PROOF), merging=merging, translated=20, exact=17, wrong=2)  # type: ignore[arg-type]
    wrong, inexact = "2 of 20 offsets are translated wrongly", "1 of 20 offsets are not translated exactly"
    assert judged.shortcomings(100, target_lost=False) == [wrong, inexact]
    assert judged.shortcomings(100, target_lost=True) == [wrong], "where the target lost records the map begins later"


def test_a_proof_is_read_from_what_verify_prints() -> None:
    lanes = [{"records": 4, "differences": 1, "unmapped": 2}] * 2
    flow = {"whole": True, "waiting": 2, "behind": 3, "took_s": 1.26, "lanes": lanes}
    assert proof_of(flow) == Proof(whole=True, records=8, differences=2, waiting=2, behind=3, unmapped=4, took_s=1.3)


# --- the options ------------------------------------------------------------------------------------------------------


def arguments(**given: Any) -> argparse.Namespace:
    usual = {"distance": None, "far": "target", "backlog": None, "appends": None, "merged": False, "quick": False}
    return argparse.Namespace(**(usual | given))


def test_without_a_distance_there_is_none_and_nothing_may_depend_on_it() -> None:
    assert far_of(arguments()) is None
    for more in ({"backlog": 5}, {"appends": 5}, {"merged": True}):
        with pytest.raises(BenchError, match="need --distance"):
            far_of(arguments(**more))
    with pytest.raises(BenchError, match="is none"):
        far_of(arguments(distance=0.0))


def test_windows_are_asked_for_where_the_target_is_far() -> None:
    def least(**more: Any) -> int:
        far = far_of(arguments(distance=50.0, **more))
        assert far is not None
        return far.least_appends

    assert least() == least(far="both") == 128
    assert least(far="source") == 0
    assert least(far="source", appends=7) == 7
    assert (
        Flight(appends=0, before=0, after=0, widest=0, widest_most=0, samples=9, seconds_behind=0).shortcoming(
            Far(rtt_ms=50, least_appends=0)
        )
        == ""
    )
