"""The copier actor: a thin shell around `engine.runner.Copier`.

Two event loops in one process: the data loop runs the engine; the `control` loop answers `progress` while the data
loop is busy. Nothing of the engine is touched from the control loop. The data loop leaves a frozen snapshot in
`_latest` and events in `_events`; both are swapped by single, atomic operations.

A task error in an actor is silent unless somebody looks, so the supervisor keeps one call to `wait_closed` parked: it
returns after a drain, raises what the engine raised, and fails with ActorDiedError when the process dies.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec
import ray

from actors.messages import CopierSpec
from engine.core.events import AnyEvent
from engine.core.progress import FlowProgress
from policies.model import FlowName, PartitionSet

SAMPLE_S = 0.5
EVENTS_KEPT = 1000  # of one copier, not fetched yet; the supervisor fetches every second


class Engine(Protocol):
    """What the shell needs of `engine.runner.Copier`."""

    async def run(self) -> None: ...
    def assign(self, partition_set: PartitionSet) -> None: ...
    def pause(self, topics: frozenset[str] | None) -> None: ...
    def resume(self, topics: frozenset[str] | None) -> None: ...
    def progress(self) -> FlowProgress: ...
    async def drain(self) -> None: ...


def make_engine(spec: CopierSpec) -> Engine:
    """Read the configuration in the copier's own process and build the engine of one flow."""
    from actors import config_ref
    from engine.runner import Copier

    config = config_ref.load(spec.config)
    flow = next(flow for flow in config.flows if flow.name == spec.flow)
    return Copier(config, flow, copier_id=spec.copier_id, deployment_id=spec.deployment_id)


class CopierShell:
    """One copier process of one flow."""

    def __init__(self, spec: bytes, make: Callable[[CopierSpec], Engine] = make_engine) -> None:
        decoded = msgspec.msgpack.decode(spec, type=CopierSpec)
        self._engine = make(decoded)
        self._flow: FlowName = decoded.flow
        self._events: deque[AnyEvent] = deque(maxlen=EVENTS_KEPT)
        self._latest = self._engine.progress()
        self._drain_asked = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._sample()), group.create_task(self._drain_when_asked())]
            try:
                await self._engine.run()
            finally:
                for helper in helpers:
                    helper.cancel()
        self._take_sample()

    async def _sample(self) -> None:
        while True:
            self._take_sample()
            await asyncio.sleep(SAMPLE_S)

    def _take_sample(self) -> None:
        snapshot = self._engine.progress()
        self._events.extend(snapshot.events)
        self._latest = msgspec.structs.replace(snapshot, events=())

    async def _drain_when_asked(self) -> None:
        await self._drain_asked.wait()
        await self._engine.drain()

    async def hello(self) -> None:
        """Answer, once the engine is built."""

    async def assign(self, partition_set: bytes) -> None:
        """Take a partition set over."""
        self._engine.assign(msgspec.msgpack.decode(partition_set, type=PartitionSet))

    async def pause(self, topics: tuple[str, ...] | None) -> None:
        """Stop fetching."""
        self._engine.pause(None if topics is None else frozenset(topics))

    async def resume(self, topics: tuple[str, ...] | None) -> None:
        """Fetch again."""
        self._engine.resume(None if topics is None else frozenset(topics))

    async def drain(self) -> None:
        """Begin to end; `wait_closed` returns when it is done."""
        self._drain_asked.set()

    async def wait_closed(self) -> bytes:
        """Wait for the end; give the last snapshot, or raise what the engine raised."""
        try:
            await asyncio.shield(self._task)
        except BaseExceptionGroup as group:
            raise first_cause(group) from group
        return self._pack()

    @ray.method(concurrency_group="control")
    async def progress(self) -> bytes:
        """Give the latest snapshot, with the events since the last one that was given."""
        return self._pack()

    def _pack(self) -> bytes:
        latest = self._latest
        events = []
        while self._events:
            events.append(self._events.popleft())
        return msgspec.msgpack.encode(msgspec.structs.replace(latest, events=tuple(events)))


def first_cause(error: BaseException) -> BaseException:
    """Give the first error that is not a group: the one that brought the others down."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
