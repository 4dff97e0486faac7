"""The fleet on Ray: the only file that starts and kills actors.

Every actor is detached and named, in the mirror's namespace. A copier has max_restarts=0: Ray needs 1.5 s to restart
one, while a parked call tells its death in 20 ms, and a copier that comes back must come back under a new epoch. The
parked call (`wait_closed`) is also what shows an error of the engine.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError, RayTaskError

from actors.copier import CopierShell
from actors.messages import CopierSpec, MirrorSpec
from actors.metadata import MetadataShell
from actors.ports import CopierPort, CopierUnreachable, Found, Vital
from engine.core.progress import FlowProgress
from policies.model import FlowName, PartitionSet

CALL_TIMEOUT_S = 5.0
UNKNOWN_PAUSE_S = 1.0  # between two looks at an actor that Ray says is unavailable: unknown, not dead
METADATA_RESTART_S = 30.0  # a metadata actor older than this that fails a call is replaced
SUPERVISOR = "supervisor"
HEAD = {"node:__internal_head__": 0.001}


def start_supervisor(shell: type, spec: MirrorSpec) -> Any:
    """Start, or get, the one supervisor of a namespace; the head node runs it."""
    remote = _actor_class(shell)
    return remote.options(
        name=SUPERVISOR,
        namespace=spec.namespace,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        resources=HEAD,
        max_restarts=-1,
        max_task_retries=0,
    ).remote(msgspec.msgpack.encode(spec))


def _actor_class(shell: type, **options: Any) -> Any:
    decorate: Any = ray.remote  # its overloads do not know concurrency groups
    return decorate(**options)(shell) if options else decorate(shell)


def explain(error: RayError) -> str:
    """Say in one line what an actor died of."""
    if isinstance(error, RayTaskError):
        cause = error.cause
        return str(cause) if type(cause).__module__.startswith("engine") else f"{type(cause).__name__}: {cause}"
    return f"{type(error).__name__}: its process ended"


class RayCopier:
    """A CopierPort over an actor handle."""

    def __init__(self, handle: Any, flow: FlowName, copier_id: str, changed: asyncio.Event) -> None:
        self.flow, self.copier_id = flow, copier_id
        self._handle, self._changed = handle, changed
        self._vital = Vital(state="starting")

    @property
    def handle(self) -> Any:
        """The actor handle, for the fleet."""
        return self._handle

    def vital(self) -> Vital:
        """Say whether it lives, from the parked call."""
        return self._vital

    async def park(self) -> None:
        """Wait for the actor's first answer, then for its end. Returns when it has ended."""
        while self._vital.state in ("starting", "ready"):
            try:
                await self._handle.hello.remote()
                self._vital = Vital(state="ready")
                self._changed.set()
                last = await self._handle.wait_closed.remote()
                self._vital = Vital(state="closed", last=msgspec.msgpack.decode(last, type=FlowProgress))
            except ActorUnavailableError:
                await asyncio.sleep(UNKNOWN_PAUSE_S)
            except RayError as error:
                self._vital = Vital(state="dead", cause=explain(error))
            self._changed.set()

    async def assign(self, partition_set: PartitionSet) -> None:
        """Hand a partition set over."""
        await self._call("assign", self._handle.assign.remote(msgspec.msgpack.encode(partition_set)))

    async def pause(self, topics: frozenset[str] | None) -> None:
        """Stop fetching."""
        await self._call("pause", self._handle.pause.remote(None if topics is None else tuple(topics)))

    async def resume(self, topics: frozenset[str] | None) -> None:
        """Fetch again."""
        await self._call("resume", self._handle.resume.remote(None if topics is None else tuple(topics)))

    async def progress(self) -> FlowProgress:
        """Give the latest snapshot."""
        data = await self._call("progress", self._handle.progress.remote())
        return msgspec.msgpack.decode(data, type=FlowProgress)

    async def drain(self) -> None:
        """Ask for the end."""
        await self._call("drain", self._handle.drain.remote())

    async def _call(self, name: str, ref: Awaitable[Any]) -> Any:
        return await bounded(self.copier_id, name, ref)


async def bounded(actor: str, name: str, ref: Awaitable[Any]) -> Any:
    """Await an actor call for a bounded time. Raises CopierUnreachable."""
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await ref
    except (TimeoutError, GetTimeoutError):
        raise CopierUnreachable(actor, name, f"no answer in {CALL_TIMEOUT_S:.0f} s") from None
    except RayError as error:
        raise CopierUnreachable(actor, name, explain(error)) from error


class RayFleet:
    """Copiers and the metadata actor of one mirror. Runs inside the supervisor actor, on its loop.

    `changed` is set when a copier has answered for the first time or has ended: then the next step is due at once.
    """

    def __init__(self, spec: MirrorSpec, group: asyncio.TaskGroup, changed: asyncio.Event) -> None:
        self._spec = spec
        self._group, self._changed = group, changed
        self._metadata: Any = None
        self._metadata_started_at = 0.0
        self._metadata_answered = False

    def end_leftovers(self) -> int:
        """Kill what an earlier supervisor of this namespace left behind; say how many."""
        ended = 0
        for actor in ray.util.list_named_actors(all_namespaces=True):
            if actor["namespace"] == self._spec.namespace and actor["name"] != SUPERVISOR:
                ray.kill(ray.get_actor(actor["name"], namespace=self._spec.namespace))
                ended += 1
        return ended

    def start_copier(self, flow: FlowName, copier_id: str) -> CopierPort:
        """Begin starting a copier actor on one CPU."""
        spec = CopierSpec(
            config=self._spec.config, flow=flow, copier_id=copier_id, deployment_id=self._spec.deployment_id
        )
        remote = _actor_class(CopierShell, concurrency_groups={"control": 4})
        handle = remote.options(
            name=copier_id,
            namespace=self._spec.namespace,
            lifetime="detached",
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
        ).remote(msgspec.msgpack.encode(spec))
        copier = RayCopier(handle, flow, copier_id, self._changed)
        self._group.create_task(copier.park())
        return copier

    async def retire(self, copier: CopierPort) -> None:
        """Kill the actor; killing a dead one is harmless."""
        if isinstance(copier, RayCopier):
            ray.kill(copier.handle)

    async def found(self, flow: FlowName) -> Found:
        """Ask the metadata actor; start it, or start it again when it has died. Raises CopierUnreachable."""
        if self._metadata is None:
            self._start_metadata()
        try:
            data = await bounded("metadata", "found", self._metadata.found.remote(flow.source, flow.target))
        except CopierUnreachable:
            age_s = asyncio.get_running_loop().time() - self._metadata_started_at
            if age_s > METADATA_RESTART_S:
                self.end_metadata()
            elif not self._metadata_answered:
                return Found(serial=0)  # a process takes its time to start
            raise
        self._metadata_answered = True
        return msgspec.msgpack.decode(data, type=Found)

    def end_metadata(self) -> None:
        """Kill the metadata actor; it holds nothing."""
        if self._metadata is not None:
            ray.kill(self._metadata)
            self._metadata = None

    def _start_metadata(self) -> None:
        self._metadata_started_at = asyncio.get_running_loop().time()
        self._metadata_answered = False
        remote = _actor_class(MetadataShell)
        self._metadata = remote.options(
            name=f"metadata-{self._metadata_started_at:.3f}",  # a killed actor's name is freed a moment later
            namespace=self._spec.namespace,
            lifetime="detached",
            num_cpus=0,
            resources=HEAD,
            max_restarts=0,
            max_task_retries=0,
        ).remote(msgspec.msgpack.encode(self._spec))
