"""Records a drill on the target before it makes anything, shows that it is alive, and takes away what it has made.

    open (recorded) --made, read, taken away--> no record, a result
       |
       +--killed--> open, without beats --the next drill, or `--clean`: takes away by the record--> no record

Only names with the id of a recorded run are taken away, so nothing else can be meant. A run whose record beats is left
alone, whatever its clock says. A drill is no operation of `policies/dr/operations.py`, because those keep others out
until they are resumed or aborted, and a drill that was killed must never be in the way of a failover. It gives way.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from engine.base.clock import now_s, pause, wall_ms
from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal, MirrorError
from engine.base.parts import parts
from engine.core.reports.drill_report import FINDINGS_KEPT, DrillReport
from engine.flow.ports.ports import Listed
from engine.flow.topic_logs.drill_log import DrillLog
from engine.state.state import LAST_DRILL, DrillRun, LastDrill, drill_run_key
from policies.dr.drill import drill_prefix, scratch_topic
from policies.dr.operations import DrOperation
from policies.words import counted

BEAT_S = 2.0
SILENT_S = 8.0
"""A run whose record does not change for so long was killed."""
GONE_WITHIN_S = 20.0
"""So long the brokers may take to forget a topic that was deleted."""
CLOCKS_MS = 600_000
"""So far the clock of who drives an operation may be behind this one."""
_AGAIN_S = 0.25
_AT_ONCE = 200
_PASSES = 3
_FAILURES = (BrokerUnreachable, ConnectionLost, KafkaRefusal)


class DrillRuns(MirrorError):
    """Another drill of the flow runs: flow, run id, where."""

    exit_code = 1

    def __init__(self, flow: str, run_id: str, where: str) -> None:
        super().__init__(flow, run_id, where)
        self.flow, self.run_id, self.where = flow, run_id, where

    def __str__(self) -> str:
        return f"drill {self.run_id} of flow {self.flow} runs on {self.where}; wait for its end, or end it there"


class OperationRuns(MirrorError):
    """An operation between the two clusters is under way: flow, kind, id."""

    exit_code = 1

    def __init__(self, flow: str, kind: str, operation: str) -> None:
        super().__init__(flow, kind, operation)
        self.flow, self.kind, self.operation = flow, kind, operation

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.operation} between the clusters of {self.flow} has not ended, and a drill would only"
            " rehearse its middle; end or abort it first: raymirror dr status"
        )


class MadeThings(Protocol):
    """What drills make on the target, as `engine.services.drill.made.Made` asks for it."""

    async def list_groups(self) -> Listed:
        """Return the groups of the target."""

    async def delete_groups(self, groups: Sequence[str]) -> dict[str, str]:
        """Delete groups; return those that are still there, and why."""

    async def has_topic(self, topic: str) -> bool:
        """Whether the target has a topic of this name."""

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic."""


class DrillRecord:
    """The records of one flow's drills. `run_id`: of the drill that uses it."""

    def __init__(self, flow: str, run_id: str, log: DrillLog, made: MadeThings) -> None:
        self._flow, self._run_id, self._log, self._made = flow, run_id, log, made
        self._run = DrillRun(began_ms=wall_ms(), where=socket.gethostname())

    @property
    def began_ms(self) -> int:
        """When the drill began (Unix time)."""
        return self._run.began_ms

    async def clean(self) -> dict[str, tuple[str, ...]]:
        """Take away what killed drills have left; return their run ids, each with what is still there.

        Raises DrillRuns if one is alive; BrokerUnreachable, KafkaRefusal, StateUnreadable.
        """
        runs, _ = await self._log.read()
        silent_since_s = now_s()
        while runs and now_s() - silent_since_s < SILENT_S:
            await pause(BEAT_S / 2)
            again, _ = await self._log.read()
            for run_id, run in again.items():
                if runs.get(run_id) != run:
                    raise DrillRuns(self._flow, run_id, run.where)
            runs = again
        return {run_id: await self.take_away(run_id) for run_id in runs}

    async def begin(self) -> None:
        """Record that this drill may make something. Raises OperationRuns, BrokerUnreachable, KafkaRefusal."""
        self._refuse(await self._log.operation())
        await self._log.put({drill_run_key(self._run_id): self._run})

    async def beat(self) -> None:
        """Show that this drill is alive, until cancelled; give way to an operation that begins meanwhile.

        Raises OperationRuns, BrokerUnreachable, KafkaRefusal.
        """
        while True:
            await pause(BEAT_S)
            self._refuse(await self._log.operation(self._run.began_ms - CLOCKS_MS))
            self._run = msgspec.structs.replace(self._run, beats=self._run.beats + 1)
            await self._log.put({drill_run_key(self._run_id): self._run})

    def _refuse(self, operation: DrOperation | None) -> None:
        if operation is not None:
            raise OperationRuns(self._flow, operation.kind, operation.id)

    async def store(self, report: DrillReport) -> None:
        """Store the result. Raises BrokerUnreachable, KafkaRefusal."""
        await self._log.put({LAST_DRILL: LastDrill(report=report.cut(FINDINGS_KEPT))})

    async def take_away(self, run_id: str) -> tuple[str, ...]:
        """Take away what a drill has made, and its record; return what is still there, which keeps the record."""
        left = [text for text in (await self._try(self._groups, run_id), await self._try(self._topic, run_id)) if text]
        if left:
            return tuple(left)
        why = await self._try(self._forget, run_id)
        return (why,) if why else ()

    async def _try(self, work: Callable[[str], Awaitable[str]], run_id: str) -> str:
        try:
            return await work(run_id)
        except _FAILURES as failure:
            return f"what drill {run_id} made could not be taken away: {failure}"

    async def _groups(self, run_id: str) -> str:
        """Delete the shadow groups until none is listed; return what is still there, empty if nothing is."""
        prefix, failed = drill_prefix(run_id), dict[str, str]()
        for _ in range(_PASSES):  # a commit without an answer may arrive late
            listed = await self._made.list_groups()
            groups = [one.group for one in listed.groups if one.group.startswith(prefix)]
            if not groups or failed:
                break
            failed = await self._delete(groups)
        if failed:
            group, why = next(iter(failed.items()))
            return f"{counted(len(failed), 'group')} {prefix}..., {group} for example: {why}"
        silent = ", ".join(f"broker {node}: {why}" for node, why in listed.unheard.items())
        return f"perhaps groups {prefix}... of brokers that do not answer: {silent}" if silent else ""

    async def _delete(self, groups: Sequence[str]) -> dict[str, str]:
        failed: dict[str, str] = {}
        for part in parts(groups, _AT_ONCE):
            failed |= await self._made.delete_groups(part)
        return failed

    async def _topic(self, run_id: str) -> str:
        topic = scratch_topic(run_id)
        if not await self._made.has_topic(topic):
            return ""
        await self._made.delete_topic(topic)
        give_up_at_s = now_s() + GONE_WITHIN_S
        while await self._made.has_topic(topic):
            if now_s() >= give_up_at_s:
                return f"topic {topic}: it is being deleted, and the brokers still show it after {GONE_WITHIN_S:.0f} s"
            await pause(_AGAIN_S)
        return ""

    async def _forget(self, run_id: str) -> str:
        await self._log.put({drill_run_key(run_id): None})
        return ""
