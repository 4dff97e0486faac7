"""Says what a mirror does in Connect's words: the state of each connector and of its tasks.

The tasks of a source connector are the copiers of its flow. A copier with partitions that have stopped on an error is a
FAILED task, although it copies the others: somebody must look. Partitions in quarantine have no copier, so they are one
more task, FAILED. The other connectors are one task each: Metadata does their work.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from actors.model.states import CopierState, Desired
from actors.model.status import CopierStatus, FlowStatus
from actors.rest.connectors import KAFKA_VERSION, ConnectorKind, MirrorConnector
from actors.rest.entities import ConnectorInfo, ConnectorStatus, InstanceState, TaskId, TaskState
from actors.rest.view import MirrorView
from engine.core.reports.progress import LaneProgress
from policies.words import counted

RUNNING, PAUSED, FAILED = "RUNNING", "PAUSED", "FAILED"
STOPPED, UNASSIGNED, RESTARTING = "STOPPED", "UNASSIGNED", "RESTARTING"
NOT_YET: Final = "the mirror has only just begun"
UNREAD: Final = (
    "it is not known yet whether it is to run: that is stored on its target, and was not read since the start"
)
_NAMED = 20
"""Most partitions that a trace names."""
_SHORT_ID = 12
"""Characters of a Ray node's id: enough to tell nodes apart."""
LASTING_ROUNDS: Final = 3
"""Failed rounds in a row from which on a task is told as failed: operators restart tasks that are, and a partition that
has just got a leader is no reason."""


class MirrorTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task: its copier (empty if no copier does its work), its state and why, the partitions that it has."""

    id: int
    copier_id: str = ""
    state: str
    worker: str
    trace: str = ""
    partitions: tuple[str, ...] = ()


def version_of(view: MirrorView) -> str:
    """Return the version that a client sees; clients read Kafka's release at its start."""
    return f"{KAFKA_VERSION}-raymirror.{view.version}"


def tasks_of(view: MirrorView, connector: MirrorConnector) -> tuple[MirrorTask, ...]:
    """Return the tasks of a connector; a connector that is STOPPED has none, as in Connect."""
    flow = view.flow(connector)
    if state_of(view, connector).state == STOPPED:
        return ()
    if connector.kind is not ConnectorKind.SOURCE or flow is None:
        state, trace = _service_state(connector, flow)
        return (MirrorTask(id=0, state=state, worker=view.host, trace=trace),)
    copiers = _working([one for one in view.present.copiers if one.flow == flow.flow])
    by_set: dict[str, list[LaneProgress]] = {}
    for lane in view.lanes(connector):
        by_set.setdefault(lane.set_id, []).append(lane)
    tasks = [_copier_task(view, flow, number, copier, by_set) for number, copier in enumerate(copiers)]
    if flow.quarantined:
        named = tuple(flow.quarantined)
        trace = _lines(f"{lane}: in quarantine: {why}" for lane, why in flow.quarantined.items())
        tasks.append(MirrorTask(id=len(tasks), state=FAILED, worker=view.host, trace=trace, partitions=named))
    waits = flow.waiting_for or NOT_YET
    return tuple(tasks) or (MirrorTask(id=0, state=_idle(flow), worker=view.host, trace=_trace(flow, waits)),)


def state_of(view: MirrorView, connector: MirrorConnector) -> InstanceState:
    """Return the state of a connector itself."""
    flow = view.flow(connector)
    state, trace = UNASSIGNED, NOT_YET
    if connector.kind is ConnectorKind.HEARTBEAT:
        state, trace = RUNNING, ""  # heartbeats do not depend on what is wanted of the flow
    elif flow is not None and not flow.remembered:
        trace = UNREAD
    elif flow is not None and flow.desired is Desired.STOPPED:
        state, trace = STOPPED, ""
    elif connector.kind is ConnectorKind.CHECKPOINT:
        state, trace = RUNNING, ""
    elif flow is not None:
        has_copier = any(
            one.flow == flow.flow and one.state is not CopierState.STARTING for one in view.present.copiers
        )
        state = _idle(flow) if not has_copier else PAUSED if flow.desired is Desired.PAUSED else RUNNING
        trace = _trace(flow, flow.waiting_for or NOT_YET) if not has_copier else ""
    return InstanceState(state=state, worker_id=view.host, trace=trace, version=version_of(view))


def status_of(
    view: MirrorView, connector: MirrorConnector, restarting: Sequence[int] = (), *, restarts: bool = False
) -> ConnectorStatus:
    """Return the states of a connector and its tasks; `restarting`: tasks that begin again now; `restarts`: the
    connector does.
    """
    state = state_of(view, connector)
    return ConnectorStatus(
        name=connector.name,
        connector=msgspec.structs.replace(state, state=RESTARTING) if restarts else state,
        tasks=tuple(task_state(view, task, restarting) for task in tasks_of(view, connector)),
    )


def task_state(view: MirrorView, task: MirrorTask, restarting: Sequence[int] = ()) -> TaskState:
    """Return a task's state as a client sees it."""
    state = RESTARTING if task.id in restarting else task.state
    return TaskState(id=task.id, state=state, worker_id=task.worker, trace=task.trace, version=version_of(view))


def info_of(view: MirrorView, connector: MirrorConnector) -> ConnectorInfo:
    """Return a connector with its settings and the names of its tasks."""
    tasks = tuple(TaskId(connector.name, task.id) for task in tasks_of(view, connector))
    return ConnectorInfo(connector.name, connector.config, tasks)


def _idle(flow: FlowStatus) -> str:
    """Return the state of a flow that no copier copies: a pause is kept, and needs no copier."""
    return PAUSED if flow.desired is Desired.PAUSED else UNASSIGNED


def _trace(flow: FlowStatus, waits_for: str) -> str:
    return "" if flow.desired is Desired.PAUSED else f"waits for {waits_for}" if flow.waiting_for else waits_for


def _working(copiers: list[CopierStatus]) -> list[CopierStatus]:
    """Return the copiers without those that end; all of them if no other is left."""
    return [one for one in copiers if one.state is not CopierState.DRAINING] or copiers


def _copier_task(
    view: MirrorView,
    flow: FlowStatus,
    number: int,
    copier: CopierStatus,
    by_set: Mapping[str, Sequence[LaneProgress]],
) -> MirrorTask:
    held = [lane for set_id in copier.set_ids for lane in by_set.get(set_id, ())]
    failed = [lane for lane in held if lane.state == "failed"]
    state = PAUSED if flow.desired is Desired.PAUSED else RUNNING
    is_unclear = copier.state is CopierState.STARTING or not flow.remembered
    state = FAILED if failed else UNASSIGNED if is_unclear else state
    trace = _lines(f"{lane.lane}: {lane.reason}" for lane in failed)
    return MirrorTask(
        id=number,
        copier_id=copier.copier_id,
        state=state,
        worker=_worker(view, copier.node),
        trace=trace if state == FAILED else "",
        partitions=tuple(str(lane.lane) for lane in held),
    )


def _service_state(connector: MirrorConnector, flow: FlowStatus | None) -> tuple[str, str]:
    """Return state and trace of what Metadata does for a flow."""
    if flow is None:
        return UNASSIGNED, NOT_YET
    if connector.kind is ConnectorKind.CHECKPOINT:
        if flow.groups is None:
            return UNASSIGNED, f"waits for {flow.waiting_for}" if flow.waiting_for else NOT_YET
        if flow.groups.failed_rounds >= LASTING_ROUNDS:
            return FAILED, flow.groups.trouble
    return RUNNING, ""


def _worker(view: MirrorView, node: str) -> str:
    """Return where a copier runs, as `host:port`; another node is named by its Ray id, and shares the server's port."""
    if node in ("", view.node):
        return view.host
    return f"{node[:_SHORT_ID]}:{view.host.rpartition(':')[2]}"


def _lines(texts: Iterator[str]) -> str:
    found = list(texts)
    more = [f"and {counted(len(found) - _NAMED, 'more partition')}"] if len(found) > _NAMED else []
    return "\n".join([*found[:_NAMED], *more])
