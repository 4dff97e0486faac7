"""From the mirror's status to series: what is exported is what is so now, so what has ended has no series any more."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from actors.states import Desired
from actors.status import MirrorStatus
from actors.telemetry import families as f
from actors.telemetry.families import Family
from engine.core.progress import LaneProgress
from engine.core.tally import Histogram

Labels = tuple[str, ...]
"""Values of a family's labels, in order; the last ones may be left out."""
Series = dict[Labels, float | Histogram]
Collected = dict[Family, Series]
Row = tuple[int, int, int]
"""Records, wire bytes, latency in ms."""


class Detail(msgspec.Struct, frozen=True):
    """How finely lanes are told: `depth` labels of (flow, topic, partition), and how many series were too many."""

    depth: int
    left_out: int = 0


def detail_of(status: MirrorStatus, *, per_partition: bool, most_series: int) -> Detail:
    """Choose the finest detail that is wanted and keeps within the limit; with flows alone there is no limit."""
    counts = {3: len(status.lanes), 2: len({(flow_of(lane), lane.lane.topic) for lane in status.lanes})}
    wanted = 3 if per_partition else 2
    for depth in range(wanted, 1, -1):
        if counts[depth] <= most_series:
            return Detail(depth, counts[wanted] - counts[depth])
    return Detail(1, counts[wanted] - len(status.flows))


def flow_of(lane: LaneProgress) -> str:
    """Name the flow of a lane, by its set: `A->B/017`."""
    return lane.set_id.rpartition("/")[0]


class PartitionCounters:
    """Counters of single partitions, which go on rising when a partition changes copiers.

    What was copied between the last look and a copier's sudden end is not in them; it is in the counters by topic.
    """

    def __init__(self) -> None:
        self._known: dict[Labels, tuple[int, Row, Row]] = {}

    def look(self, key: Labels, lane: LaneProgress) -> Row:
        """Give the sums of a partition, as of a lane's progress."""
        now = lane.records, lane.wire_bytes, lane.latency_ms
        epoch, last, base = self._known.get(key, (lane.epoch, now, (0, 0, 0)))
        if lane.epoch != epoch or now[0] < last[0]:
            base = base[0] + last[0], base[1] + last[1], base[2] + last[2]
        if lane.state == "unowned":
            now, epoch = (0, 0, 0), -1
        else:
            epoch = lane.epoch
        self._known[key] = epoch, now, base
        return base[0] + now[0], base[1] + now[1], base[2] + now[2]

    def keep_only(self, keys: Iterable[Labels]) -> None:
        """Forget partitions that are gone."""
        wanted = set(keys)
        self._known = {key: known for key, known in self._known.items() if key in wanted}


def collect(
    status: MirrorStatus,
    detail: Detail,
    partitions: PartitionCounters,
    events: Mapping[tuple[str, str], int],
    export_failures: int,
) -> Collected:
    """Make every series of one moment; `events` counts by flow and severity."""
    series: Collected = {family: {} for family in f.FAMILIES}
    _lags(series, status, detail)
    _counters(series, status, detail, partitions)
    _flows(series, status)
    _copiers(series, status)
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
    """Sum lags up; a topic of which nothing is known has no series, rather than a lag of 0."""
    records: dict[Labels, float] = defaultdict(int)
    sizes: dict[Labels, float] = defaultdict(int)
    seconds: dict[Labels, float] = defaultdict(float)
    for lane in status.lanes:
        if not lane.lag_known:
            continue
        key = _key(lane, detail.depth)
        records[key] += lane.lag_records
        if lane.lag_bytes >= 0:
            sizes[key] += lane.lag_bytes
        seconds[key] = max(seconds[key], lane.lag_ms(status.at_ms) / 1000)
    series[f.LAG_RECORDS].update(records)
    series[f.LAG_BYTES].update(sizes)
    series[f.LAG_SECONDS].update(seconds)


def _counters(series: Collected, status: MirrorStatus, detail: Detail, partitions: PartitionCounters) -> None:
    if detail.depth == 3:
        keys = [_key(lane, 3) for lane in status.lanes]
        rows = {key: partitions.look(key, lane) for key, lane in zip(keys, status.lanes, strict=True)}
        partitions.keep_only(keys)
    else:
        rows = defaultdict(lambda: (0, 0, 0))
        for one in status.topics:
            key = (one.flow, one.topic)[: detail.depth]
            known = rows[key]
            rows[key] = known[0] + one.records, known[1] + one.wire_bytes, known[2] + one.latency_ms
    for key, (records, wire_bytes, latency_ms) in rows.items():
        series[f.RECORDS][key] = records
        series[f.RECORD_BYTES][key] = wire_bytes
        series[f.DELAY][key] = latency_ms / 1000


def _flows(series: Collected, status: MirrorStatus) -> None:
    states = Counter((flow_of(lane), lane.state) for lane in status.lanes)
    series[f.PARTITIONS].update(states)
    for flow in status.flows:
        key = (flow.flow,)
        series[f.REPLICATION_LATENCY][key] = flow.replication_latency
        series[f.RECORD_AGE][key] = flow.record_age
        series[f.APPEND_LATENCY][key] = flow.append_latency
        series[f.APPEND_FAILURES][key] = flow.append_failures
        series[f.STALLED][key] = flow.stalled
        series[f.UNKNOWN_LAG][key] = flow.unknown_lanes
        series[f.TOPICS][key] = flow.topics
        series[f.RUNNING][key] = int(flow.desired is Desired.RUNNING)


def _copiers(series: Collected, status: MirrorStatus) -> None:
    series[f.COPIERS].update(Counter((copier.flow, copier.state.value) for copier in status.copiers))
    for copier in status.copiers:
        key = copier.flow, copier.copier_id
        series[f.COPIER_PARTITIONS][key] = copier.lanes
        series[f.COPIER_BUFFER_BYTES][key] = copier.buffer_bytes
