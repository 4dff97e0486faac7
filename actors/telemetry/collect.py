"""Turns the mirror's status into series of this moment; a copier, partition or flow that has ended has no series."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from actors.model.states import Desired
from actors.model.status import MirrorStatus
from actors.observability.lagging import flow_of
from actors.telemetry import families as f
from actors.telemetry.drill_series import drill_series
from actors.telemetry.families import Family
from actors.telemetry.group_series import group_series
from engine.core.reports.latency import Histogram
from engine.core.reports.progress import LaneProgress

Labels = tuple[str, ...]
"""Values of a family's labels, in order; the last ones may be left out."""
Series = dict[Labels, float | Histogram]
Collected = dict[Family, Series]
Row = tuple[int, int, int]
"""Records, wire bytes, latency in ms."""


class Detail(msgspec.Struct, frozen=True):
    """Detail of the lanes' series: the first `depth` labels of (flow, topic, partition), and how many were left out."""

    depth: int
    left_out: int = 0


def detail_of(status: MirrorStatus, *, per_partition: bool, most_series: int) -> Detail:
    """Choose the finest detail that is configured and within the limit; series by flow have no limit."""
    counts = {3: len(status.lanes), 2: len({(flow_of(lane), lane.lane.topic) for lane in status.lanes})}
    wanted = 3 if per_partition else 2
    for depth in range(wanted, 1, -1):
        if counts[depth] <= most_series:
            return Detail(depth, counts[wanted] - counts[depth])
    return Detail(1, counts[wanted] - len(status.flows))


class PartitionCounters:
    """Counters of single partitions: 0 at the first scrape, and they continue when a partition changes its copier.

    They miss what was copied between the last scrape and a copier's sudden end; the counters by topic have it.
    """

    def __init__(self) -> None:
        self._known: dict[Labels, tuple[int, Row, Row]] = {}
        self._begun = False

    def sums(self, lanes: Sequence[LaneProgress]) -> dict[Labels, Row]:
        """Return the sums of every partition; forget partitions that are no longer among the lanes."""
        self._known = {key: self._next(key, lane) for lane in lanes for key in (_key(lane, 3),)}
        self._begun = True
        return {key: _plus(base, now) for key, (_, now, base) in self._known.items()}

    def _next(self, key: Labels, lane: LaneProgress) -> tuple[int, Row, Row]:
        """Return when the present copier took the partition (Unix ms), its counts, and those of earlier copiers."""
        now = lane.records, lane.wire_bytes, lane.latency_ms
        known = self._known.get(key)
        if known is None:
            return lane.began_ms, now, (0, 0, 0) if self._begun else (-now[0], -now[1], -now[2])
        began_ms, last, base = known
        return lane.began_ms, now, base if lane.began_ms == began_ms else _plus(base, last)


def _plus(one: Row, other: Row) -> Row:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def collect(
    status: MirrorStatus,
    detail: Detail,
    partitions: PartitionCounters,
    events: Mapping[tuple[str, str], int],
    export_failures: int,
) -> Collected:
    """Return every series of one moment; `events` counts by flow and severity."""
    series: Collected = {family: {} for family in f.FAMILIES}
    _lags(series, status, detail)
    _counters(series, status, detail, partitions)
    _flows(series, status)
    _proofs(series, status, detail)
    _copiers(series, status)
    for family, labels, value in (*group_series(status), *drill_series(status)):
        series[family][labels] = value
    for key, count in events.items():
        series[f.EVENTS][key] = count
    series[f.INFO][(status.namespace.removeprefix("raymirror-"), status.version)] = 1
    series[f.UP_SECONDS][()] = status.up_s
    series[f.EXPORT_FAILURES][()] = export_failures
    for family in f.LANE_FAMILIES:
        series[f.LEFT_OUT_SERIES][(family.name,)] = detail.left_out
    return series


def _key(lane: LaneProgress, depth: int) -> Labels:
    return (flow_of(lane), lane.lane.topic, str(lane.lane.partition))[:depth]


def _lags(series: Collected, status: MirrorStatus, detail: Detail) -> None:
    """Sum up lags; a topic without a known partition has no series, rather than a lag of 0.

    Any other topic has the sum of its known partitions: an unknown partition hides no other that is behind.
    """
    records: dict[Labels, float] = defaultdict(int)
    sizes: dict[Labels, float] = defaultdict(int)
    seconds: dict[Labels, float] = defaultdict(float)
    heard_s: dict[Labels, float] = defaultdict(float)
    age_s: dict[Labels, float] = defaultdict(float)
    for lane in status.lanes:
        if not lane.lag_heard:
            continue
        key = _key(lane, detail.depth)
        heard_s[key] = max(heard_s[key], lane.heard_lag_ms(status.at_ms) / 1000)
        age_s[key] = max(age_s[key], lane.source_end_age_ms / 1000)
        if not lane.lag_known:
            continue
        records[key] += lane.lag_records
        if lane.lag_bytes >= 0:
            sizes[key] += lane.lag_bytes
        seconds[key] = max(seconds[key], lane.lag_ms(status.at_ms) / 1000)
    series[f.LAG_RECORDS].update(records)
    series[f.LAG_BYTES].update(sizes)
    series[f.LAG_SECONDS].update(seconds)
    series[f.LAG_LAST_KNOWN].update(heard_s)
    series[f.LAG_LAST_KNOWN_AGE].update(age_s)


def _counters(series: Collected, status: MirrorStatus, detail: Detail, partitions: PartitionCounters) -> None:
    if detail.depth == 3:
        rows = partitions.sums(status.lanes)
    else:
        rows = {}
        for one in status.topics:
            key = (one.flow, one.topic)[: detail.depth]
            rows[key] = _plus(rows.get(key, (0, 0, 0)), (one.records, one.wire_bytes, one.latency_ms))
    for key, (records, wire_bytes, latency_ms) in rows.items():
        series[f.RECORDS][key] = records
        series[f.RECORD_BYTES][key] = wire_bytes
        series[f.DELAY][key] = latency_ms / 1000


def _flows(series: Collected, status: MirrorStatus) -> None:
    for state, count in Counter((flow_of(lane), lane.state) for lane in status.lanes).items():
        series[f.PARTITIONS][state] = count
    for flow in status.flows:
        key = (flow.flow,)
        series[f.REPLICATION_LATENCY][key] = flow.replication_latency
        series[f.RECORD_AGE][key] = flow.record_age
        series[f.LOOP_STALL][key] = flow.loop_stall
        series[f.APPEND_LATENCY][key] = flow.append_latency
        series[f.APPEND_FAILURES][key] = flow.append_failures
        series[f.MERGED_BATCHES][key] = flow.merged_batches
        series[f.MERGED_FROM][key] = flow.merged_from
        series[f.LEFT_OUT][key] = flow.left_out
        series[f.RANGE_VAIN_BYTES][key] = flow.range_vain_bytes
        series[f.STALLED][key] = flow.stalled
        series[f.UNKNOWN_LAG][key] = flow.unknown_lanes
        series[f.TOPICS][key] = flow.topics
        series[f.RUNNING][key] = int(flow.desired is Desired.RUNNING)


def _proofs(series: Collected, status: MirrorStatus, detail: Detail) -> None:
    """Add the series of the continuous proof; a partition that it does not know has none."""
    proven: dict[Labels, int] = {}
    for flow, proof in status.proofs.items():
        proven |= {(flow, one.topic, str(one.partition)): one.proven_to for one in proof.lanes if one.proven_to >= 0}
        if proof.at_ms:
            series[f.PROOF_DIFFERENCES][(flow,)] = proof.differences
            series[f.PROOF_AGE][(flow,)] = max(0, status.at_ms - proof.at_ms) / 1000
    left: dict[Labels, float] = defaultdict(int)
    for lane in status.lanes:
        if (upto := proven.get(_key(lane, 3))) is not None:
            left[_key(lane, detail.depth)] += max(0, lane.source_next - upto)
    series[f.UNPROVEN_RECORDS].update(left)


def _copiers(series: Collected, status: MirrorStatus) -> None:
    for state, count in Counter((copier.flow, copier.state.value) for copier in status.copiers).items():
        series[f.COPIERS][state] = count
    for copier in status.copiers:
        key = copier.flow, copier.copier_id
        series[f.COPIER_PARTITIONS][key] = copier.lanes
        series[f.COPIER_BUFFER_BYTES][key] = copier.buffer_bytes
        if copier.batches:
            series[f.COPIER_NATIVE][key] = int(not copier.copies_in_python)
