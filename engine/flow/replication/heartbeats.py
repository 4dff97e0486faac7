"""Writes heartbeats of one pair of clusters, as MM2 does: one small record at a time.

A lost heartbeat is not sent again, since the next one follows. While one waits for its answer, due heartbeats are
skipped, and not sent later.
"""

from collections.abc import Awaitable, Callable

import msgspec

from engine.base.clock import Beats, now_s, wall_ms
from engine.base.errors import MirrorError
from engine.core.events.events import AnyEvent, Mm2TopicFailed
from engine.core.events.recovery_events import WRITTEN_AGAIN, WorksAgain
from engine.core.lane.outcome import OutcomeKind
from engine.core.mm2.mm2_records import Heartbeat, encode_heartbeat
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import Cluster
from engine.wire.codecs import NONE
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition

_TOLD_AFTER_S = 30.0
"""Failures make an event after this many seconds: a leader election or a restart of a broker takes less."""
_REQUEST_S = 10.0


class HeartbeatPlan(msgspec.Struct, frozen=True):
    """The pair of clusters, the topic and the interval of heartbeats; `flow`: the flow whose events report failures."""

    pair: FlowName
    topic: str
    every_s: float
    flow: FlowName


class Heartbeats:
    """Writes heartbeats to partition 0 of their topic; `ready` opens the cluster and creates the topic."""

    def __init__(
        self,
        plan: HeartbeatPlan,
        cluster: Cluster,
        ready: Callable[[], Awaitable[None]],
        report: Callable[[AnyEvent], None],
    ) -> None:
        self.trouble = ""
        """Why the last write failed; empty if it succeeded."""
        self._plan = plan
        self._ready = ready
        self._report = report
        self._writer = PartitionWriter(cluster, TopicPartition(plan.topic, 0), _REQUEST_S, by_name=True)
        self._is_ready = False
        self._well_at_s = now_s()
        self._told = False

    async def run(self) -> None:
        """Write heartbeats until cancelled; no failure of a broker ends it."""
        beats = Beats(self._plan.every_s)
        try:
            while True:
                await self._beat()
                await beats.wait()
        finally:
            await self._writer.close()

    async def _beat(self) -> None:
        try:
            if not self._is_ready:
                await self._ready()
                self._is_ready = True
            refused = await self._write()
        except MirrorError as error:
            self.trouble, refused = str(error), False
        if not self.trouble:
            if self._told:
                self._report(WorksAgain(flow=self._plan.flow, subject=self._plan.topic, what=WRITTEN_AGAIN))
            self._well_at_s, self._told = now_s(), False
        elif not self._told and (refused or now_s() - self._well_at_s >= _TOLD_AFTER_S):
            self._told = True
            self._report(
                Mm2TopicFailed(
                    flow=self._plan.flow, topic=self._plan.topic, cluster=self._plan.pair.target, what=self.trouble
                )
            )

    async def _write(self) -> bool:
        """Write one heartbeat; return whether it was refused for a cause that waiting does not fix."""
        at_ms = wall_ms()
        key, value = encode_heartbeat(Heartbeat(*self._plan.pair, at_ms))
        outcome = await self._writer.send(encode_batch([Record(0, at_ms, key, value)], NONE))
        appended = outcome.kind is OutcomeKind.APPENDED
        self.trouble = "" if appended else outcome.message or outcome.kind.value
        return not appended and outcome.kind not in (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
