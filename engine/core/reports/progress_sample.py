"""Progress samples: the measurements that a copier writes about its lanes every few seconds, for the lag history.

    {"format":1,"flow":"A->B","copier":"copier-1","at_ms":...,"span_ms":5000,"lanes":[{"topic":"orders",...},...]}

One record has many lanes, because samples of ten thousand lanes every few seconds must be cheap. Counts are for the
span since the copier's previous sample: a lost sample loses its counts, and a sample that is written twice has the same
copier and instant. Fields with their default value are left out.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec

from engine.core.formats import check_format
from engine.core.reports.latency import Histogram
from engine.core.reports.progress import FlowProgress, LaneProgress
from policies.model import TopicPartition

FORMAT_VERSION = 1
LANES_A_RECORD = 500
"""Lanes in one record: about 100 KiB before compression, well below the default of `max.message.bytes`."""


def progress_topic(source: str) -> str:
    """Return the name of the topic with the progress samples of flows from a source; it is on their target."""
    return f"raymirror-progress.{source}.internal"


def lag_topic(source: str) -> str:
    """Return the name of the compacted topic with the newest window of every lane; it is on the flow's target."""
    return f"raymirror-lag.{source}.internal"


class LaneSample(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One lane at the sample's instant. Offsets are next offsets, times are Unix ms; -1: not known.

    `records`, `wire_bytes` and `latency_ms` (summed over the records: timestamp to acknowledgement) are for the last
    `span_ms`, which is shorter than the sample's span for a lane that the copier got within it.
    """

    topic: str
    partition: int
    state: str
    reason: str = ""
    set_id: str = ""
    position: int = -1
    source_end: int = -1
    lag_bytes: int = -1
    lag_ms: int = -1
    newest_ms: int = -1
    span_ms: int = 0
    records: int = 0
    wire_bytes: int = 0
    latency_ms: int = 0


class CopierSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counts per copier, in the first record of a sample; by bucket of BOUNDS_MS, for the span.

    `append_ms`: per produce request; `copied_ms`: per record, timestamp to acknowledgement; `fetched_ms`: per record,
    timestamp to arrival. `dropped`: lane samples that were never written since the copier started.
    """

    lanes: int
    records: int = 0
    wire_bytes: int = 0
    append_ms: tuple[int, ...] = ()
    copied_ms: tuple[int, ...] = ()
    fetched_ms: tuple[int, ...] = ()
    append_failures: int = 0
    dropped: int = 0
    waits_for: str = ""


class ProgressSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record: some lanes of one copier at one instant of Unix time."""

    format: int
    flow: str
    copier: str
    at_ms: int
    span_ms: int
    lanes: tuple[LaneSample, ...] = ()
    all: CopierSample | None = None


class _Counted(msgspec.Struct, frozen=True, gc=False):
    """The counters of a lane at the previous sample."""

    began_ms: int
    records: int
    wire_bytes: int
    latency_ms: int


_NOTHING = Histogram()


class Sampler:
    """Makes samples from a copier's snapshots; it stores the counters of the last sample."""

    def __init__(self, copier: str) -> None:
        self._copier = copier
        self._before: FlowProgress | None = None
        self._counted: dict[TopicPartition, _Counted] = {}

    def take(self, progress: FlowProgress, dropped: int = 0) -> Iterator[ProgressSample]:
        """Yield the records of a sample, a bounded number of lanes each; take all of them before the next sample.

        Yields nothing for a snapshot that was sampled before.
        """
        before = self._before
        if before is not None and progress.at_ms <= before.at_ms:
            return
        self._before = progress
        span_ms = 0 if before is None else progress.at_ms - before.at_ms
        summary: CopierSample | None = self._all(progress, before, dropped)
        counted, self._counted = self._counted, {}
        lanes = iter(progress.lanes)
        while True:
            some = tuple(self._lane(lane, progress.at_ms, span_ms, counted) for lane in islice(lanes, LANES_A_RECORD))
            if not some and summary is None:
                return
            yield ProgressSample(
                format=FORMAT_VERSION,
                flow=str(progress.flow),
                copier=self._copier,
                at_ms=progress.at_ms,
                span_ms=span_ms,
                lanes=some,
                all=summary,
            )
            summary = None

    def _all(self, now: FlowProgress, before: FlowProgress | None, dropped: int) -> CopierSample:
        def since(counts: Histogram, earlier: Histogram) -> tuple[int, ...]:
            news = counts.minus(earlier)
            return news.counts if any(news.counts) else ()

        return CopierSample(
            lanes=len(now.lanes),
            records=now.records - (before.records if before else 0),
            wire_bytes=now.wire_bytes - (before.wire_bytes if before else 0),
            append_ms=since(now.append_latency, before.append_latency if before else _NOTHING),
            copied_ms=since(now.replication_latency, before.replication_latency if before else _NOTHING),
            fetched_ms=since(now.record_age, before.record_age if before else _NOTHING),
            append_failures=now.append_failures - (before.append_failures if before else 0),
            dropped=dropped,
            waits_for=now.waits_for,
        )

    def _lane(
        self, lane: LaneProgress, at_ms: int, span_ms: int, counted: dict[TopicPartition, _Counted]
    ) -> LaneSample:
        then = counted.get(lane.lane)
        same = then is not None and then.began_ms == lane.began_ms
        since = then if then is not None and same else _Counted(lane.began_ms, 0, 0, 0)
        self._counted[lane.lane] = _Counted(lane.began_ms, lane.records, lane.wire_bytes, lane.latency_ms)
        return LaneSample(
            topic=lane.lane.topic,
            partition=lane.lane.partition,
            state=lane.state,
            reason=lane.reason,
            set_id=lane.set_id,
            position=lane.source_next,
            source_end=lane.source_end if lane.end_known else -1,
            lag_bytes=lane.lag_bytes if lane.lag_known else -1,
            lag_ms=lane.lag_ms(at_ms),
            newest_ms=lane.newest_ms,
            span_ms=span_ms if same else max(0, at_ms - lane.began_ms) if lane.began_ms >= 0 else span_ms,
            records=lane.records - since.records,
            wire_bytes=lane.wire_bytes - since.wire_bytes,
            latency_ms=lane.latency_ms - since.latency_ms,
        )


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(ProgressSample)


def encode_sample(sample: ProgressSample) -> bytes:
    """Encode one record's value."""
    return _ENCODER.encode(sample)


def decode_sample(value: bytes, where: str = "") -> ProgressSample:
    """Decode one record's value. Raises NewerFormat, msgspec.DecodeError."""
    sample = _DECODER.decode(value)
    check_format(sample.format, FORMAT_VERSION, where)
    return sample
