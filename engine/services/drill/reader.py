"""Reads the last drill of a flow from its target again and again, over one connection that stays open."""

from engine.base.clock import wall_ms
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.drill_report import FINDINGS_SHOWN, DrillReport
from engine.flow.ports.ports import EARLIEST
from engine.flow.topic_logs.drill_log import DrillLog
from engine.services.clients import clients_of
from engine.services.drill.record import CLOCKS_MS
from engine.services.target_view import FlowTarget

CLIENT_ID = "raymirror-drills"


class DrillReader(FlowTarget):
    """The last drill of one flow, as an async context. Raises what `FlowTarget` raises."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig) -> None:
        super().__init__(flow, clients_of(config, flow.name, CLIENT_ID))
        self._log = DrillLog(self._target, flow.name, flow.request_timeout_s)
        self._since_ms = EARLIEST
        self._last: DrillReport | None = None

    async def _close(self) -> None:
        await self._log.close()
        await super()._close()

    async def last(self) -> DrillReport | None:
        """Return the last report with its first findings, None if there is none; later calls read only what is new.

        Raises BrokerUnreachable, KafkaRefusal, StateUnreadable.
        """
        if not await self._log.exists():
            return None
        read_at_ms = wall_ms()
        _, found = await self._log.read(self._since_ms)
        self._since_ms = read_at_ms - CLOCKS_MS
        self._last = found.cut(FINDINGS_SHOWN) if found is not None else self._last
        return self._last
