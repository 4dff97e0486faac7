"""Reads and writes what drills store in a flow's state topic: runs that may have left something, and the last result.

Each run has a key of its own: two drills never overwrite each other's record.
"""

from engine.core.reports.drill_report import DrillReport
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.flow.topic_logs.unowned_log import UnownedLog
from engine.state.state import (
    DRILL_SCOPE,
    OPERATION_SCOPE,
    DrillRun,
    OperationEntry,
    StateCodec,
    last_drill_of,
    state_topic,
)
from policies.dr.operations import DrOperation, running
from policies.model import FlowName


class DrillLog(UnownedLog):
    """The entries of one flow's drills."""

    def __init__(self, cluster: Cluster, flow: FlowName, request_timeout_s: float) -> None:
        super().__init__(cluster, flow, DRILL_SCOPE, request_timeout_s)
        self._operations = StateCodec(flow, state_topic(flow.source), OPERATION_SCOPE)

    async def read(self, since_ms: int = EARLIEST) -> tuple[dict[str, DrillRun], DrillReport | None]:
        """Return the runs by id, and the last report; `since_ms`: only what was written since (Unix time).

        Raises BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
        """
        entries = await self.entries(since_ms)
        runs = {key.subject: value for key, value in entries.items() if isinstance(value, DrillRun)}
        return runs, last_drill_of(entries)

    async def operation(self, since_ms: int = EARLIEST) -> DrOperation | None:
        """Return the operation between the two clusters that has not ended, None if there is none.

        `since_ms`: of those that were written to since (Unix time). Raises as `read` does.
        """
        entries = (await self.entries(since_ms, self._operations)).values()
        return running([one.operation for one in entries if isinstance(one, OperationEntry)])
