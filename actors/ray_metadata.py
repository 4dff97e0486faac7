"""The metadata actor as the supervisor sees it: taken over or started, asked once a second, replaced when silent."""

import asyncio
import contextlib
from collections import deque
from typing import Any

import msgspec
import ray

from actors.calls import actor_class, bounded, names_in
from actors.events import pack
from actors.messages import MirrorSpec
from actors.metadata import MetadataShell
from actors.ports import CopierUnreachable, Found, Kept
from engine.clock import now_s
from engine.core.events import AnyEvent, Event
from policies.model import FlowName

ASK_S = 1.0
RESTART_S = 30.0  # an actor older than this that fails a call is replaced
AGAIN_S = 2.0  # one that has died is replaced sooner
EVENTS_KEPT = 1000
METADATA = "metadata"


class RayMetadata:
    """A MetadataPort over an actor that it keeps alive."""

    def __init__(self, spec: MirrorSpec, flows: tuple[FlowName, ...], head: dict[str, float]) -> None:
        self._spec, self._head = spec, head
        self._found = {flow: Found(serial=0) for flow in flows}
        self._events: dict[FlowName, deque[AnyEvent]] = {flow: deque(maxlen=EVENTS_KEPT) for flow in flows}
        self._to_keep: dict[FlowName, Kept] = {}
        self._said: dict[FlowName, Kept] = {}
        self._to_tell: dict[FlowName, deque[Event]] = {flow: deque(maxlen=EVENTS_KEPT) for flow in flows}
        self._base = dict.fromkeys(flows, 0)
        self._actor: Any = None
        self._started_at_s = 0.0
        self._answered = False
        self._looked = False
        self._mark = f"{METADATA}/{spec.version}/{spec.config.digest[:16]}/{spec.instance_id}"

    def found(self, flow: FlowName) -> Found:
        """Give the latest answer about a flow."""
        events = tuple(self._events[flow])
        self._events[flow].clear()
        return msgspec.structs.replace(self._found[flow], events=events)

    def keep(self, flow: FlowName, kept: Kept) -> None:
        """Have it written down, as soon as somebody can."""
        self._to_keep[flow] = self._said[flow] = kept

    def tell(self, event: Event) -> None:
        """Have an event written down; the oldest are dropped while nobody can."""
        if event.flow in self._to_tell:
            self._to_tell[event.flow].append(event)

    async def run(self) -> None:
        """Ask, for as long as the mirror lives."""
        try:
            while True:
                await self._round()
                await asyncio.sleep(ASK_S)
        finally:
            self.end()

    async def settle(self) -> None:
        """Write down what is not written yet, as far as that is possible."""
        with contextlib.suppress(CopierUnreachable):
            await self._write_kept()
            for flow in self._found:
                await self._ask(flow)
            await bounded(METADATA, "close", self._actor.close.remote())

    def end(self) -> None:
        """Kill the actor; it holds nothing."""
        if self._actor is not None:
            ray.kill(self._actor)
            self._actor = None

    async def _round(self) -> None:
        if self._actor is None:
            self._find_or_start()
        try:
            await self._write_kept()
            for flow in self._found:
                await self._ask(flow)
            self._answered = True
        except CopierUnreachable as unreachable:
            age_s = now_s() - self._started_at_s
            if age_s > (AGAIN_S if "ActorDiedError" in unreachable.cause else RESTART_S):
                self.end()
            elif not self._answered:
                return  # a process takes its time to start
            for flow, found in self._found.items():
                self._found[flow] = msgspec.structs.replace(found, failure=str(unreachable))

    async def _write_kept(self) -> None:
        for flow, kept in list(self._to_keep.items()):
            data = msgspec.msgpack.encode(kept)
            try:
                await bounded(METADATA, "keep", self._actor.keep.remote(flow.source, flow.target, data))
            except CopierUnreachable:
                continue  # still owed: the topic may be away; whether the actor is, the next question tells
            if self._to_keep.get(flow) is kept:
                del self._to_keep[flow]

    async def _ask(self, flow: FlowName) -> None:
        told = tuple(self._to_tell[flow])
        call = self._actor.found.remote(flow.source, flow.target, pack(told))
        data = await bounded(METADATA, "found", call)
        for _ in told:
            self._to_tell[flow].popleft()
        found = msgspec.msgpack.decode(data, type=Found)
        self._events[flow].extend(found.events)
        known = self._found[flow]
        if found.serial == 0:  # a new actor has not looked yet: what is known stays
            found = msgspec.structs.replace(found, lanes=known.lanes, serial=known.serial)
        else:
            found = msgspec.structs.replace(found, serial=self._base[flow] + found.serial)
        self._found[flow] = msgspec.structs.replace(found, events=(), kept=found.kept or known.kept)

    def _find_or_start(self) -> None:
        """Take over what an earlier supervisor of the same mirror left, so that it need not start; end the others."""
        self._started_at_s = now_s()
        self._answered = False
        for name in names_in(self._spec.namespace):
            if name.startswith(METADATA):
                handle = ray.get_actor(name, namespace=self._spec.namespace)
                if name.startswith(self._mark) and self._actor is None and not self._looked:
                    self._actor = handle
                else:
                    ray.kill(handle)
        self._looked = True
        if self._actor is None:
            self._start()

    def _start(self) -> None:
        self._base = {flow: found.serial for flow, found in self._found.items()}  # a new actor counts from 0
        self._to_keep = dict(self._said)  # where the state topic may not be read, it knows only what it is told
        remote = actor_class(MetadataShell)
        self._actor = remote.options(
            name=f"{self._mark}/{self._started_at_s:.3f}",  # a killed actor's name is freed a moment later
            namespace=self._spec.namespace,
            lifetime="detached",
            num_cpus=0,
            resources=self._head,
            max_restarts=0,
            max_task_retries=0,
        ).remote(msgspec.msgpack.encode(self._spec))
