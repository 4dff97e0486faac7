"""Answers what only reads: who answers, connectors with their states, tasks, topics."""

from actors.rest.connectors import ConnectorKind, MirrorConnector
from actors.rest.entities import (
    ActiveTopics,
    ConnectorExpansion,
    TaskId,
    TaskInfo,
    WorkerHealth,
    WorkerInfo,
)
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal
from actors.rest.states import MirrorTask, info_of, status_of, task_state, tasks_of, version_of
from actors.rest.view import NO_STATUS, MirrorView

_COMMIT = "unknown"
_HEALTHY = "Worker has completed startup and is ready to handle requests."
_STARTING = "Worker is still starting up."
_UNHEALTHY = "Worker was unable to handle this request and may be unable to handle other requests."
_MOST_INT = 2**31 - 1


def root(_call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return who answers; the cluster is the target of the first flow, as a Connect cluster lives on its target."""
    cluster_id = next((flow.target_id for flow in view.present.flows if flow.target_id), "")
    return HttpAnswer(body=WorkerInfo(version_of(view), _COMMIT, cluster_id))


def health(_call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return whether the mirror works (KIP-1017)."""
    if view.why_dead:
        return HttpAnswer(status=500, body=WorkerHealth("unhealthy", f"{_UNHEALTHY} {view.why_dead}"))
    if view.present.phase == "starting":
        return HttpAnswer(status=503, body=WorkerHealth("starting", _STARTING))
    return HttpAnswer(body=WorkerHealth("healthy", _HEALTHY))


def list_connectors(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return the names of all connectors, or what `expand` asks for about each; other words have no effect."""
    if "expand" not in call.query:
        return HttpAnswer(body=list(view.connectors))
    asked = call.query["expand"]
    found = {
        name: ConnectorExpansion(
            info=info_of(view, one) if "info" in asked else None,
            status=status_of(view, one) if "status" in asked else None,
        )
        for name, one in view.connectors.items()
    }
    return HttpAnswer(body=found)


def info(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return a connector with its settings and tasks."""
    return HttpAnswer(body=info_of(view, view.connector(call)))


def config(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return the settings of a connector, without any that may hold a password."""
    return HttpAnswer(body=view.connector(call).config)


def status(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return the states of a connector and its tasks."""
    return HttpAnswer(body=status_of(view, view.connector(call, NO_STATUS)))


def tasks(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return the tasks of a connector with their settings."""
    connector = view.connector(call)
    return HttpAnswer(body=[_task_info(connector, task) for task in tasks_of(view, connector)])


def _task_info(connector: MirrorConnector, task: MirrorTask) -> TaskInfo:
    own = {"task.class": connector.kind.class_name.replace("Connector", "Task"), "task.index": str(task.id)}
    if connector.kind is ConnectorKind.SOURCE:
        own["task.assigned.partitions"] = ",".join(task.partitions)
    return TaskInfo(TaskId(connector.name, task.id), connector.config | own)


def number_of(call: HttpCall) -> int:
    """Return the number of the task that a path names. Raises HttpRefusal if it is none of Java's Integer."""
    text = call.path["task"]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and abs(int(text)) <= _MOST_INT):
        raise HttpRefusal(404, "HTTP 404 Not Found")
    return int(text)


def task_status(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return the state of one task."""
    number, name = number_of(call), call.path["connector"]
    connector = view.connectors.get(name)
    found = [task for task in tasks_of(view, connector) if task.id == number] if connector is not None else []
    if not found:
        raise HttpRefusal(404, f"No status found for task {name}-{number}")
    return HttpAnswer(body=task_state(view, found[0]))


def topics(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return the topics that a connector writes; as in Connect, an unknown one writes none."""
    name = call.path["connector"]
    connector = view.connectors.get(name)
    found: tuple[str, ...] = ()
    if connector is not None and connector.kind is ConnectorKind.SOURCE:
        found = tuple(sorted({lane.target.topic for lane in view.lanes(connector)}))
    elif connector is not None:
        found = connector.topics
    return HttpAnswer(body={name: ActiveTopics(found)})
