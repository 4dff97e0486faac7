"""The metadata actor: finds what is to be copied, remembers what is wanted, writes down what happened.

A thin shell around the engine's keepers, six per flow. It holds nothing itself, so it may be replaced; the flow stays
ours meanwhile, because the state topic knows this mirror by its instance id.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from actors.events import unpack
from actors.logs import setup_logging
from actors.memory import CLOSE_S, EventKeeperLike, Memory, StateKeeperLike
from actors.messages import MirrorSpec
from actors.ports import Found, Kept
from actors.states import Desired
from engine.core.config_report import ConfigReport
from engine.core.events import AnyEvent, CopyDeleted, TopicCreated
from engine.core.group_report import GroupsReport
from engine.errors import MirrorError, SameCluster
from engine.flow.audit import AuditFailed, AuditRow, discovered, new_run
from engine.settings import FlowConfig
from engine.tasks import join
from policies.model import FlowName, LaneName

EVENTS_KEPT = 1000
RETRY_S = (0.2, 0.5, 1.0, 2.0)  # after rounds that failed; a broker's restart takes a few seconds
SOON_S = 1.0  # between two rounds while topics are being made, or there is nothing to copy
R_co = TypeVar("R_co", covariant=True)
_log = logging.getLogger("raymirror")
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

    may_delete: Callable[[], bool]

    async def open(self) -> None: ...
    async def step(self) -> DiscoveryLike: ...
    def forget_epochs(self) -> None: ...
    async def close(self) -> None: ...


class RoundsKeeper(Protocol[R_co]):
    """What the shell needs of an `engine.keeper.Keeper`."""

    may_write: Callable[[], bool]

    @property
    def report(self) -> R_co: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...


class Runs(Protocol):
    """A keeper that works until it is cancelled."""

    async def run(self) -> None: ...


class AuditLike(Protocol):
    """What the shell needs of an `engine.flow.audit.AuditTrail`."""

    who: str

    def add(self, rows: Sequence[AuditRow]) -> None: ...
    def take_events(self) -> tuple[AnyEvent, ...]: ...
    async def run(self) -> None: ...
    async def flush(self) -> None: ...


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """One flow to look after: its keepers, and the seconds between two rounds of discovery.

    `state` makes a keeper anew for each try, since one may be opened once; `beats` one that tells its events. `groups`
    is None where no groups are mirrored, `configs` where neither configs nor ACLs are kept in step. `audit`: the trail
    of what is changed on the target.
    """

    flow: FlowName
    keeper: Keeper
    state: Callable[[], StateKeeperLike]
    events: EventKeeperLike
    every_s: float
    groups: RoundsKeeper[GroupsReport] | None = None
    configs: RoundsKeeper[ConfigReport] | None = None
    beats: Callable[[Callable[[AnyEvent], None]], Runs] | None = None
    audit: AuditLike | None = None


def make_watches(spec: MirrorSpec) -> tuple[Watch, ...]:
    """Read the configuration in this actor's own process and make the keepers of each flow."""
    import socket
    from functools import partial

    from actors import config_ref
    from actors.events import KINDS
    from engine.config_keeper import ConfigKeeper
    from engine.event_keeper import EventKeeper
    from engine.flow.audit import AuditTrail
    from engine.group_keeper import GroupKeeper
    from engine.heartbeat_keeper import HeartbeatKeeper
    from engine.jobs.audit_store import audit_store
    from engine.runner import TopicKeeper
    from engine.state import Deployment, Holder
    from engine.state_keeper import StateKeeper

    config = config_ref.load(spec.config)
    holder = Holder(
        deployment_id=spec.deployment_id,
        instance_id=spec.instance_id,
        mirror=spec.namespace,
        version=spec.version,
        where=socket.gethostname(),
    )

    def known_dead(owner: Deployment) -> bool:
        return bool(spec.dead_instance) and owner.instance_id == spec.dead_instance

    store = audit_store(config)
    who = f"mirror {spec.namespace} on {holder.where}"

    def watch(flow: FlowConfig) -> Watch:
        audit = AuditTrail(flow.name, who, store)
        return Watch(
            flow=flow.name,
            keeper=TopicKeeper(config, flow),
            state=partial(StateKeeper, config, flow, holder, known_dead),
            events=EventKeeper(config, flow, KINDS),
            every_s=flow.refresh_topics_s,
            beats=partial(HeartbeatKeeper, config, flow),
            groups=GroupKeeper(config, flow),
            configs=ConfigKeeper(config, flow, audit=audit),
            audit=audit,
        )

    return tuple(watch(flow) for flow in config.flows)


class FlowWatch:
    """The rounds of one flow, and what they found."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.memory = Memory(watch.state)
        self._found = Found(serial=0)
        self._failures = 0
        self._anew = asyncio.Event()
        self._events: deque[AnyEvent] = deque(maxlen=EVENTS_KEPT)
        self._keepers = [keeper for keeper in (watch.groups, watch.configs) if keeper is not None]
        watch.keeper.may_delete = self._may_write
        for keeper in self._keepers:
            keeper.may_write = self._may_write

    def _may_write(self) -> bool:
        """Whether anything may be kept in step: the flow is ours, and nothing remembered says that it stopped."""
        kept = self.memory.kept
        return self.memory.holds and (kept is None or kept.state is not Desired.STOPPED)

    async def run(self) -> None:
        """Look, for as long as the actor lives. Raises only on a bug."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look())
            group.create_task(self.memory.run())
            group.create_task(self._watch.events.run())
            if self._watch.audit is not None:
                group.create_task(self._watch.audit.run())
            if self._watch.beats is not None:
                group.create_task(self._watch.beats(self._events.append).run())
            for keeper in self._keepers:
                group.create_task(self._keep_in_step(keeper))

    async def _keep_in_step(self, keeper: RoundsKeeper[GroupsReport] | RoundsKeeper[ConfigReport]) -> None:
        try:
            await keeper.run()
        finally:
            await keeper.close()

    async def _look(self) -> None:
        while True:
            try:
                await self._watch.keeper.open()
                await self._rounds()
            except (MirrorError, OSError, TimeoutError) as failure:
                self._failures += 1
                if isinstance(failure, SameCluster):  # every record that is copied now is one more to copy
                    serial = self._found.serial + bool(self._found.lanes)
                    self._found = msgspec.structs.replace(self._found, serial=serial, lanes=(), failure=str(failure))
                elif self._failures >= TOLD_AFTER:
                    self._found = msgspec.structs.replace(self._found, failure=str(failure))
                await asyncio.sleep(RETRY_S[min(self._failures, len(RETRY_S)) - 1])
            finally:
                await self._watch.keeper.close()

    def look_anew(self) -> None:
        """Tell nothing of what is known before it was looked at again: another supervisor asks.

        The one before gave out epochs that nobody knows of whose copier died with it, but for the positions.
        """
        self._found = Found(serial=0)
        self._anew.set()

    async def _rounds(self) -> None:
        while True:
            if self._anew.is_set():
                self._anew.clear()
                self._watch.keeper.forget_epochs()
            discovery = await self._watch.keeper.step()
            self._failures = 0
            self._events.extend(discovery.events)
            if self._watch.audit is not None:
                run = new_run(self._watch.flow, self._watch.audit.who)
                self._watch.audit.add(discovered(run, discovery.events))
            if self._anew.is_set():
                continue  # asked for during the look
            self._found = Found(
                serial=self._found.serial + 1, lanes=discovery.lanes, highest_epoch=discovery.highest_epoch
            )
            # A topic that was just made is known to every broker a moment later: look again soon.
            made = any(isinstance(event, TopicCreated | CopyDeleted) for event in discovery.events)
            unsettled = not discovery.lanes or made
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self._watch.every_s, SOON_S) if unsettled else self._watch.every_s):
                    await self._anew.wait()

    async def keep(self, kept: Kept) -> None:
        """Write down what is wanted; the groups of a flow that is stopped are left alone. Raises MirrorError."""
        await self.memory.keep(kept)

    def take(self) -> Found:
        """Give the latest, with the events since the last call."""
        groups, configs = self._watch.groups, self._watch.configs
        tellers = [*self._keepers, *([self._watch.audit] if self._watch.audit is not None else [])]
        events = tuple(self._events) + tuple(event for one in tellers for event in one.take_events())
        self._events.clear()
        memory = self.memory
        failure = self._found.failure or memory.trouble
        return msgspec.structs.replace(
            self._found,
            events=events,
            kept=memory.kept,
            taken=memory.taken,
            failure=failure,
            groups=groups.report if groups is not None else None,
            configs=configs.report if configs is not None else None,
        )

    def tell(self, events: bytes) -> None:
        """Have events written down."""
        self._watch.events.append(unpack(events))

    async def close(self) -> None:
        """Write down what is owed and give the flow back, within a few seconds."""
        await self.memory.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._watch.events.flush()
                if self._watch.audit is not None:
                    await self._watch.audit.flush()
        except TimeoutError:
            return
        except AuditFailed as failure:
            _log.error("%s", failure, extra={"flow": str(self._watch.flow)})  # nobody takes events any more


class MetadataShell:
    """All flows of one mirror."""

    def __init__(self, spec: bytes, make: Callable[[MirrorSpec], tuple[Watch, ...]] = make_watches) -> None:
        decoded = msgspec.msgpack.decode(spec, type=MirrorSpec)
        self._logs = setup_logging(decoded.namespace, "metadata")
        watches = make(decoded)
        self._flows: Mapping[FlowName, FlowWatch] = {watch.flow: FlowWatch(watch) for watch in watches}
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for flow in self._flows.values():
                group.create_task(flow.run())

    async def found(self, source: str, target: str, events: bytes) -> bytes:
        """Take events to write down, give the latest discovery of one flow; raises what ended the rounds."""
        if self._task.done():
            await join(self._task)
        flow = self._flows[FlowName(source, target)]
        flow.tell(events)
        return msgspec.msgpack.encode(flow.take())

    async def look_anew(self) -> None:
        """Look at all flows again before anything is told of them: another supervisor has taken this actor over."""
        for flow in self._flows.values():
            flow.look_anew()

    async def keep(self, source: str, target: str, kept: bytes) -> None:
        """Write down what is wanted of one flow; returns when it is durable."""
        await self._flows[FlowName(source, target)].keep(msgspec.msgpack.decode(kept, type=Kept))

    async def close(self) -> None:
        """Give the flows back: the mirror ends."""
        async with asyncio.TaskGroup() as group:
            for flow in self._flows.values():
                group.create_task(flow.close())
        self._logs.close()
