"""The metadata actor as the supervisor sees it: finds or starts it, asks it for news, replaces a silent one.

A call through Ray costs the two processes 3 to 4 ms of CPU (`python -m bench.micro.calls`). So while all is well the
actor delays its answer until it has news, for a few seconds. What the supervisor has to send makes it answer at once.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
import ray

from actors.calls import CALL_TIMEOUT_S, actor_class, bounded, found_actors, start_detached
from actors.control.config_link import ConfigLink
from actors.control.ports import ActorUnreachable, ConfigRound, DiscoveryAnswer, RememberedFlow, RoundAnswer
from actors.model.events import pack
from actors.model.messages import AlteredOffset, MirrorSpec
from actors.ray.fleet import HEAD
from actors.ray.metadata_actor import MetadataActor
from engine.base.clock import now_s
from engine.core.events.events import AnyEvent, Event
from policies.model import FlowName

ASK_S = 1.0
"""Least seconds between two questions."""
PATIENCE_S = 4.0
"""Seconds for which the actor delays an answer without news, if all is well."""
CALM_S = 10.0
"""Seconds without a renewal of the ownership after which the actor is asked once a second again."""
FIRST_ASK_S = 0.2
"""Seconds between two questions at first: no set is placed before discovery and before the wanted state is known."""
RESTART_S = 30.0  # an actor older than this that fails a call is replaced
AGAIN_S = 2.0  # one that has died is replaced sooner
EVENTS_KEPT = 1000
SETTLE_S = 5.0
POSITIONS_S = 25.0
"""Seconds that reading all positions of a flow may take."""
ALTER_S = 300.0
"""Seconds that changing the positions of a flow may take: 16 partitions at a time."""
METADATA = "metadata"


class _FlowLink:
    """The messages between the supervisor and the metadata actor about one flow."""

    def __init__(self, flow: FlowName) -> None:
        self.found = DiscoveryAnswer(serial=0)
        self.configs = ConfigLink(flow)
        self.sure_at_s = now_s()
        """When it was last known that this mirror owns the flow."""
        self.events: deque[AnyEvent] = deque(maxlen=EVENTS_KEPT)
        """Events that the actor reported and the supervisor has not taken."""
        self.to_store: deque[Event] = deque(maxlen=EVENTS_KEPT)
        """Events that were not sent to the actor yet."""
        self.state: RememberedFlow | None = None
        """The last state to store."""
        self.owed: RememberedFlow | None = None
        """The state that is not stored yet; None if it is."""
        self.to_write = asyncio.Event()
        self.serial_base = 0
        """Added to the actor's serials: each actor, and each part of it that a reload created, counts from 0."""
        self.made = 0
        """The number of the reload that created the actor's part of the flow, as last reported."""
        self.writer: asyncio.Task[None] | None = None

    def owe(self, state: RememberedFlow) -> None:
        """Note a state that must be stored."""
        self.state = self.owed = state
        self.to_write.set()

    @property
    def is_whole(self) -> bool:
        """Whether everything is known that placement needs: the topics and the wanted state."""
        return bool(self.found.serial) and self.found.kept is not None

    @property
    def is_calm(self) -> bool:
        """Whether nothing is expected of the actor, so that its answer may wait for news."""
        found, unrenewed_s = self.found, now_s() - self.sure_at_s
        troubled = found.failure or found.taken or found.awaited or unrenewed_s > CALM_S
        is_done = self.owed is None and not self.to_store and self.configs.is_calm
        return self.is_whole and is_done and not troubled

    def take_answer(self, found: DiscoveryAnswer, sure_at_s: float) -> None:
        """Note an answer of the actor; `sure_at_s`: when it was certain that this mirror owns the flow."""
        self.sure_at_s = sure_at_s
        self.events.extend(found.events)
        known = self.found
        if found.serial == 0:  # a new actor has not discovered yet: keep what is known
            found = msgspec.structs.replace(found, lanes=known.lanes, serial=known.serial)
        else:
            found = msgspec.structs.replace(found, serial=self.serial_base + found.serial)
        self.found = msgspec.structs.replace(found, events=(), kept=found.kept or known.kept)

    def put_back(self, events: tuple[Event, ...]) -> None:
        """Store events that could not be sent, before newer ones; if there are too many, the oldest are dropped."""
        self.to_store = deque([*events, *self.to_store], maxlen=EVENTS_KEPT)


class MetadataHandle:
    """A metadata actor that was started or taken over."""

    def __init__(self, handle: Any, spec: MirrorSpec, started_at_s: float, *, inherited: bool) -> None:
        self.handle = handle
        self.spec: MirrorSpec | None = spec
        """The specification that it was given last; None if it must be sent again."""
        self.started_at_s = started_at_s
        self.inherited = inherited
        """Whether another supervisor started it: it must discover again before it is asked."""
        self.has_answered = False


class RayMetadata:
    """A MetadataPort over an actor that it keeps alive; `changed` is set when sets of a flow can be placed first."""

    def __init__(self, spec: MirrorSpec, flows: tuple[FlowName, ...], changed: asyncio.Event) -> None:
        self._spec, self._changed = spec, changed
        self._mark = _mark_of(spec)
        self._began_s = now_s()
        self._flows = {flow: _FlowLink(flow) for flow in flows}
        self._gone: set[FlowName] = set()
        """Flows that must be given back."""
        self._written = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._actor: MetadataHandle | None = None
        self._has_searched = False
        self._delays = False
        """Whether the actor was asked to delay its answer."""

    def reload(self, spec: MirrorSpec, flows: tuple[FlowName, ...]) -> None:
        """Apply another configuration; an actor that dies during that is replaced by one with the new configuration."""
        self._spec, self._mark = spec, _mark_of(spec)
        self._began_s = now_s()
        self._gone -= set(flows)
        for flow in flows:
            if flow not in self._flows:
                self._flows[flow] = _FlowLink(flow)
                self._begin_writer(self._flows[flow], flow)
        self._hurry()

    def give_back(self, flow: FlowName) -> None:
        """Give a flow back, once its state is stored."""
        self._gone.add(flow)
        self._hurry()

    def found(self, flow: FlowName) -> DiscoveryAnswer:
        link = self._flows[flow]
        events = tuple(link.events)
        link.events.clear()
        return msgspec.structs.replace(link.found, events=events, unrenewed_s=now_s() - link.sure_at_s)

    def store_state(self, flow: FlowName, state: RememberedFlow) -> None:
        """Store a state, as soon as an actor can."""
        self._flows[flow].owe(state)
        self._written.clear()

    @property
    def owed(self) -> tuple[FlowName, ...]:
        """The flows whose state is not stored yet."""
        return tuple(flow for flow, link in self._flows.items() if link.owed is not None)

    async def wait_written(self, within_s: float) -> None:
        """Wait until every state is stored, at most `within_s`."""
        if not self.owed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._written.wait()

    def store_event(self, event: Event) -> None:
        """Store an event, as soon as an actor can; if too many wait, the oldest are dropped."""
        if (link := self._flows.get(event.flow)) is not None:
            link.to_store.append(event)
            self._hurry()

    async def positions(self, flow: FlowName) -> bytes:
        """Read how far each partition of a flow is copied by its position on the target. Raises ActorUnreachable."""
        if self._actor is None:
            raise ActorUnreachable(METADATA, "positions", "it has not started")
        call = self._actor.handle.positions.remote(flow.source, flow.target)
        found: bytes = await bounded(METADATA, "positions", call, POSITIONS_S)
        return found

    async def alter_positions(self, flow: FlowName, wanted: Sequence[AlteredOffset] | None) -> None:
        """Set positions of a flow that nothing copies; None: remove all. Raises ActorUnreachable."""
        if self._actor is None:
            raise ActorUnreachable(METADATA, "alter_positions", "it has not started")
        packed = msgspec.msgpack.encode(wanted)
        call = self._actor.handle.alter_positions.remote(flow.source, flow.target, packed)
        await bounded(METADATA, "alter_positions", call, ALTER_S)

    def config_round(self, flow: FlowName) -> ConfigRound | None:
        """Return the round of configs and ACLs of a flow that waits for a plan."""
        link = self._flows.get(flow)
        return link.configs.round if link is not None else None

    def answer_round(self, flow: FlowName, answer: RoundAnswer) -> None:
        """Answer such a round, as soon as the actor can be called."""
        if (link := self._flows.get(flow)) is not None:
            link.configs.answer(answer)
            self._hurry()

    def _hurry(self) -> None:
        """Have the actor answer a question that waits for news, because the next round has something for it."""
        if self._delays and self._actor is not None:
            self._delays = False
            self._actor.handle.hurry.remote()

    async def run(self) -> None:
        """Ask the actor and store states and events, for as long as the mirror lives."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for flow, link in self._flows.items():
                    self._begin_writer(link, flow)
                while True:
                    began_s = now_s()
                    await self._round()
                    every_s = FIRST_ASK_S if self._is_awaited else ASK_S
                    await asyncio.sleep(max(0.0, began_s + every_s - now_s()))
        finally:
            self._group = None
            self.end()

    def _begin_writer(self, link: _FlowLink, flow: FlowName) -> None:
        if self._group is not None:
            link.writer = self._group.create_task(self._write(link, flow))

    async def settle(self) -> None:
        """Store what is not stored yet, as far as possible, then close the actor; `run` continues during that."""
        await self.wait_written(SETTLE_S)
        with contextlib.suppress(ActorUnreachable):
            if (actor := self._actor) is not None:
                await self._ask(actor)
                await bounded(METADATA, "close", actor.handle.close.remote())

    def end(self) -> None:
        """Kill the actor; it has no state of its own."""
        if self._actor is not None:
            ray.kill(self._actor.handle)
            self._actor = None

    @property
    def _is_awaited(self) -> bool:
        """Whether a flow cannot be placed yet; False after RESTART_S seconds, as a cluster may be down for long."""
        is_early = now_s() - self._began_s < RESTART_S
        return is_early and not all(link.is_whole for link in self._flows.values())

    async def _round(self) -> None:
        actor = self._actor = self._actor or self._find_or_start()
        try:
            if actor.inherited:
                await bounded(METADATA, "read_again", actor.handle.read_again.remote())
                actor.inherited = False
            if actor.spec is not self._spec:
                await self._reload(actor)
            await self._ask(actor, self._patience_s(actor))
            await self._exchange_rounds(actor)
            for flow in tuple(self._gone):
                await self._give_back(actor, flow)
            actor.has_answered = True
        except ActorUnreachable as unreachable:
            age_s = now_s() - actor.started_at_s
            if age_s > (AGAIN_S if "ActorDiedError" in unreachable.cause else RESTART_S):
                self.end()
            elif not actor.has_answered:
                return  # its process may still be starting
            for link in self._flows.values():
                link.found = msgspec.structs.replace(link.found, failure=str(unreachable))

    async def _reload(self, actor: MetadataHandle) -> None:
        spec = self._spec
        parts = await bounded(METADATA, "reload", actor.handle.reload.remote(msgspec.msgpack.encode(spec)))
        actor.spec = spec
        for source, target, made in parts:
            link = self._flows.get(FlowName(source, target))
            if link is not None and link.made != made:
                link.made, link.serial_base = made, link.found.serial
                link.configs.begin_again()
                self._say_again(link)

    def _say_again(self, link: _FlowLink) -> None:
        """Send the state to a new part of the actor: it cannot know the state if it may not read the state topic."""
        if link.state is not None:
            link.owe(link.state)
            self._written.clear()

    async def _give_back(self, actor: MetadataHandle, flow: FlowName) -> None:
        if self._flows[flow].owed is not None:
            return  # a later round gives it back, once its state is stored
        with contextlib.suppress(ActorUnreachable):  # retried in a later round: a slow target is no reason to replace
            await bounded(METADATA, "give_back", actor.handle.give_back.remote(flow.source, flow.target))
            self._forget(actor, flow)

    def _forget(self, actor: MetadataHandle, flow: FlowName) -> None:
        if flow not in self._gone:
            self._flows[flow].made = 0
            actor.spec = None  # a reload added the flow again at this moment
            return
        self._gone.remove(flow)
        link = self._flows.pop(flow)
        if link.writer is not None:
            link.writer.cancel()

    async def _write(self, link: _FlowLink, flow: FlowName) -> None:
        """Store the states of one flow, in parallel with the others: an unreachable target holds up no other flow."""
        while True:
            await link.to_write.wait()
            link.to_write.clear()
            if not await self._write_once(link, flow):
                await asyncio.sleep(ASK_S)
                link.to_write.set()
            elif not self.owed:
                self._written.set()

    async def _write_once(self, link: _FlowLink, flow: FlowName) -> bool:
        """Store the state of a flow; return whether it is stored. The topic or the actor may be unreachable."""
        state, actor = link.owed, self._actor
        if state is None or actor is None:
            return state is None
        data = msgspec.msgpack.encode(state)
        try:
            await bounded(METADATA, "store_state", actor.handle.store_state.remote(flow.source, flow.target, data))
        except ActorUnreachable:
            return False
        if link.owed is state:
            link.owed = None
        return True

    async def _exchange_rounds(self, actor: MetadataHandle) -> None:
        """Exchange rounds and the memory of config sync. Raises ActorUnreachable."""

        async def call(name: str, *words: Any) -> Any:
            return await bounded(METADATA, name, getattr(actor.handle, name).remote(*words))

        for link in tuple(self._flows.values()):
            if await link.configs.exchange(link.found, call):
                self._changed.set()

    def _patience_s(self, actor: MetadataHandle) -> float:
        """Return for how many seconds the actor may delay an answer without news."""
        is_calm = actor.has_answered and not self._gone and all(link.is_calm for link in self._flows.values())
        return PATIENCE_S if is_calm else 0.0

    async def _ask(self, actor: MetadataHandle, patience_s: float = 0.0) -> None:
        """Send the events of all flows, and receive the answers. Raises ActorUnreachable."""
        links = tuple(self._flows.items())
        events = [tuple(link.to_store) for _, link in links]
        for _, link in links:
            link.to_store.clear()
        asked = [(*flow, pack(some)) for (flow, _), some in zip(links, events, strict=True)]
        asked_at_s, self._delays = now_s(), patience_s > 0.0
        try:
            call = actor.handle.found.remote(asked, patience_s)
            waited_s, answers = await bounded(METADATA, "its answer", call, CALL_TIMEOUT_S + patience_s)
        except ActorUnreachable:
            for (_, link), some in zip(links, events, strict=True):
                link.put_back(some)
            raise
        finally:
            self._delays = False
        for (_, link), data in zip(links, answers, strict=True):
            found, was_whole = msgspec.msgpack.decode(data, type=DiscoveryAnswer), link.is_whole
            link.take_answer(found, asked_at_s + waited_s - found.unrenewed_s)
            if link.is_whole and not was_whole:
                self._changed.set()

    def _find_or_start(self) -> MetadataHandle:
        """Take over the actor of an earlier supervisor of this mirror, or start one; kill all others."""
        inherited = None
        for name, handle in found_actors(self._spec.namespace):
            if name.startswith(self._mark) and inherited is None and not self._has_searched:
                inherited = handle
            elif name.startswith(METADATA):
                ray.kill(handle)
        self._has_searched = True
        if inherited is not None:
            return MetadataHandle(inherited, self._spec, now_s(), inherited=True)
        return self._start()

    def _start(self) -> MetadataHandle:
        for link in self._flows.values():
            link.made, link.serial_base = 0, link.found.serial
            link.configs.begin_again()
            self._say_again(link)
        started_at_s = now_s()
        handle = start_detached(
            actor_class(MetadataActor),
            self._spec,
            name=f"{self._mark}/{started_at_s:.3f}",  # a killed actor's name is freed a moment later
            namespace=self._spec.namespace,
            resources=HEAD,
        )
        return MetadataHandle(handle, self._spec, started_at_s, inherited=False)


def _mark_of(spec: MirrorSpec) -> str:
    return f"{METADATA}/{spec.version}/{spec.config.digest[:16]}/{spec.instance_id}"
