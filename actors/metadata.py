"""The metadata actor: a thin shell around one `engine.runner.TopicKeeper` per flow. Stateless: it may be replaced."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from actors.copier import first_cause
from actors.messages import MirrorSpec
from actors.ports import Found, Kept
from engine.core.events import AnyEvent, TopicCreated
from engine.errors import MirrorError
from policies.model import FlowName, LaneName

EVENTS_KEPT = 1000
RETRY_S = (0.2, 0.5, 1.0, 2.0)  # after rounds that failed; a broker's restart takes a few seconds
SOON_S = 1.0  # between two rounds while topics are being made, or there is nothing to copy
TOLD_AFTER = 3  # failed rounds in a row: a topic that was just created has no leader for a moment


class DiscoveryLike(Protocol):
    """What the shell reads of `engine.runner.Discovery`."""

    @property
    def lanes(self) -> tuple[LaneName, ...]: ...
    @property
    def events(self) -> tuple[AnyEvent, ...]: ...
    @property
    def highest_epoch(self) -> int: ...


class Keeper(Protocol):
    """What the shell needs of `engine.runner.TopicKeeper`."""

    async def open(self) -> None: ...
    async def step(self) -> DiscoveryLike: ...
    async def close(self) -> None: ...


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One flow to look after: its keeper, and the seconds between two rounds."""

    flow: FlowName
    keeper: Keeper
    every_s: float


def make_watches(spec: MirrorSpec) -> tuple[Watch, ...]:
    """Read the configuration in this actor's own process and make a keeper per flow."""
    from actors import config_ref
    from engine.runner import TopicKeeper

    config = config_ref.load(spec.config)
    return tuple(
        Watch(flow=flow.name, keeper=TopicKeeper(config, flow), every_s=flow.refresh_topics_s) for flow in config.flows
    )


class FlowWatch:
    """The rounds of one flow, and what they found."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._found = Found(serial=0)
        self._failures = 0
        self._kept = Kept()
        self._events: deque[AnyEvent] = deque(maxlen=EVENTS_KEPT)

    async def run(self) -> None:
        """Look, for as long as the actor lives. Raises only on a bug."""
        while True:
            try:
                await self._watch.keeper.open()
                await self._rounds()
            except (MirrorError, OSError, TimeoutError) as failure:
                self._failures += 1
                if self._failures >= TOLD_AFTER:
                    self._found = msgspec.structs.replace(self._found, failure=str(failure))
                await asyncio.sleep(RETRY_S[min(self._failures, len(RETRY_S)) - 1])
            finally:
                await self._watch.keeper.close()

    async def _rounds(self) -> None:
        while True:
            discovery = await self._watch.keeper.step()
            self._failures = 0
            self._events.extend(discovery.events)
            self._found = Found(
                serial=self._found.serial + 1, lanes=discovery.lanes, highest_epoch=discovery.highest_epoch
            )
            # A topic that was just made is known to every broker a moment later: look again soon.
            unsettled = not discovery.lanes or any(isinstance(event, TopicCreated) for event in discovery.events)
            await asyncio.sleep(min(self._watch.every_s, SOON_S) if unsettled else self._watch.every_s)

    def take(self) -> Found:
        """Give the latest, with the events since the last call."""
        events = tuple(self._events)
        self._events.clear()
        return msgspec.structs.replace(self._found, events=events, kept=self._kept)

    def keep(self, kept: Kept) -> None:
        """Write down what is wanted of the flow."""
        self._kept = kept


class MetadataShell:
    """All flows of one mirror."""

    def __init__(self, spec: bytes, make: Callable[[MirrorSpec], tuple[Watch, ...]] = make_watches) -> None:
        watches = make(msgspec.msgpack.decode(spec, type=MirrorSpec))
        self._flows = {watch.flow: FlowWatch(watch) for watch in watches}
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for flow in self._flows.values():
                group.create_task(flow.run())

    async def found(self, source: str, target: str) -> bytes:
        """Give the latest discovery of one flow; raises what ended the rounds, if something did."""
        if self._task.done():
            try:
                await self._task
            except BaseExceptionGroup as group:
                raise first_cause(group) from group
        return msgspec.msgpack.encode(self._flows[FlowName(source, target)].take())

    async def keep(self, source: str, target: str, kept: bytes) -> None:
        """Write down what is wanted of one flow."""
        self._flows[FlowName(source, target)].keep(msgspec.msgpack.decode(kept, type=Kept))
