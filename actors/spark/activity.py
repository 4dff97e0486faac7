"""Finds the flows that copy or are behind: their lag history is wanted soon, so its Spark job must not stay idle."""

from collections.abc import Callable, Iterable

from engine.core.reports.progress import LaneProgress
from policies.model import FlowName
from policies.naming import HEARTBEATS

INTERVAL_S = 5.0
"""Seconds between two checks: a flow may have ten thousand lanes, and Spark starts no batch sooner."""


class ActivityMonitor:
    """Compares the lanes of flows with those of the check before. `clock_s` is monotonic."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._next_check_s = clock_s()
        self._records: dict[FlowName, int] = {}

    def active_flows(self, flows: Iterable[tuple[FlowName, Iterable[LaneProgress]]]) -> list[FlowName]:
        """Return the flows of which a lane is behind, has an unknown lag, or has copied since the last check.

        Between two checks the list is empty. Heartbeats do not count: they never stop.
        """
        if self._clock_s() < self._next_check_s:
            return []
        self._next_check_s = self._clock_s() + INTERVAL_S
        return [flow for flow, lanes in flows if self._is_active(flow, lanes)]

    def _is_active(self, flow: FlowName, lanes: Iterable[LaneProgress]) -> bool:
        records, is_behind = 0, False
        for lane in lanes:
            if not lane.lane.topic.endswith(HEARTBEATS):
                records += lane.records
                is_behind = is_behind or lane.lag_records != 0
        before, self._records[flow] = self._records.get(flow, 0), records
        return is_behind or records != before
