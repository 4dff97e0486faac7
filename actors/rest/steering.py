"""Answers what changes the state of a flow: pause, resume, stop, restart.

Only a source connector is steered: a flow is paused and stopped as a whole. A pause stops copying, while groups and
heartbeats continue; a stop ends the sync of groups too; heartbeats never stop. So the other connectors accept what they
do already, and refuse the rest with the name of the connector to ask instead.
"""

from actors.model.requests import GiveCommand, RestartCopiers, RestartFlow
from actors.model.states import Command, Desired
from actors.rest.connectors import ConnectorKind, MirrorConnector
from actors.rest.exchange import Deed, HttpAnswer, HttpCall, HttpRefusal
from actors.rest.reading import number_of
from actors.rest.states import FAILED, RUNNING, STOPPED, status_of, tasks_of
from actors.rest.view import UNKNOWN, UNKNOWN_TO_RESTART, MirrorView

_STATE_AFTER = {Command.PAUSE: "PAUSED", Command.RESUME: RUNNING, Command.STOP: STOPPED}


def pause(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Pause copying; a flow that is stopped starts paused."""
    return HttpAnswer(status=202, deeds=_steer(call, view, Command.PAUSE))


def resume(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Copy again; partitions that had stopped on an error try again."""
    return HttpAnswer(status=202, deeds=_steer(call, view, Command.RESUME))


def stop(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Stop a flow; its mirror stays, so that it can be resumed (KIP-875)."""
    return HttpAnswer(status=204, deeds=_steer(call, view, Command.STOP))


def _steer(call: HttpCall, view: MirrorView, command: Command) -> tuple[Deed, ...]:
    connector = view.connector(call, UNKNOWN)
    if connector.kind is not ConnectorKind.SOURCE:
        _refuse_alone(view, connector, command)
        return ()
    flow = view.flow(connector)
    if flow is not None and flow.failed_over and command is not Command.STOP:
        raise HttpRefusal(
            400,
            f"Flow {flow.flow} was failed over: its consumers use the target now, so a tool must not start it again. To"
            f" copy again all the same: raymirror resume '{flow.flow}' --forget-failover",
        )
    return (GiveCommand(command, connector.flow),)


def _refuse_alone(view: MirrorView, connector: MirrorConnector, command: Command) -> None:
    """Refuse a command to a connector that follows its flow, unless it has that state already. Raises HttpRefusal."""
    flow = view.flow(connector)
    is_stopped = connector.kind is ConnectorKind.CHECKPOINT and flow is not None and flow.desired is Desired.STOPPED
    if _STATE_AFTER[command] == (STOPPED if is_stopped else RUNNING):
        return
    source = f"{connector.flow}.{ConnectorKind.SOURCE}"
    if connector.kind is ConnectorKind.HEARTBEAT:
        right = f"Heartbeats of {connector.flow} always run: set {connector.flow}.emit.heartbeats.enabled = false"
        right = f"{right} in {view.config_path}, then: raymirror reload"
    else:
        right = f"Groups of {connector.flow} are mirrored until the flow is stopped: ask for connector {source}"
    raise HttpRefusal(501, f"{connector.name} has no state of its own. {right}")


def restart(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Restart a connector, and its tasks if the query says so (KIP-745).

    Without tasks, what has stopped on an error is tried again. With them, copiers are replaced one by one.
    """
    connector = view.connector(call, UNKNOWN_TO_RESTART)
    with_tasks, only_failed = call.flag("includeTasks"), call.flag("onlyFailed")
    if not with_tasks and not only_failed:
        return HttpAnswer(status=204, deeds=_retry(view, connector))
    tasks = tasks_of(view, connector) if with_tasks else ()
    chosen = [task for task in tasks if task.state == FAILED or not only_failed]
    deeds: tuple[Deed, ...] = ()
    if chosen and connector.kind is ConnectorKind.SOURCE:
        copiers = tuple(task.copier_id for task in chosen if task.copier_id)
        deeds = (RestartCopiers(connector.flow, copiers) if only_failed else RestartFlow(connector.flow),)
    after = status_of(view, connector, [task.id for task in chosen], restarts=not only_failed)
    return HttpAnswer(status=202, body=after, deeds=deeds)


def _retry(view: MirrorView, connector: MirrorConnector) -> tuple[Deed, ...]:
    """Return what makes a running flow try again what has stopped; a paused or stopped flow stays as it is."""
    flow = view.flow(connector)
    is_running = flow is not None and flow.desired is Desired.RUNNING
    return (
        (GiveCommand(Command.RESUME, connector.flow),) if is_running and connector.kind is ConnectorKind.SOURCE else ()
    )


def restart_task(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Replace one copier; the task of partitions in quarantine tries them again."""
    number, name = number_of(call), call.path["connector"]
    connector = view.connector(call, UNKNOWN_TO_RESTART)
    found = [task for task in tasks_of(view, connector) if task.id == number]
    if not found:
        raise HttpRefusal(404, f"Unknown task: {name}-{number}")
    deeds: tuple[Deed, ...] = ()
    if connector.kind is ConnectorKind.SOURCE:
        deeds = (RestartCopiers(connector.flow, tuple(filter(None, [found[0].copier_id]))),)
    return HttpAnswer(status=204, deeds=deeds)


def reset_topics(_call: HttpCall, _view: MirrorView) -> HttpAnswer:
    """Refuse: raymirror does not collect the topics, it knows them (Connect: topic.tracking.allow.reset=false)."""
    raise HttpRefusal(403, "Topic tracking reset is disabled.")
