"""Exports the metrics of a mirror, in its supervisor's process and loop: to scrapes and probes, and to a collector.

It stores no values: each scrape and each export reads the status of that moment.
"""

import asyncio
import time
from collections import Counter
from typing import Protocol

from actors.logging.logs import log_sentence
from actors.model.status import EventLine, MirrorStatus
from actors.telemetry import prometheus
from actors.telemetry.collect import Collected, Detail, PartitionCounters, collect, detail_of
from actors.telemetry.health import why_dead, why_not_ready
from engine.base.clock import now_s, pause
from engine.config.settings import TelemetryConfig

_PORT_AGAIN_S = 5.0


class StatusSource(Protocol):
    """A mirror whose status can be read."""

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        """Return the status of the mirror; `lanes` adds every lane."""


class Exporter:
    """The one exporter of a mirror; a port that is taken or a collector that is unreachable never stops the mirror."""

    def __init__(self, config: TelemetryConfig, mirror: StatusSource, *, port_again_s: float = _PORT_AGAIN_S) -> None:
        self._config, self._mirror, self._port_again_s = config, mirror, port_again_s
        self._beat_at_s = now_s()
        self._events: Counter[tuple[str, str]] = Counter()
        self._partitions = PartitionCounters()
        self._failures = 0
        self._detail = Detail(0)
        self._collecting = asyncio.Lock()

    def beat(self) -> None:
        """Note that the supervisor has completed a step."""
        self._beat_at_s = now_s()

    def count(self, event: EventLine) -> None:
        self._events[event.flow, event.severity] += 1

    async def run(self) -> None:
        """Serve and send, as configured, until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._config.port:
                group.create_task(self._serve())
            if self._config.otlp_endpoint:
                group.create_task(self._send())

    async def _collect(self) -> Collected:
        """Return the series of this moment; a thread sums them up, so that the supervisor's steps continue."""
        async with self._collecting:
            status = self._mirror.status(lanes=True)
            detail = detail_of(status, per_partition=self._config.per_partition, most_series=self._config.most_series)
            self._note_detail(detail)
            return await asyncio.to_thread(
                collect, status, detail, self._partitions, dict(self._events), self._failures
            )

    def _note_detail(self, detail: Detail) -> None:
        if detail.left_out and detail.depth != self._detail.depth:
            coarse = "topic" if detail.depth == 2 else "flow"
            log_sentence(
                "warning",
                f"metrics are reported by {coarse}: {detail.left_out} more series of each would be above"
                f" raymirror.metrics.max.series = {self._config.most_series}",
            )
        self._detail = detail

    # --- the port --------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        from actors.telemetry.serving import serve  # imports aiohttp only if a port is configured

        await serve(self, self._config, self._port_again_s)

    async def metrics(self) -> str:
        return await asyncio.to_thread(prometheus.page, await self._collect())

    def why_dead(self) -> str:
        return why_dead(now_s() - self._beat_at_s)

    def why_not_ready(self) -> str:
        return why_not_ready(self._mirror.status(lanes=True))

    # --- the collector ---------------------------------------------------------------------------------------

    async def _send(self) -> None:
        from actors.telemetry.otlp import Sender, resource_of  # imports requests and protobuf only if configured

        status = self._mirror.status(lanes=True)
        resource = resource_of(status.namespace, status.version)
        sender = Sender(self._config.otlp_endpoint, resource, status.version, time.time_ns())
        failing = False
        try:
            while True:
                taken = await asyncio.to_thread(sender.send, await self._collect(), time.time_ns())
                if not taken:
                    self._failures += 1
                if taken is failing:
                    failing = not taken
                    log_sentence(*self._turned(taken=taken))
                await pause(self._config.otlp_every_s)
        finally:
            sender.close()

    def _turned(self, *, taken: bool) -> tuple[str, str]:
        at = self._config.otlp_endpoint
        if taken:
            return "info", f"the OTLP collector at {at} accepts metrics again"
        return (
            "warning",
            f"the OTLP collector at {at} does not accept metrics; tried again every {self._config.otlp_every_s:g} s",
        )
