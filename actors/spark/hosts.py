"""Starts, calls and kills Spark hosts on Ray: chooses their node, and bounds every call in time."""

from typing import Any

import msgspec
import ray
from ray.exceptions import RayTaskError

from actors.calls import actor_class, bounded, found_actors, start_detached
from actors.control.ports import ActorUnreachable
from actors.model.events import unpack
from actors.model.messages import MirrorSpec
from actors.model.spark_status import HostSpec, HostStatus
from actors.spark.host import SparkHostActor
from actors.spark.java import JAVA_RESOURCE
from actors.spark.places import HEAD, ray_nodes, refusal_of, with_java
from actors.spark.service import Host, HostGone, HostSilent, JobRefused
from engine.config.settings import MirrorConfig
from engine.core.events.event_base import Event

SPARK = "spark"
SHARE = 0.001
CALL_S = 10.0
CLOSE_S = 20.0
_GONE = ("ActorDiedError", "it could not start")


class RayHost:
    """A Host over an actor handle."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def status(self) -> HostStatus:
        return msgspec.msgpack.decode(await self._call("status"), type=HostStatus)

    async def submit(self, job_id: str, job: str, options: bytes) -> None:
        try:
            await self._call("submit", job_id, job, options)
        except HostGone as gone:
            if isinstance(gone.__cause__, RayTaskError):
                raise JobRefused(str(gone)) from None
            raise

    async def cancel(self, job_id: str) -> None:
        await self._call("cancel", job_id)

    async def wake(self, job_id: str) -> None:
        await self._call("wake", job_id)

    async def report(self, job_id: str) -> bytes | None:
        found: bytes | None = await self._call("report", job_id)
        return found

    async def events(self, after: int) -> tuple[int, tuple[Event, ...]]:
        count, packed = await self._call("events", after)
        return count, unpack(packed)

    async def close(self) -> None:
        await self._call("close", timeout_s=CLOSE_S)

    def kill(self) -> None:
        """Kill the host's process; its JVMs end with it."""
        ray.kill(self._handle)

    async def _call(self, name: str, *words: Any, timeout_s: float = CALL_S) -> Any:
        """Call a method of the host. Raises HostSilent, and HostGone, whose cause is the host's own error, if any."""
        try:
            return await bounded(SPARK, name, getattr(self._handle, name).remote(*words), timeout_s)
        except ActorUnreachable as unreachable:
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
        for name, handle in found_actors(self._spec.namespace):
            if name.startswith(f"{SPARK}/"):
                ray.kill(handle)

    def refusal(self) -> str:
        return refusal_of(ray_nodes(), head_only=self._head_only, cores=self._cores)

    def start(self, name: str) -> Host:
        """Start a host, on the head node if that has Java."""
        spec = HostSpec(config=self._spec.config, namespace=self._spec.namespace, name=name, one_node=self._head_only)
        head = {HEAD: SHARE} if any(HEAD in node for node in with_java(ray_nodes())) else {}
        handle = start_detached(
            actor_class(SparkHostActor),
            spec,
            name=f"{SPARK}/{name}",
            namespace=self._spec.namespace,
            resources={JAVA_RESOURCE: SHARE, **head},
        )
        return RayHost(handle)
