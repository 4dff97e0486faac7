"""Progress samples: span counts, bounded lanes per record, a format that the next release reads."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import NewerFormat
from engine.core.reports.latency import BOUNDS_MS, Histogram
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.core.reports.progress_sample import (
    FORMAT_VERSION,
    LANES_A_RECORD,
    ProgressSample,
    Sampler,
    decode_sample,
    encode_sample,
    lag_topic,
    progress_topic,
)
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming, IdentityNaming

FLOW = FlowName("A", "B")


def lane(partition: int = 0, *, records: int = 0, began_ms: int = 0, source_end: int = 10) -> LaneProgress:
    return LaneProgress(
        lane=TopicPartition("t", partition),
        target=TopicPartition("A.t", partition),
        state="copying",
        reason="",
        source_next=4,
        target_next=4,
        source_end=source_end,
        records=records,
        wire_bytes=10 * records,
        in_flight=0,
        queued_bytes=0,
        resumed_by="",
        reencoded=0,
        skipped=0,
        set_id="A->B/0",
        began_ms=began_ms,
        behind_since_ms=900,
        latency_ms=3 * records,
    )


def progress(at_ms: int, *lanes: LaneProgress, records: int = 0, appends: int = 0) -> FlowProgress:
    counts = (appends,) + (0,) * len(BOUNDS_MS)
    return FlowProgress(
        flow=FLOW,
        at_ms=at_ms,
        lanes=lanes,
        events=(),
        buffer_bytes=0,
        set_ids=("A->B/0",),
        records=records,
        wire_bytes=10 * records,
        append_latency=Histogram(counts, 0.0),
        append_failures=appends,
    )


def test_what_is_counted_is_counted_since_the_sample_before() -> None:
    sampler = Sampler("copier-1")
    (first,) = sampler.take(progress(1000, lane(records=7, began_ms=400), records=7, appends=2))
    (second,) = sampler.take(progress(6000, lane(records=10, began_ms=400), records=12, appends=3), dropped=5)
    assert (first.span_ms, second.span_ms) == (0, 5000)
    assert [(one.records, one.wire_bytes, one.latency_ms, one.span_ms) for one in first.lanes] == [(7, 70, 21, 600)]
    assert [(one.records, one.wire_bytes, one.latency_ms, one.span_ms) for one in second.lanes] == [(3, 30, 9, 5000)]
    assert first.all is not None
    assert second.all is not None
    assert (first.all.records, first.all.append_ms[0], first.all.append_failures) == (7, 2, 2)
    assert (second.all.records, second.all.append_ms[0], second.all.append_failures) == (5, 1, 1)
    assert (second.all.wire_bytes, second.all.lanes, second.all.dropped, second.all.copied_ms) == (50, 1, 5, ())


def test_a_lane_that_was_taken_up_again_counts_from_then_on() -> None:
    sampler = Sampler("copier-1")
    list(sampler.take(progress(1000, lane(records=7, began_ms=400))))
    (again,) = sampler.take(progress(6000, lane(records=2, began_ms=5500), lane(1, records=1, began_ms=-1)))
    assert [(one.records, one.span_ms) for one in again.lanes] == [(2, 500), (1, 5000)]


def test_a_lane_tells_its_lag_at_the_sample() -> None:
    (sample,) = Sampler("c").take(progress(1000, lane(), lane(1, source_end=-1)))
    assert [(one.position, one.source_end, one.lag_ms) for one in sample.lanes] == [(4, 10, 100), (4, -1, -1)]


def test_a_lag_that_is_unknown_is_left_out_of_the_sample_rather_than_0() -> None:
    silent = msgspec.structs.replace(lane(), source_end=4, behind_since_ms=-1, lag_bytes=0, source_end_age_ms=60_000)
    fresh = msgspec.structs.replace(silent, source_end_age_ms=500)
    for told, wanted in ((fresh, (4, 4, 0, 0)), (silent, (4, -1, -1, -1))):
        (sample,) = Sampler("c").take(progress(1000, told))
        (found,) = sample.lanes
        assert (found.position, found.source_end, found.lag_ms, found.lag_bytes) == wanted
    assert b"source_end" not in encode_sample(sample)
    assert b"lag" not in encode_sample(sample)


def test_an_end_that_is_known_is_told_also_without_a_position() -> None:
    (sample,) = Sampler("c").take(progress(1000, msgspec.structs.replace(lane(), source_next=-1, lag_bytes=7)))
    (found,) = sample.lanes
    assert (found.position, found.source_end, found.lag_ms, found.lag_bytes) == (-1, 10, -1, -1)


def test_a_snapshot_is_sampled_once() -> None:
    sampler = Sampler("copier-1")
    assert len(list(sampler.take(progress(1000)))) == 1
    assert list(sampler.take(progress(1000))) == []


@given(st.integers(min_value=0, max_value=3 * LANES_A_RECORD))
def test_every_lane_is_in_one_record_and_what_is_the_copiers_in_the_first(count: int) -> None:
    samples = list(Sampler("c").take(progress(1000, *(lane(number) for number in range(count)))))
    assert [one.partition for sample in samples for one in sample.lanes] == list(range(count))
    assert all(len(sample.lanes) <= LANES_A_RECORD for sample in samples)
    assert [sample.all is not None for sample in samples] == [True] + [False] * (len(samples) - 1)


def test_a_sample_is_read_as_it_was_written_and_so_is_the_next_releases() -> None:
    (sample,) = Sampler("c").take(progress(1000, lane(records=3), appends=1))
    assert decode_sample(encode_sample(sample)) == sample
    newer = msgspec.structs.replace(sample, format=FORMAT_VERSION + 1)
    assert decode_sample(encode_sample(newer).replace(b'"span_ms":0', b'"span_ms":0,"new":1', 1)) == newer
    with pytest.raises(NewerFormat, match="the topic"):
        decode_sample(encode_sample(msgspec.structs.replace(sample, format=FORMAT_VERSION + 2)), "the topic")


def test_a_quiet_lane_costs_few_bytes() -> None:
    quiet = ProgressSample(format=1, flow="A->B", copier="c", at_ms=1, span_ms=5000)
    assert b"lanes" not in encode_sample(quiet)


def test_no_flow_copies_its_topics() -> None:
    for naming in (DefaultNaming(), IdentityNaming("A")):
        assert naming.is_internal_topic(progress_topic("A"))
        assert naming.is_internal_topic(lag_topic("A"))
