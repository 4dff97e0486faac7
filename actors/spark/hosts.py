"""Hosts on Ray: where they may be, started, asked within bounds, killed."""

from typing import Any

import msgspec
import ray
from ray.exceptions import RayTaskError

from actors.calls import actor_class, bounded, find_actor, names_in
from actors.events import unpack
from actors.messages import MirrorSpec
from actors.ports import CopierUnreachable
from actors.spark.host import SparkHostShell
from actors.spark.java import JAVA_RESOURCE
from actors.spark.keeper import Host, HostGone, HostSilent, JobRefused
from actors.spark.status import HostSpec, HostStatus
from engine.core.event_base import Event
from engine.settings import MirrorConfig

SPARK = "spark"
HEAD = "node:__internal_head__"
SHARE = 0.001
CALL_S = 10.0
CLOSE_S = 20.0
_GONE = ("ActorDiedError", "it could not start")


class RayHost:
    """A Host over an actor handle."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def status(self) -> HostStatus:
        """Ask how it is."""
        return msgspec.msgpack.decode(await self._call("status"), type=HostStatus)

    async def submit(self, job_id: str, job: str, terms: bytes) -> None:
        """Give it a job."""
        try:
            await self._call("submit", job_id, job, terms)
        except HostGone as gone:
            if isinstance(gone.__cause__, RayTaskError):
                raise JobRefused(str(gone)) from None
            raise

    async def cancel(self, job_id: str) -> None:
        """Have it end a job."""
        await self._call("cancel", job_id)

    async def report(self, job_id: str) -> bytes | None:
        """Fetch a report."""
        found: bytes | None = await self._call("report", job_id)
        return found

    async def events(self, after: int) -> tuple[int, tuple[Event, ...]]:
        """Fetch what its jobs told."""
        count, packed = await self._call("events", after)
        return count, unpack(packed)

    async def close(self) -> None:
        """Have it stop Spark."""
        await self._call("close", timeout_s=CLOSE_S)

    def kill(self) -> None:
        """End its process; its JVMs end with it."""
        ray.kill(self._handle)

    async def _call(self, name: str, *words: Any, timeout_s: float = CALL_S) -> Any:
        """Call it. Raises HostGone, which names the host's own error as its cause, and HostSilent."""
        try:
            return await bounded(SPARK, name, getattr(self._handle, name).remote(*words), timeout_s)
        except CopierUnreachable as unreachable:
            if isinstance(unreachable.__cause__, RayTaskError):
                raise HostGone(unreachable.cause) from unreachable.__cause__
            if unreachable.cause.startswith(_GONE):
                raise HostGone(f"the Spark host ended ({unreachable.cause})") from unreachable
            raise HostSilent(f"the Spark host does not answer ({unreachable.cause})") from unreachable


class RayHosts:
    """Starts hosts in a mirror's namespace. A storage that only one machine sees keeps Spark on the head node."""

    def __init__(self, spec: MirrorSpec, config: MirrorConfig) -> None:
        self._spec, self._cores = spec, config.spark.cores
        self._head_only = config.storage is not None and config.storage.is_local and not config.spark.shared

    def clear(self) -> None:
        """Kill hosts that are left in the namespace."""
        for name in names_in(self._spec.namespace):
            handle = find_actor(name, self._spec.namespace) if name.startswith(f"{SPARK}/") else None
            if handle is not None:
                ray.kill(handle)

    def refusal(self) -> str:
        """Say why there is no place for a host."""
        return refusal_of(_nodes(), head_only=self._head_only, cores=self._cores)

    def start(self, name: str) -> Host:
        """Start one, on the head node where that has Java."""
        nodes = _nodes()
        one_node = self._head_only and len(with_java(nodes)) > 1
        spec = HostSpec(config=self._spec.config, namespace=self._spec.namespace, name=name, one_node=one_node)
        head = {HEAD: SHARE} if any(HEAD in node for node in with_java(nodes)) else {}
        handle = (
            actor_class(SparkHostShell)
            .options(
                name=f"{SPARK}/{name}",
                namespace=self._spec.namespace,
                lifetime="detached",
                num_cpus=0,
                resources={JAVA_RESOURCE: SHARE, **head},
                max_restarts=0,
                max_task_retries=0,
            )
            .remote(msgspec.msgpack.encode(spec))
        )
        return RayHost(handle)


def _nodes() -> list[dict[str, Any]]:
    untyped: Any = ray
    found: list[dict[str, Any]] = untyped.nodes()
    return found


def with_java(nodes: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Give the resources of the living nodes that have Java, out of what `ray.nodes()` tells."""
    living = [node["Resources"] for node in nodes if node["Alive"]]
    return [resources for resources in living if JAVA_RESOURCE in resources]


def refusal_of(nodes: list[dict[str, Any]], *, head_only: bool, cores: int = 1) -> str:
    """Say why Spark has no place on these nodes; empty if it has one. `cores`: of one executor."""
    right = "start nodes with deploy/ray/start-node.sh, and Java 17 to 21 on them"
    having = with_java(nodes)
    if not having:
        return f"no node of the Ray cluster was started with Java (resource {JAVA_RESOURCE}); {right}"
    head: dict[str, float] = next((resources for resources in having if HEAD in resources), {})
    if not head_only or head.get("CPU", 0) >= cores:
        return ""
    lacks = f"has {head.get('CPU', 0):g} CPUs, and an executor takes {cores}" if head else "was started without Java"
    return (
        "raymirror.storage is a folder that only one machine sees, so Spark runs on the head node, which"
        f" {lacks}; set raymirror.storage.shared = true where all nodes see the folder, or use s3a: or gs:"
    )
