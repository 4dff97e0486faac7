"""Counts what one flow has copied and how fast, and builds its status. Counters never decrease."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from actors.control.copier_handle import CopierHandle
from actors.control.counters import Counts, FlowCounters
from actors.control.flow_state import FlowState
from actors.model.states import Desired
from actors.model.status import CopierStatus, FlowAtEnd, FlowStatus, TopicStatus
from engine.core.reports.progress import IN_QUARANTINE, LaneProgress, unowned
from engine.core.reports.source_end import END_LASTS_MS, UNREACHED_END_LASTS_MS
from policies.model import TopicPartition

NO_COPIER = "no copier has it yet"
RATE_WINDOW = 6  # marks, one a second: long enough to be calm, short enough to follow a change


class FlowMetrics:
    """The counters of one flow. Each copier counts its own part of a lane; counts of ended copiers are kept."""

    def __init__(self, flow_state: FlowState) -> None:
        self._flow_state = flow_state
        self._counters = FlowCounters()
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=RATE_WINDOW)
        self._ended: dict[TopicPartition, LaneProgress] = {}
        """The lanes of a flow that ends, as last reported by copiers that ended cleanly, at `_ended_ms` (Unix time)."""
        self._ended_ms: int | None = None

    def bury(self, handle: CopierHandle) -> None:
        """Keep the counts of a copier that ended."""
        self._adopt_counters(handle)
        if handle.progress is not None:
            self._counters.bury(handle.copier_id, handle.progress)
            if self._flow_state.is_ending and handle.port.vital().last is not None:
                self._ended |= {lane.lane: lane for lane in handle.progress.lanes}
                self._ended_ms = max(self._ended_ms or 0, handle.progress.at_ms)

    def mark(self, at_s: float) -> None:
        """Note the counters at an instant (monotonic seconds), for the rates."""
        if not self._flow_state.is_ending:
            self._ended, self._ended_ms = {}, None
        for handle in self._flow_state.handles.values():
            self._adopt_counters(handle)
        if not self._marks or at_s - self._marks[-1][0] >= 0.5:
            counts = self.counts()
            self._marks.append((at_s, counts.records, counts.wire_bytes))

    def _adopt_counters(self, handle: CopierHandle) -> None:
        if handle.is_adopted and handle.progress is not None:
            self._counters.adopt(handle.copier_id, handle.progress)

    def rates(self) -> tuple[float, float]:
        """Return records and bytes per second over the last few marks; 0 without a copier."""
        if not self._flow_state.handles or len(self._marks) < 2 or self._marks[-1][0] <= self._marks[0][0]:
            return 0.0, 0.0
        (first_at, first_records, first_bytes), (last_at, last_records, last_bytes) = self._marks[0], self._marks[-1]
        span_s = last_at - first_at
        return max(0, last_records - first_records) / span_s, max(0, last_bytes - first_bytes) / span_s

    def status(self) -> FlowStatus:
        flow_state, lanes = self._flow_state, LaneSums(self._flow_state.lanes())
        total = sum(len(group.lanes) for group in flow_state.ownership.sets.values())
        unowned_lanes = max(0, total - lanes.count)
        records_per_s, bytes_per_s = self.rates()
        counts, latencies = self.counts(), self._counters.latencies(self._flow_state.reported())
        is_stopped, unknown = flow_state.wanted.state is Desired.STOPPED, max(0, total - lanes.known)
        is_lag_known = not unknown and (bool(flow_state.serial) or is_stopped)
        ended = LaneSums(self._last_lanes())
        stall_reason, stalled_for_it = ("", 0) if is_stopped else lanes.stall(unowned_lanes)
        held, held_reason = (0, "") if is_stopped else lanes.held()
        return FlowStatus(
            flow=str(flow_state.flow),
            desired=flow_state.wanted.state,
            paused_topics=tuple(sorted(flow_state.wanted.paused_topics)),
            moved_topics=tuple(sorted(flow_state.wanted.moved_topics)),
            topics=len(flow_state.topics()),
            lanes=total,
            unknown_lanes=unknown,
            silent_lanes=lanes.silent,
            lane_states=lanes.states,
            lag_records=lanes.lag_records if is_lag_known else None,
            least_lag_records=lanes.lag_records,
            records=counts.records,
            wire_bytes=counts.wire_bytes,
            records_per_s=records_per_s,
            bytes_per_s=bytes_per_s,
            errors=lanes.states.get("failed", 0) + ended.states.get("failed", 0),
            waiting_for=flow_state.waiting_for(),
            quarantined=flow_state.quarantined_lanes(),
            heeded=flow_state.is_heeded,
            lag_bytes=lanes.lag_bytes if is_lag_known else None,
            least_lag_bytes=lanes.lag_bytes,
            source_end_age_ms=_or_unknown(lanes.end_age_ms),
            behind_since_ms=_or_unknown(lanes.behind_since_ms),
            stalled=0 if is_stopped else unowned_lanes + lanes.stalled,
            stall_reason=stall_reason,
            stalled_for_it=stalled_for_it,
            held=held,
            held_reason=held_reason,
            bound="" if is_stopped else lanes.bound,
            append_failures=counts.append_failures,
            merged_batches=counts.merged_batches,
            merged_from=counts.merged_from,
            left_out=counts.left_out,
            range_vain_bytes=counts.range_vain_bytes,
            append_latency=latencies.append,
            replication_latency=latencies.replication,
            record_age=latencies.record_age,
            loop_stall=latencies.loop_stall,
            groups=flow_state.found.groups,
            configs=flow_state.found.configs,
            at_end=FlowAtEnd(
                at_ms=_or_unknown(self._ended_ms),
                lag_records=ended.lag_records,
                unknown_lanes=max(0, total - ended.known),
            )
            if self._is_over and total
            else None,
            discovered=bool(flow_state.serial),
            remembered=flow_state.is_state_read or flow_state.wanted_at_ms > 0,
            failed_over=flow_state.failed_over,
            may_return=flow_state.may_return,
            deleted=flow_state.deleted,
            target_id=flow_state.found.target_id,
            drill=flow_state.found.drill,
        )

    @property
    def _is_over(self) -> bool:
        """Whether no copier is left, and none will start."""
        return self._flow_state.is_ending and not self._flow_state.handles

    def _last_lanes(self) -> Iterator[LaneProgress]:
        """Yield the lanes of a flow that is over, as they were last reported."""
        if self._is_over:
            lanes = (name.source for group in self._flow_state.ownership.sets.values() for name in group.lanes)
            yield from (self._ended[lane] for lane in lanes if lane in self._ended)

    def counts(self) -> Counts:
        """Return the counts since the supervisor started, of living and ended copiers."""
        return self._counters.counts(self._flow_state.reported())

    def topics(self) -> Iterator[TopicStatus]:
        for one in self._counters.topics(self._flow_state.reported()).values():
            yield TopicStatus(
                flow=str(self._flow_state.flow),
                topic=one.topic,
                records=one.records,
                wire_bytes=one.wire_bytes,
                latency_ms=one.latency_ms,
            )

    def lanes(self) -> Iterator[LaneProgress]:
        """Yield every lane of the flow: as its copier reported it, or as unowned, and why."""
        flow_state, reported, quarantined = self._flow_state, set(), self._flow_state.quarantined()
        for lane in flow_state.lanes():
            reported.add(lane.lane)
            yield lane
        for set_id, group in flow_state.ownership.sets.items():
            owner = flow_state.ownership.owner.get(set_id)
            idle = "the mirror ends" if flow_state.mirror_ends else "waits for a copier"
            why = f"{owner} has not taken it yet" if owner else flow_state.waiting_for() or idle
            if set_id in quarantined:
                why = f"{IN_QUARANTINE}: {quarantined[set_id]}"
            for name in group.lanes:
                if name.source not in reported:
                    yield unowned(name, set_id, group.epoch, why)

    def copiers(self) -> Iterator[CopierStatus]:
        ownership = self._flow_state.ownership
        for copier_id, handle in self._flow_state.handles.items():
            owned = ownership.owned(copier_id)
            yield CopierStatus(
                copier_id=copier_id,
                flow=str(self._flow_state.flow),
                state=handle.state,
                set_ids=tuple(owned),
                lanes=sum(len(ownership.sets[set_id].lanes) for set_id in owned),
                buffer_bytes=handle.progress.buffer_bytes if handle.progress else 0,
                node=handle.report.node if handle.report else "",
                batches=handle.report.batches if handle.report else "",
            )


def _or_unknown(time_ms: int | None) -> int:
    """Return a time as in a status: -1 if it is not known."""
    return -1 if time_ms is None else time_ms


def _unnamed(lane: LaneProgress) -> str:
    """Return the reason of a lane without the lane's name at the end, so that equal reasons can be counted."""
    for name in (str(lane.lane), str(lane.target)):
        if lane.reason.endswith(name):
            return lane.reason.removesuffix(name).rstrip()
    return lane.reason


class LaneSums:
    """Sums over the lanes of a flow, in one pass: there may be ten thousand lanes, and a status every second."""

    def __init__(self, lanes: Iterable[LaneProgress]) -> None:
        self.count = self.lag_records = self.lag_bytes = self.stalled = 0
        self.states: dict[str, int] = {}
        self._reasons: Counter[str] = Counter()
        self._held: Counter[str] = Counter()
        self.bound = ""
        """What the path of the lane furthest behind carries, if distance bounds it."""
        furthest = 0
        heard_ages_ms: list[int] = []
        silent_ages_ms: list[int] = []
        behind_since_ms: list[int] = []
        for lane in lanes:
            self.count += 1
            self.states[lane.state] = self.states.get(lane.state, 0) + 1
            if lane.source_end >= 0 and lane.source_next >= 0:
                age_ms = lane.source_end_age_ms  # lane.lag_known, without a call for each of ten thousand
                if age_ms <= (END_LASTS_MS if lane.source_reached else UNREACHED_END_LASTS_MS):
                    heard_ages_ms.append(age_ms)
                else:
                    silent_ages_ms.append(age_ms)
                if lane.source_end > lane.source_next:
                    self.lag_records += lane.source_end - lane.source_next
            if lane.lag_bytes > 0:
                self.lag_bytes += lane.lag_bytes
            if lane.reason and lane.state != "paused":
                self.stalled += 1
                self._reasons[_unnamed(lane)] += 1
            elif lane.held:
                self._held[lane.held] += 1
            if lane.behind_since_ms >= 0:
                behind_since_ms.append(lane.behind_since_ms)
            if lane.bound and not lane.held and lane.lag_bytes >= furthest:
                self.bound, furthest = lane.bound, lane.lag_bytes
        self.known, self.silent = len(heard_ages_ms), len(silent_ages_ms)
        # a status with silent lanes gives the age of the silent ones
        self.end_age_ms = max(silent_ages_ms or heard_ages_ms, default=None)
        self.behind_since_ms = min(behind_since_ms, default=None)

    def held(self) -> tuple[int, str]:
        """Return how many lanes move more slowly than they could, and the most frequent reason."""
        return self._held.total(), max(self._held, key=lambda why: self._held[why], default="")

    def stall(self, unowned: int) -> tuple[str, int]:
        """Return the most frequent reason of stalled lanes, and its count; `unowned`: lanes without a copier."""
        reasons = self._reasons + Counter({NO_COPIER: unowned})
        return max(reasons.items(), key=lambda item: item[1], default=("", 0))
