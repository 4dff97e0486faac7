"""The table of Connect's routes, and of metrics and probes; `actors/http/table.py` joins all tables."""

from typing import Any, Final

from actors.rest import configuring, loggers, offsets, plugins, probes, reading, steering
from actors.rest.configuring import Settings
from actors.rest.entities import (
    ActiveTopics,
    ConnectorExpansion,
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatus,
    JudgedConfig,
    KeyDefinition,
    LoggerLevel,
    NewConnector,
    PluginInfo,
    Said,
    TaskInfo,
    TaskState,
    WorkerHealth,
    WorkerInfo,
)
from actors.rest.probes import TEXT
from actors.rest.routes import HttpHandler, HttpRoute
from actors.rest.target import QueryParameter
from actors.rest.view import Need
from actors.telemetry.prometheus import CONTENT_TYPE
from policies.roles import Role

_ONE: Final = "/connectors/{connector}"
_TASK: Final = f"{_ONE}/tasks/{{task}}"
_PLUGIN: Final = "/connector-plugins/{plugin}/config"
_LOGGER: Final = "/admin/loggers/{logger}"


def _query(**meanings: str) -> tuple[QueryParameter, ...]:
    """Return parameters that take any text: Connect ignores a value that it does not know, so it is not refused."""
    return tuple(QueryParameter(name=name, meaning=meaning) for name, meaning in meanings.items())


def _get(template: str, summary: str, handler: HttpHandler, gives: Any, **more: Any) -> HttpRoute:
    return HttpRoute(method="GET", template=template, summary=summary, handler=handler, gives={200: gives}, **more)


def _change(method: str, template: str, summary: str, handler: HttpHandler, **more: Any) -> HttpRoute:
    usual = {"role": Role.OPERATE, "need": Need.TASKS}
    return HttpRoute(method=method, template=template, summary=summary, handler=handler, **usual | more)


_TASKS: Final = {"need": Need.TASKS}
_OWN: Final = {"tag": "raymirror"}

CONNECT_ROUTES: Final[tuple[HttpRoute, ...]] = (
    _get("/", "Who answers", reading.root, WorkerInfo, need=Need.HEALTH),
    _get("/health", "Whether the mirror works (KIP-1017)", reading.health, WorkerHealth, role=None, need=Need.HEALTH),
    _get(
        "/connectors",
        "The connectors: each flow as up to three of MM2's classes",
        reading.list_connectors,
        tuple[str, ...] | dict[str, ConnectorExpansion],
        query=_query(expand="`info`, `status`, or both (given twice): return that about each connector"),
        **_TASKS,
    ),
    _change(
        "POST",
        "/connectors",
        "Create a connector: a new flow, or one that was deleted",
        configuring.create,
        role=Role.ADMIN,
        takes=NewConnector,
        gives={201: ConnectorInfo},
    ),
    _get(_ONE, "A connector with its settings and tasks", reading.info, ConnectorInfo, **_TASKS),
    _change(
        "DELETE", _ONE, "Delete a connector: stop its flow", configuring.delete, role=Role.ADMIN, gives={204: None}
    ),
    _get(f"{_ONE}/config", "Its settings, without passwords", reading.config, dict[str, str], need=Need.STATUS),
    _change(
        "PUT",
        f"{_ONE}/config",
        "Replace its settings, in the mirror's file too",
        configuring.put_config,
        role=Role.ADMIN,
        takes=Settings,
        gives={200: ConnectorInfo, 201: ConnectorInfo},
    ),
    _change(
        "PATCH",
        f"{_ONE}/config",
        "Change some settings (KIP-477), in the mirror's file too",
        configuring.patch_config,
        role=Role.ADMIN,
        takes=Settings,
        gives={200: ConnectorInfo},
    ),
    _get(f"{_ONE}/status", "Its state and that of its tasks", reading.status, ConnectorStatus, **_TASKS),
    _get(f"{_ONE}/tasks", "Its tasks with their settings", reading.tasks, tuple[TaskInfo, ...], need=Need.LANES),
    _get(f"{_TASK}/status", "The state of a task", reading.task_status, TaskState, **_TASKS),
    _change("POST", f"{_TASK}/restart", "Restart a task", steering.restart_task, gives={204: None}),
    _change(
        "POST",
        f"{_ONE}/restart",
        "Restart a connector (KIP-745)",
        steering.restart,
        gives={202: ConnectorStatus, 204: None},
        query=_query(
            includeTasks="`true`: replace the copiers of the flow too",
            onlyFailed="`true`: only what has stopped on an error",
        ),
    ),
    _change("PUT", f"{_ONE}/pause", "Pause copying", steering.pause, need=Need.STATUS, gives={202: None}),
    _change("PUT", f"{_ONE}/resume", "Copy again", steering.resume, need=Need.STATUS, gives={202: None}),
    _change("PUT", f"{_ONE}/stop", "Stop the flow (KIP-875)", steering.stop, need=Need.STATUS, gives={204: None}),
    _get(f"{_ONE}/topics", "The topics that it writes", reading.topics, dict[str, ActiveTopics], need=Need.LANES),
    _change("PUT", f"{_ONE}/topics/reset", "Forget these topics", steering.reset_topics, need=Need.NOTHING, gives={}),
    _get(f"{_ONE}/offsets", "How far it has copied", offsets.offsets, ConnectorOffsets, need=Need.POSITIONS),
    _change(
        "PATCH",
        f"{_ONE}/offsets",
        "Set offsets of a stopped flow (KIP-875)",
        offsets.alter_offsets,
        role=Role.ADMIN,
        takes=dict[str, Any],
        gives={200: Said},
    ),
    _change(
        "DELETE",
        f"{_ONE}/offsets",
        "Remove the offsets of a stopped flow (KIP-875)",
        offsets.reset_offsets,
        role=Role.ADMIN,
        gives={200: Said},
    ),
    _get(
        "/connector-plugins",
        "The classes of connectors",
        plugins.list_plugins,
        tuple[PluginInfo, ...],
        query=_query(connectorsOnly="has no effect: there are connectors only"),
    ),
    _get(_PLUGIN, "The settings of a class", plugins.definitions, tuple[KeyDefinition, ...]),
    _change(
        "PUT",
        f"{_PLUGIN}/validate",
        "Check settings of a class; changes nothing",
        plugins.validate,
        role=Role.VIEW,
        need=Need.NOTHING,
        takes=Settings,
        gives={200: JudgedConfig},
    ),
    _get("/admin/loggers", "The levels of the supervisor's log", loggers.list_loggers, dict[str, LoggerLevel]),
    _get(_LOGGER, "The level of a logger", loggers.logger, LoggerLevel),
    _change(
        "PUT",
        _LOGGER,
        "Set the level of a logger in the supervisor's process",
        loggers.set_level,
        role=Role.ADMIN,
        need=Need.NOTHING,
        takes=dict[str, str | None],
        gives={200: tuple[str, ...]},
        query=_query(scope="`worker`; `cluster` is refused"),
    ),
    _get(
        "/metrics",
        "Metrics, as Prometheus reads them",
        probes.metrics,
        str,
        need=Need.METRICS,
        content_type=CONTENT_TYPE,
        **_OWN,
    ),
    _get("/healthz", "Whether the mirror is alive", probes.healthz, str, role=None, content_type=TEXT, **_OWN),
    _get(
        "/readyz",
        "Whether the mirror does its work",
        probes.readyz,
        str,
        role=None,
        need=Need.READINESS,
        content_type=TEXT,
        **_OWN,
    ),
)
