"""A day of a simulated mirror: two flows, eight topics, a stall, a spike and a hole.

Given as progress samples, and as the windows of one sample each that Spark computes from them.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from engine.core.reports.latency import LatencyHistogram
from engine.core.reports.progress_sample import FORMAT_VERSION, CopierSample, LaneSample, ProgressSample

DAY_S, EVERY_S = 86_400, 30
_HOUR_S = 3600
_WAITS = "waits for a fetch from source broker 2"


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """Records a second at noon, bytes a record, partitions; records a second that a partition can copy at most."""

    flow: str
    name: str
    rate: float
    size: int
    partitions: int = 3
    most: float = 1e9


TOPICS = (
    Topic(flow="east->west", name="orders", rate=900, size=620, most=700),
    Topic(flow="east->west", name="payments", rate=340, size=880),
    Topic(flow="east->west", name="clickstream.web", rate=6200, size=240, partitions=6, most=2600),
    Topic(flow="east->west", name="clickstream.mobile", rate=3900, size=260, partitions=4, most=2600),
    Topic(flow="east->west", name="inventory.changes", rate=150, size=1400),
    Topic(flow="west->archive", name="audit", rate=80, size=2100),
    Topic(flow="west->archive", name="shipments", rate=45, size=700),
    Topic(flow="west->archive", name="returns", rate=12, size=640, partitions=1),
)


class _Lane:
    """One partition: what was produced and copied until now, and how old the oldest record that is not copied is."""

    def __init__(self, topic: Topic, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self._ends: list[int] = [0]
        self._copied = 0
        self._oldest = 0
        self._seed = 17 * len(topic.name) + 5 * partition

    def second(self, at_s: int) -> LaneSample:
        """Go on to the end of the span that ends so many seconds into the day."""
        produced = round(self._rate(at_s) * EVERY_S)
        self._ends.append(self._ends[-1] + produced)
        why = self._stands(at_s)
        on_the_way = 0 if why else min(produced, max(1, produced // (60 + self._seed % 23)))
        most = 0 if why else round(self.topic.most * EVERY_S)
        before, self._copied = self._copied, min(self._copied + most, self._ends[-1] - on_the_way)
        self._copied = max(before, self._copied)
        while self._oldest < len(self._ends) - 1 and self._ends[self._oldest + 1] <= self._copied:
            self._oldest += 1
        lag = self._ends[-1] - self._copied
        records = self._copied - before
        spans = len(self._ends) - 1 - self._oldest
        lag_ms = round(1000 * EVERY_S * max(spans - 1, 0) + 1000 * EVERY_S * min(1.0, lag / max(produced, 1)))
        return LaneSample(
            topic=self.topic.name,
            partition=self.partition,
            state="copying",
            reason=why,
            position=self._copied,
            source_end=self._ends[-1],
            lag_bytes=lag * self.topic.size,
            lag_ms=lag_ms,
            span_ms=1000 * EVERY_S,
            records=records,
            wire_bytes=records * self.topic.size,
            latency_ms=records * max(40, lag_ms),
        )

    def _rate(self, at_s: int) -> float:
        hour = at_s / _HOUR_S
        daylight = 0.35 + 0.65 * max(0.0, math.sin(math.pi * (hour - 5) / 17)) if 5 < hour < 22 else 0.35
        noise = 1 + 0.08 * math.sin(at_s / 91 + self._seed) + 0.05 * math.sin(at_s / 37 + 3 * self._seed)
        spike = 4.0 if self.topic.name == "orders" and 15.2 < hour < 15.75 else 1.0
        uneven = 1.6 if self.partition == 0 and self.topic.name.startswith("click") else 1.0
        return self.topic.rate / self.topic.partitions * daylight * noise * spike * uneven

    def _stands(self, at_s: int) -> str:
        hour = at_s / _HOUR_S
        if self.topic.name == "clickstream.web" and self.partition == 2 and 9.1 < hour < 9.5:
            return _WAITS
        return "paused" if self.topic.name == "shipments" and 20 < hour < 20.3 else ""


def a_day(start_ms: int, seconds: int = DAY_S) -> Iterator[ProgressSample]:
    """Tell the day that begins at `start_ms`: two copiers of the first flow, one of the second, each EVERY_S."""
    lanes = [_Lane(topic, partition) for topic in TOPICS for partition in range(topic.partitions)]
    for at_s in range(EVERY_S, seconds + 1, EVERY_S):
        told = [(lane.topic.flow, lane.second(at_s)) for lane in lanes]
        if 12.5 < at_s / _HOUR_S < 12.8:
            continue  # nobody wrote: the plots have a hole
        for flow, copier, odd in (
            ("east->west", "copier-1", 0),
            ("east->west", "copier-2", 1),
            ("west->archive", "copier-3", None),
        ):
            own = tuple(one for whose, one in told if whose == flow and odd in (None, one.partition % 2))
            yield ProgressSample(
                format=FORMAT_VERSION,
                flow=flow,
                copier=copier,
                at_ms=start_ms + 1000 * at_s,
                span_ms=1000 * EVERY_S,
                lanes=own,
                all=_counted(own, at_s),
            )


def _counted(lanes: tuple[LaneSample, ...], at_s: int) -> CopierSample:
    appends, copied, fetched = LatencyHistogram(), LatencyHistogram(), LatencyHistogram()
    slow = 6.0 if 15.2 < at_s / _HOUR_S < 16 else 1.0
    for number in range(40):
        appends.add(slow * (3 + 0.4 * number + (60 if number == 39 else 0)))
    for lane in lanes:
        age_ms = max(lane.lag_ms / 2, 12.0 + lane.partition)
        copied.add(age_ms + 9, lane.records)
        fetched.add(age_ms, lane.records)
    return CopierSample(
        lanes=len(lanes),
        records=sum(lane.records for lane in lanes),
        wire_bytes=sum(lane.wire_bytes for lane in lanes),
        append_ms=appends.snapshot().counts,
        copied_ms=copied.snapshot().counts,
        fetched_ms=fetched.snapshot().counts,
        append_failures=1 if 15.2 < at_s / _HOUR_S < 15.25 else 0,
    )


def windows_of(samples: Iterable[ProgressSample]) -> Iterator[dict[str, Any]]:
    """Make the windows of EVERY_S seconds that hold one sample each, as the history has them."""
    for sample in samples:
        start_ms = (sample.at_ms - 1) // (1000 * EVERY_S) * 1000 * EVERY_S
        window = {
            "flow": sample.flow,
            "copier": sample.copier,
            "window_start_ms": start_ms,
            "window_end_ms": start_ms + 1000 * EVERY_S,
            "samples": 1,
            "last_ms": sample.at_ms,
        }
        assert sample.all is not None
        yield window | _of_copier(sample.copier, sample.all)
        for lane in sample.lanes:
            yield window | _of_lane(lane)


def _of_lane(lane: LaneSample) -> dict[str, Any]:
    lag = lane.source_end - lane.position
    return {
        "topic": lane.topic,
        "partition": lane.partition,
        "copier_key": "",
        "lag_records": lag,
        "lag_bytes": lane.lag_bytes,
        "lag_ms": lane.lag_ms,
        "lag_ms_max": lane.lag_ms,
        "drain_s": 0.0 if lag == 0 else None,
        "stalled_ms": lane.span_ms if lane.reason and lag else 0,
        "stall_reason": lane.reason if lag else "",
        "records": lane.records,
        "wire_bytes": lane.wire_bytes,
        "records_per_s": lane.records / EVERY_S,
        "bytes_per_s": lane.wire_bytes / EVERY_S,
    }


def _of_copier(name: str, counted: CopierSample) -> dict[str, Any]:
    return {
        "topic": "",
        "partition": -1,
        "copier_key": name,
        "stalled_ms": 0,
        "stall_reason": "",
        "records": counted.records,
        "wire_bytes": counted.wire_bytes,
        "records_per_s": counted.records / EVERY_S,
        "bytes_per_s": counted.wire_bytes / EVERY_S,
        "append_failures": counted.append_failures,
        "dropped": counted.dropped,
        "append_ms_counts": list(counted.append_ms),
        "copied_ms_counts": list(counted.copied_ms),
        "fetched_ms_counts": list(counted.fetched_ms),
    }
