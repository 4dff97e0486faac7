"""The parts of a supervisor's process: creates them at its start, reloads them, and ends them with it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.config.difference import ConfigDifference
from actors.config.effective import spark_part
from actors.control.ports import Ports
from actors.control.supervisor import Supervisor
from actors.forwarding.forwarders import RayForwarders
from actors.http.service import HttpService, NoConsole
from actors.local_socket.server import LocalServer
from actors.model.messages import ConsoleDoor, MirrorSpec
from actors.model.needs import needs_of
from actors.model.status import MirrorStatus
from actors.ray.fleet import RayFleet, list_nodes
from actors.ray.ray_metadata import RayMetadata
from actors.ray.reload import flow_plans, reloaded
from actors.spark.hosts import RayHosts
from actors.spark.service import SparkService
from actors.spark.standing_jobs import plans_rounds, standing_jobs
from actors.telemetry.telemetry import Telemetry
from engine.base import clock
from engine.config.settings import MirrorConfig
from policies.roles import Role

SPARK_END_S = 5.0
"""Seconds that Spark may take to end in order; then it is killed, and nothing is lost."""


class MirrorParts:
    """The supervisor of a mirror and its ports; `changed` is set when a step is due at once."""

    def __init__(
        self, spec: MirrorSpec, config: MirrorConfig, group: asyncio.TaskGroup, changed: asyncio.Event
    ) -> None:
        self.config = config
        self._group, self._tasks = group, dict[str, asyncio.Task[None]]()
        self._works = set[asyncio.Task[None]]()
        """Work that callers have begun and that outlives them."""
        flows = tuple(flow.name for flow in config.flows)
        self.metadata = RayMetadata(spec, flows, changed)
        self.fleet = RayFleet(spec, needs_of(config), group, changed)
        self.telemetry = Telemetry(mirror=spec.namespace, version=spec.version)
        self.spark = self._open_spark(spec)
        ports = Ports(self.fleet, self.metadata, self.spark, self.telemetry, clock)
        self.supervisor = Supervisor(spec, flow_plans(spec, config), ports)
        self.local: LocalServer | None = None
        self._http: HttpService | None = None
        self._forwarders = RayForwarders(spec, config.http, list_nodes)
        self.begin("metadata", self.metadata.run())
        self.begin("fleet", self.fleet.run())
        self._open_telemetry()

    def begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in parallel with the supervisor's steps until the process ends or the work is replaced."""
        self._tasks[name] = self._group.create_task(work)

    async def finish(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do some work to its end, also if the caller is cancelled; what it raises goes to the caller.

        It is cancelled only if this process ends.
        """
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                await begin()
            except Exception as failure:  # noqa: BLE001 - it is the caller's; here it would end the mirror
                ended.set_exception(failure)
            else:
                ended.set_result(None)

        task = self._group.create_task(work())
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        task.add_done_callback(lambda _: ended.cancel())  # no change if it has ended by itself
        await asyncio.shield(ended)

    def serve(self, server: LocalServer) -> None:
        """Answer commands of this machine at a socket."""
        self.local = server
        self.begin("socket", server.run())

    def serve_http(self, spec: MirrorSpec, supervisor: Any) -> None:
        """Serve HTTP as configured; `supervisor` has the methods that requests name."""
        self._http = HttpService(supervisor)
        self._http.open(spec, self.config, self.telemetry.pages)
        self.begin("http", self._http.run())
        self.begin("forwarders", self._forwarders.run())

    def console(self, user: str, role: Role) -> ConsoleDoor:
        """Return where the console is, with a one-time token. Raises NoConsole."""
        if self._http is None:
            raise NoConsole(self.config.http.file)
        return self._http.console(user, role)

    def note(self, status: MirrorStatus) -> None:
        """Have HTTP keep a status that was asked for, as a point of its series."""
        if self._http is not None:
            self._http.note(status)

    def _open_spark(self, spec: MirrorSpec) -> SparkService:
        config = self.config
        proven = [flow.name for flow in config.flows if config.proof.on]
        spark = SparkService(
            RayHosts(spec, config),
            clock,
            on=config.spark.on,
            namespace=spec.namespace,
            proven=proven,
            stays=plans_rounds(config),
        )
        for job in standing_jobs(config):
            spark.submit_standing(job.name, job.job, job.options)
        self.begin("spark", spark.run())
        return spark

    def _open_telemetry(self) -> None:
        self.telemetry.open(self.config.telemetry, self.supervisor)
        self.begin("telemetry", self.telemetry.run())

    async def _end(self, name: str) -> None:
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.wait([task])

    async def reload(self, spec: MirrorSpec, config: MirrorConfig, found: ConfigDifference) -> None:
        """Apply another configuration to every part."""
        before, self.config = self.config, config
        names = tuple(flow.name for flow in config.flows)
        self.fleet.reload(spec, needs_of(config))
        self.metadata.reload(spec, names)
        known = [*names, *(flow.name for flow in before.flows)]
        events = reloaded(found, spec.config.path, known)
        self.supervisor.reconfigure(spec, flow_plans(spec, config), events)
        if spark_part(before) != spark_part(config):
            await self.spark.close(SPARK_END_S)
            await self._end("spark")
            self.spark = self._open_spark(spec)
            self.supervisor.replace_spark(self.spark)
        if before.telemetry != config.telemetry:
            await self._end("telemetry")  # its port is free for the next one
            self._open_telemetry()
        if self._http is not None and self._http.open(spec, config, self.telemetry.pages):
            await self._end("http")
            self.begin("http", self._http.run())
        if self._forwarders.reload(spec, config.http):
            await self._end("forwarders")
            self.begin("forwarders", self._forwarders.run())

    async def settle(self) -> None:
        """Write what is still unwritten, and stop Spark and forwarders: the mirror has ended."""
        await self._end("forwarders")
        self._forwarders.end()
        await self.metadata.settle()
        await self.spark.close(SPARK_END_S)

    def leave(self) -> None:
        """End the tasks of this process; living actors continue."""
        for task in (*self._tasks.values(), *self._works):
            task.cancel()
        if self.local is not None:
            self.local.close()  # a cancelled task that had not started yet closes nothing
        self.fleet.leave()

    def close(self) -> None:
        """Send the remaining spans, for a bounded time: last, because a silent collector holds up this process."""
        self.telemetry.close()
