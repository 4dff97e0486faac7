"""The HTTP server as a part of the supervisor's process: opened with a configuration, opened again after a reload.

service = HttpService(supervisor)
service.open(spec, config, pages)
group.create_task(service.run())  # until cancelled
if service.open(spec, other, pages):
    ...                           # its own settings have changed: end the task, and run it again
"""

import asyncio
import socket
from typing import Any

import msgspec
import ray

from actors.api.entities import ClusterSummary
from actors.api.series import EVERY_MS, SeriesRing
from actors.api.view import ApiFacts, CommandPlace
from actors.console.sessions import SessionBook
from actors.http.views import MirrorFacts, SupervisorViews, TelemetryPages
from actors.model.messages import ConsoleDoor, MirrorSpec
from actors.model.status import MirrorStatus
from actors.rest.connectors import connectors_of
from engine.base.clock import beat_s, pause, wall_ms
from engine.base.errors import MirrorError
from engine.config.http.http_config import PORT
from engine.config.settings import NODE_ADDRESS, HttpConfig, MirrorConfig
from policies.roles import Role


class NoConsole(MirrorError):
    """The mirror has no HTTP server."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.file = file

    def __str__(self) -> str:
        where = self.file or "its file"
        return f"this mirror has no HTTP server, so no console: set {PORT} = 8083 in {where}, then: raymirror reload"


class HttpService:
    """Serves HTTP as configured; without a port it costs nothing. `supervisor` has the methods that requests name."""

    def __init__(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        self._config = HttpConfig()
        self._views: SupervisorViews | None = None
        self._sessions = SessionBook()
        self._ring = SeriesRing()

    def open(self, spec: MirrorSpec, config: MirrorConfig, pages: TelemetryPages) -> bool:
        """Serve as a configuration says from now on; return whether `run` must begin again for it."""
        before, self._config = self._config, config.http
        if config.http.port:
            facts = _facts(spec, config)
            if self._views is None:
                self._views = SupervisorViews(self._supervisor, pages, facts, self._ring)
            else:
                self._views.reload(pages, facts)
        return before.meaning != config.http.meaning

    async def run(self) -> None:
        """Serve until cancelled; return at once if no port is configured."""
        if self._config.port and self._views is not None:
            from actors.http.server import MirrorServer  # imports aiohttp only if a port is configured

            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(MirrorServer(_at_node(self._config), self._views, self._sessions).run())
                    group.create_task(self._fill())
            finally:
                self._views.close()

    def note(self, status: MirrorStatus) -> None:
        """Keep a status that somebody has asked for as a point of the series, if one is due."""
        if self._config.port:
            self._ring.note(status)

    async def _fill(self) -> None:
        """Ask for a status when nobody else has for a while: the process that follows a mirror asks once a second."""
        while True:
            await pause(beat_s(EVERY_MS / 1000))
            if self._ring.is_due(wall_ms()):
                await self._supervisor.status()

    def console(self, user: str, role: Role) -> ConsoleDoor:
        """Return where the console is, with a one-time token for a user of this role. Raises NoConsole."""
        config = _at_node(self._config)
        if not config.port:
            raise NoConsole(config.file)
        return ConsoleDoor(
            scheme="https" if config.certificate else "http",
            bind=config.bind,
            port=config.port,
            host=socket.gethostname(),
            token=self._sessions.make_token(user, role) if config.users else "",
        )


def _at_node(config: HttpConfig) -> HttpConfig:
    """Return the configuration with the address of this node, where it is what `bind` means."""
    if config.bind != NODE_ADDRESS:
        return config
    util: Any = ray.util  # without types
    return msgspec.structs.replace(config, bind=str(util.get_node_ip_address()))


def _facts(spec: MirrorSpec, config: MirrorConfig) -> MirrorFacts:
    return MirrorFacts(
        api=msgspec.structs.replace(api_facts(config), place=_place(spec)),
        connectors=connectors_of(config, spec.config.kept),
        version=spec.version,
        config_path=spec.config.path,
        host=f"{socket.gethostname()}:{config.http.port}",
        node=ray.get_runtime_context().get_node_id() if ray.is_initialized() else "",
    )


def _place(spec: MirrorSpec) -> CommandPlace:
    address = str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else ""
    return CommandPlace(mirror=spec.namespace, address=address)


def api_facts(config: MirrorConfig) -> ApiFacts:
    """Return what `/api/v1` shows of a configuration."""
    flows = [flow.name for flow in config.flows]
    return ApiFacts(
        clusters=tuple(
            ClusterSummary(
                name=alias,
                id="",
                bootstrap=tuple(f"{host}:{port}" for host, port in cluster.bootstrap),
                source_of=tuple(str(name) for name in flows if name.source == alias),
                target_of=tuple(str(name) for name in flows if name.target == alias),
            )
            for alias, cluster in config.clusters.items()
        ),
        storage=config.storage.uri if config.storage is not None else "",
        objectives_s={str(flow.name): flow.rpo_s for flow in config.flows if flow.rpo_s > 0},
    )
