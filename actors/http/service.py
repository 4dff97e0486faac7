"""The HTTP server as a part of the supervisor's process: opened with a configuration, opened again after a reload.

service = HttpService(supervisor)
service.open(spec, config, pages)
group.create_task(service.run())  # until cancelled
if service.open(spec, other, pages):
    ...                           # its own settings have changed: end the task, and run it again
"""

import socket
from typing import Any

import msgspec
import ray

from actors.http.views import MirrorFacts, SupervisorViews, TelemetryPages
from actors.model.messages import MirrorSpec
from actors.rest.connectors import connectors_of
from engine.config.settings import NODE_ADDRESS, HttpConfig, MirrorConfig


class HttpService:
    """Serves HTTP as configured; without a port it costs nothing. `supervisor` has the methods that requests name."""

    def __init__(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        self._config = HttpConfig()
        self._views: SupervisorViews | None = None

    def open(self, spec: MirrorSpec, config: MirrorConfig, pages: TelemetryPages) -> bool:
        """Serve as a configuration says from now on; return whether `run` must begin again for it."""
        before, self._config = self._config, config.http
        if config.http.port:
            facts = _facts(spec, config)
            if self._views is None:
                self._views = SupervisorViews(self._supervisor, pages, facts)
            else:
                self._views.reload(pages, facts)
        return before.meaning != config.http.meaning

    async def run(self) -> None:
        """Serve until cancelled; return at once if no port is configured."""
        if self._config.port and self._views is not None:
            from actors.http.server import MirrorServer  # imports aiohttp only if a port is configured

            await MirrorServer(_at_node(self._config), self._views).run()


def _at_node(config: HttpConfig) -> HttpConfig:
    """Return the configuration with the address of this node, where it is what `bind` means."""
    if config.bind != NODE_ADDRESS:
        return config
    util: Any = ray.util  # without types
    return msgspec.structs.replace(config, bind=str(util.get_node_ip_address()))


def _facts(spec: MirrorSpec, config: MirrorConfig) -> MirrorFacts:
    return MirrorFacts(
        connectors=connectors_of(config, spec.config.kept),
        version=spec.version,
        config_path=spec.config.path,
        host=f"{socket.gethostname()}:{config.http.port}",
        node=ray.get_runtime_context().get_node_id() if ray.is_initialized() else "",
    )
