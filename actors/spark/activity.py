"""Finds the flows that copy or are behind: readers want their lag history soon, so its Spark job must not stay idle."""

import math
from collections.abc import Iterable

from engine.core.reports.progress import LaneProgress
from policies.model import FlowName
from policies.naming import HEARTBEATS

INTERVAL_S = 5.0
"""Seconds between two checks: a flow may have ten thousand lanes, and Spark starts no batch sooner."""


class ActivityMonitor:
    """Compares the lanes of flows with those of the check before."""

    def __init__(self) -> None:
        self._next_check_s = -math.inf
        self._records: dict[FlowName, int] = {}

    def active_flows(self, flows: Iterable[tuple[FlowName, Iterable[LaneProgress]]], now_s: float) -> list[FlowName]:
        """Return the flows of which a lane is behind, has an unknown lag, or has copied since the last check.

        Between two checks the list is empty. Heartbeats do not count: they never stop.
        """
        if now_s < self._next_check_s:
            return []
        self._next_check_s = now_s + INTERVAL_S
        return [flow for flow, lanes in flows if self._is_active(flow, lanes)]

    def _is_active(self, flow: FlowName, lanes: Iterable[LaneProgress]) -> bool:
        records, is_behind = 0, False
        for lane in lanes:
            if not lane.lane.topic.endswith(HEARTBEATS):
                records += lane.records
                is_behind = is_behind or lane.lag_records != 0
        before, self._records[flow] = self._records.get(flow, 0), records
        return is_behind or records != before
