"""The metadata actor as the supervisor sees it: taken over or started, asked once a second, replaced when silent."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import ray

from actors.calls import actor_class, bounded, find_actor, names_in
from actors.control.ports import CopierUnreachable, DiscoveryAnswer, RememberedFlow
from actors.model.events import pack
from actors.model.messages import MirrorSpec
from actors.ray.metadata_actor import MetadataActor
from engine.base.clock import now_s
from engine.core.events.events import AnyEvent, Event
from policies.model import FlowName

ASK_S = 1.0
FIRST_ASK_S = 0.2
"""How often it is asked at first: nothing is placed before it has looked and knows what is wanted."""
RESTART_S = 30.0  # an actor older than this that fails a call is replaced
AGAIN_S = 2.0  # one that has died is replaced sooner
EVENTS_KEPT = 1000
SETTLE_S = 5.0
METADATA = "metadata"


class RayMetadata:
    """A MetadataPort over an actor that it keeps alive; `looked` is called when sets of a flow can be placed first."""

    def __init__(
        self,
        spec: MirrorSpec,
        flows: tuple[FlowName, ...],
        head: dict[str, float],
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self._spec, self._head, self._tell_looked = spec, head, looked
        self._began_s = now_s()
        self._found: dict[FlowName, DiscoveryAnswer] = {}
        self._sure_at_s: dict[FlowName, float] = {}
        """When each flow was known to be ours last."""
        self._events: dict[FlowName, deque[AnyEvent]] = {}
        self._to_keep: dict[FlowName, RememberedFlow] = {}
        self._said: dict[FlowName, RememberedFlow] = {}
        self._to_write: dict[FlowName, asyncio.Event] = {}
        self._written = asyncio.Event()
        self._to_tell: dict[FlowName, deque[Event]] = {}
        self._base: dict[FlowName, int] = {}
        self._made: dict[FlowName, int] = {}
        """Which reload made the actor's part of a flow, as far as it has said so; where that is another, it counts its
        rounds from 0.
        """
        self._writers: dict[FlowName, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._to_reload = False
        self._gone: set[FlowName] = set()
        """Flows that are to be given back."""
        for flow in flows:
            self._begin(flow)
        self._actor: Any = None
        self._started_at_s = 0.0
        self._answered = False
        self._looked = False
        self._inherited = False
        self._mark = _mark_of(spec)

    def _begin(self, flow: FlowName) -> None:
        self._found[flow], self._base[flow], self._sure_at_s[flow] = DiscoveryAnswer(serial=0), 0, now_s()
        self._events[flow], self._to_tell[flow] = deque(maxlen=EVENTS_KEPT), deque(maxlen=EVENTS_KEPT)
        self._to_write[flow] = asyncio.Event()
        if self._group is not None:
            self._writers[flow] = self._group.create_task(self._write(flow))

    def reload(self, spec: MirrorSpec, flows: tuple[FlowName, ...]) -> None:
        """Have the flows of another configuration looked after; an actor that dies meanwhile comes back with it."""
        self._spec, self._mark, self._to_reload = spec, _mark_of(spec), True
        self._began_s = now_s()
        self._gone -= set(flows)
        for flow in flows:
            if flow not in self._found:
                self._begin(flow)

    def give_back(self, flow: FlowName) -> None:
        self._gone.add(flow)

    def found(self, flow: FlowName) -> DiscoveryAnswer:
        events = tuple(self._events[flow])
        self._events[flow].clear()
        unrenewed_s = now_s() - self._sure_at_s[flow]
        return msgspec.structs.replace(self._found[flow], events=events, unrenewed_s=unrenewed_s)

    def keep(self, flow: FlowName, kept: RememberedFlow) -> None:
        self._to_keep[flow] = self._said[flow] = kept
        self._to_write[flow].set()
        self._written.clear()

    @property
    def owed(self) -> tuple[FlowName, ...]:
        """The flows of which something is to be written down and is not."""
        return tuple(self._to_keep)

    async def wait_written(self, within_s: float) -> None:
        """Wait until nothing is owed, or for so long."""
        if not self._to_keep:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._written.wait()

    def tell(self, event: Event) -> None:
        """Have an event written down; the oldest are dropped while nobody can."""
        if event.flow in self._to_tell:
            self._to_tell[event.flow].append(event)

    async def run(self) -> None:
        """Ask, and write down, for as long as the mirror lives."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for flow in self._found:
                    self._writers[flow] = group.create_task(self._write(flow))
                group.create_task(self._ask_all())
        finally:
            self._group = None
            self.end()

    async def settle(self) -> None:
        """Write down what is not written yet, as far as that is possible; `run` goes on meanwhile."""
        await self.wait_written(SETTLE_S)
        with contextlib.suppress(CopierUnreachable):
            if self._actor is not None:
                for flow in tuple(self._found):
                    await self._ask(flow)
                await bounded(METADATA, "close", self._actor.close.remote())

    def end(self) -> None:
        """Kill the actor; it holds nothing."""
        if self._actor is not None:
            ray.kill(self._actor)
            self._actor = None

    async def _ask_all(self) -> None:
        while True:
            await self._round()
            await asyncio.sleep(FIRST_ASK_S if self._is_awaited else ASK_S)

    @property
    def _is_awaited(self) -> bool:
        """Whether nothing of a flow can be placed yet; a cluster that is away is not asked about so often for ever."""
        is_early = now_s() - self._began_s < RESTART_S
        return is_early and not all(map(_is_whole, self._found.values()))

    async def _round(self) -> None:
        if self._actor is None:
            self._find_or_start()
        try:
            if self._inherited:
                await bounded(METADATA, "look_anew", self._actor.look_anew.remote())
                self._inherited = False
            if self._to_reload:
                await self._reload_actor()
            for flow in tuple(self._found):
                await self._ask(flow)
            for flow in tuple(self._gone):
                await self._give_back(flow)
            self._answered = True
        except CopierUnreachable as unreachable:
            age_s = now_s() - self._started_at_s
            if age_s > (AGAIN_S if "ActorDiedError" in unreachable.cause else RESTART_S):
                self.end()
            elif not self._answered:
                return  # a process takes its time to start
            for flow, found in self._found.items():
                self._found[flow] = msgspec.structs.replace(found, failure=str(unreachable))

    async def _reload_actor(self) -> None:
        spec = self._spec
        told = await bounded(METADATA, "reload", self._actor.reload.remote(msgspec.msgpack.encode(spec)))
        self._to_reload = self._spec is not spec
        for source, target, made in told:
            flow = FlowName(source, target)
            if flow in self._found and self._made.get(flow, 0) != made:
                self._base[flow] = self._found[flow].serial
                if flow in self._said:
                    self.keep(flow, self._said[flow])  # as after a start: it may know only what it is told
            self._made[flow] = made

    async def _give_back(self, flow: FlowName) -> None:
        if flow in self._to_keep:
            return  # a later round has nothing to write
        with contextlib.suppress(CopierUnreachable):  # said again in a later round: slow targets replace no actor
            await bounded(METADATA, "give_back", self._actor.give_back.remote(flow.source, flow.target))
            self._forget(flow)

    def _forget(self, flow: FlowName) -> None:
        self._made.pop(flow, None)
        if flow not in self._gone:
            self._to_reload = True  # it was asked for again in this very moment
            return
        self._gone.remove(flow)
        self._writers.pop(flow).cancel()
        del self._found[flow], self._events[flow], self._to_write[flow], self._to_tell[flow], self._base[flow]
        self._said.pop(flow, None)

    async def _write(self, flow: FlowName) -> None:
        """Write down what is owed of one flow, beside the others: a target that is away holds up nobody else."""
        while True:
            await self._to_write[flow].wait()
            self._to_write[flow].clear()
            if not await self._write_once(flow):
                await asyncio.sleep(ASK_S)
                self._to_write[flow].set()
            elif not self._to_keep:
                self._written.set()

    async def _write_once(self, flow: FlowName) -> bool:
        """Whether what is owed of a flow is written; if not, it is still owed: the topic may be away, or the actor."""
        kept = self._to_keep.get(flow)
        if kept is None or self._actor is None:
            return kept is None
        data = msgspec.msgpack.encode(kept)
        try:
            await bounded(METADATA, "keep", self._actor.keep.remote(flow.source, flow.target, data))
        except CopierUnreachable:
            return False
        if self._to_keep.get(flow) is kept:
            del self._to_keep[flow]
        return True

    async def _ask(self, flow: FlowName) -> None:
        told = tuple(self._to_tell[flow])
        self._to_tell[flow].clear()
        asked_at_s = now_s()
        try:
            data = await bounded(METADATA, "found", self._actor.found.remote(flow.source, flow.target, pack(told)))
        except CopierUnreachable:
            # in front of what came meanwhile; of too many, the oldest are dropped
            self._to_tell[flow] = deque([*told, *self._to_tell[flow]], maxlen=EVENTS_KEPT)
            raise
        found = msgspec.msgpack.decode(data, type=DiscoveryAnswer)
        self._sure_at_s[flow] = asked_at_s - found.unrenewed_s
        self._events[flow].extend(found.events)
        known = self._found[flow]
        if found.serial == 0:  # a new actor has not looked yet: what is known stays
            found = msgspec.structs.replace(found, lanes=known.lanes, serial=known.serial)
        else:
            found = msgspec.structs.replace(found, serial=self._base[flow] + found.serial)
        self._found[flow] = msgspec.structs.replace(found, events=(), kept=found.kept or known.kept)
        if _is_whole(self._found[flow]) and not _is_whole(known):
            self._tell_looked()

    def _find_or_start(self) -> None:
        """Take over what an earlier supervisor of the same mirror left, so that it need not start; end the others."""
        self._started_at_s = now_s()
        self._answered = False
        for name in names_in(self._spec.namespace):
            if name.startswith(METADATA):
                handle = find_actor(name, self._spec.namespace)
                if handle is None:
                    continue
                if name.startswith(self._mark) and self._actor is None and not self._looked:
                    self._actor, self._inherited = handle, True
                else:
                    ray.kill(handle)
        self._looked = True
        if self._actor is None:
            self._start()

    def _start(self) -> None:
        self._inherited = self._to_reload = False
        self._made = {}
        self._base = {flow: found.serial for flow, found in self._found.items()}  # a new actor counts from 0
        for flow, kept in self._said.items():
            self.keep(flow, kept)  # where the state topic may not be read, it knows only what it is told
        remote = actor_class(MetadataActor)
        self._actor = remote.options(
            name=f"{self._mark}/{self._started_at_s:.3f}",  # a killed actor's name is freed a moment later
            namespace=self._spec.namespace,
            lifetime="detached",
            num_cpus=0,
            resources=self._head,
            max_restarts=0,
            max_task_retries=0,
        ).remote(msgspec.msgpack.encode(self._spec))


def _is_whole(found: DiscoveryAnswer) -> bool:
    """Whether all is known that sets are placed by: the topics, and what is wanted."""
    return bool(found.serial) and found.kept is not None


def _mark_of(spec: MirrorSpec) -> str:
    return f"{METADATA}/{spec.version}/{spec.config.digest[:16]}/{spec.instance_id}"
