"""The metadata actor: discovers what to copy, stores the wanted state and the events of each flow.

A thin shell around the engine's services, six per flow. It has no state of its own, so it may be replaced; this mirror
owns the flow during that time too, because the state topic knows the mirror by its instance id.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from math import inf

import msgspec

from actors.config.effective import BESIDE, HEARTBEATS, only
from actors.control.ports import DiscoveryAnswer, RememberedFlow
from actors.logging.logs import setup_logging
from actors.model.events import unpack
from actors.model.messages import AlteredOffset, MirrorSpec, StoredOffset
from actors.model.states import Desired
from actors.ray.durable_flow_state import CLOSE_S, DurableFlowState, NotOpen
from actors.ray.watch import (
    AuditLike,
    ConfigServiceLike,
    DrillsLike,
    HistoryLike,
    LoopServiceLike,
    PositionsLike,
    RunsUntilCancelled,
    Watch,
    make_watches,
)
from engine.base.clock import now_s
from engine.base.errors import ClusterAway, MirrorError, NotReady, SameCluster
from engine.base.tasks import join
from engine.core.events.events import AnyEvent, CopyDeleted, TopicCreated
from engine.core.events.summary import summarised
from engine.core.reports.config_report import ConfigReport
from engine.core.reports.group_report import GroupsReport
from engine.flow.config_history.keeper import HistoryFailed
from engine.flow.config_sync.audit import AuditFailed, discovered, new_run
from policies.model import FlowName

EVENTS_KEPT = 1000
RETRY_S = (0.2, 0.5, 1.0, 2.0)  # after rounds that failed; a broker's restart takes a few seconds
NOT_READY_S = 15.0  # after checks that found why a flow cannot start
SOON_S = 1.0  # between two rounds while topics are being created, or there is nothing to copy
_REST_OF_ROUNDS = 5
"""After a round of discovery, how many times as long as it took none begins: one of 50,000 topics takes seconds."""
LOOK_S = 1.0
"""Seconds between two looks for news while a question waits for them; a look costs far less than a call."""
_log = logging.getLogger("raymirror")
REPORTED_AFTER = 3  # failed rounds in a row: a topic that was just created has no leader for a moment


class FlowLoops:
    """The services of one flow as running tasks, and their latest results."""

    def __init__(self, watch: Watch, made: int = 0) -> None:
        self._watch = watch
        self.made = made
        """The number of the reload that created it; 0: it was created with the actor."""
        self.memory = DurableFlowState(watch.state, str(watch.flow))
        self._found = DiscoveryAnswer(serial=0)
        self._failures = 0
        self._anew = asyncio.Event()
        self._reached = asyncio.Event()
        """Set when services may begin: both clusters were reached, and the checks of a start were done."""
        if not watch.late:
            self._reached.set()
        self._events: deque[AnyEvent] = deque(maxlen=EVENTS_KEPT)
        self._answered: DiscoveryAnswer | None = None
        """The substance of the last answer."""
        self._given: tuple[AnyEvent, ...] = ()
        """The events of the last answer: the next question says that they have arrived."""
        self._services = [service for service in (watch.groups, watch.configs) if service is not None]
        self._group: asyncio.TaskGroup | None = None
        self._beating: asyncio.Task[None] | None = None
        watch.service.may_delete = self._may_write
        watch.service.moved = self._moved
        if watch.configs is not None:
            watch.configs.moved = self._moved
        for service in self._services:
            service.may_write = self._may_write
        if watch.drills is not None:
            watch.drills.may_drill = self._may_drill

    def _may_drill(self) -> bool:
        """Whether a drill may begin: this mirror owns the flow, which is neither paused nor stopped."""
        kept = self.memory.kept
        return self.memory.holds and kept is not None and kept.state is Desired.RUNNING

    def _moved(self) -> tuple[str, ...]:
        """Return the topics whose producers write to copies of the same names on the target."""
        return self.memory.kept.moved_topics if self.memory.kept is not None else ()

    def _may_write(self) -> bool:
        """Whether services may write: this mirror owns the flow, and the stored state is not "stopped"."""
        kept = self.memory.kept
        return self.memory.holds and (kept is None or kept.state is not Desired.STOPPED)

    async def run(self) -> None:
        """Run the services for as long as the actor lives. Raises only on a bug."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._discover())
            group.create_task(self.memory.run())
            group.create_task(self._watch.events.run())
            if self._watch.audit is not None:
                group.create_task(self._watch.audit.run())
            if self._watch.history is not None:
                group.create_task(self._watch.history.run())
            if self._watch.drills is not None:
                group.create_task(self._drill(self._watch.drills))
            self._group = group
            self._begin_beats()
            for service in self._services:
                group.create_task(self._keep_in_step(service))

    async def _drill(self, drills: DrillsLike) -> None:
        await self._reached.wait()
        await drills.run()

    def _begin_beats(self) -> None:
        if self._group is not None and self._watch.beats is not None:
            self._beating = self._group.create_task(self._beat(self._watch.beats(self._events.append)))

    async def _beat(self, beats: RunsUntilCancelled) -> None:
        await self._reached.wait()
        await beats.run()

    def adopts(self, watch: Watch) -> bool:
        """Apply other settings of the same flow if at most the heartbeat service must be created again for them; return
        whether they were applied.
        """
        mine, other = self._watch.settings, watch.settings
        if only(mine, without=(HEARTBEATS, BESIDE)) != only(other, without=(HEARTBEATS, BESIDE)):
            return False
        if mine != other:
            self._watch = msgspec.structs.replace(self._watch, beats=watch.beats, settings=other)
            if self._beating is not None:
                self._beating.cancel()
            self._begin_beats()
        return True

    async def _keep_in_step(self, service: LoopServiceLike[GroupsReport] | LoopServiceLike[ConfigReport]) -> None:
        try:
            await self._reached.wait()
            await service.run()
        finally:
            await service.close()

    async def _discover(self) -> None:
        while True:
            try:
                await self._watch.service.open()
                self._reached.set()
                await self._rounds()
            except (MirrorError, OSError, TimeoutError) as failure:
                self._failures += 1
                if isinstance(failure, SameCluster):  # a copy into its own source would copy its own records for ever
                    serial = self._found.serial + bool(self._found.lanes)
                    self._found = msgspec.structs.replace(self._found, serial=serial, lanes=(), failure=str(failure))
                elif self._failures >= REPORTED_AFTER or isinstance(failure, ClusterAway | NotReady):
                    self._found = msgspec.structs.replace(self._found, failure=str(failure))
                await asyncio.sleep(_pause_s(failure, self._failures))
            finally:
                await self._watch.service.close()

    def read_again(self) -> None:
        """Forget the last discovery, and answer only with a new one: another supervisor asks.

        The previous supervisor may have given sets at epochs whose copiers died with it: only positions have these.
        """
        self._found = DiscoveryAnswer(serial=0)
        self._events.extendleft(reversed(self._given))  # perhaps the previous supervisor died before they arrived
        self._given = ()
        self._anew.set()

    async def _rounds(self) -> None:
        while True:
            if self._anew.is_set():
                self._anew.clear()
                self._watch.service.forget_epochs()
            began_s = now_s()
            discovery = await self._watch.service.step()
            took_s = now_s() - began_s
            self._failures = 0
            self._events.extend(summarised(discovery.events))
            if self._watch.audit is not None:
                run = new_run(self._watch.flow, self._watch.audit.who)
                self._watch.audit.add(discovered(run, discovery.events))
            if self._anew.is_set():
                continue  # requested during the discovery
            known = self._found.lanes
            lanes = known if discovery.lanes == known else discovery.lanes  # the same object: quickly compared
            self._found = DiscoveryAnswer(
                serial=self._found.serial + 1,
                lanes=lanes,
                highest_epoch=discovery.highest_epoch,
                target_id=discovery.target_id,
            )
            # every broker knows a new topic a moment later: discover again soon
            made = any(isinstance(event, TopicCreated | CopyDeleted) for event in discovery.events)
            unsettled = not discovery.lanes or made
            every_s = min(self._watch.every_s, SOON_S) if unsettled else self._watch.every_s
            rest_s = max(every_s, _REST_OF_ROUNDS * took_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rest_s if rest_s < inf else None):
                    await self._anew.wait()

    @property
    def has_news(self) -> bool:
        """Whether the next answer says more than the last one."""
        self._take_events()
        return bool(self._events) or _substance(self._present) != self._answered

    @property
    def _present(self) -> DiscoveryAnswer:
        """All facts of an answer, without its events and the time since the last renewal."""
        groups, configs, memory = self._watch.groups, self._watch.configs, self.memory
        return msgspec.structs.replace(
            self._found,
            kept=memory.known,
            taken=memory.taken,
            failure=self._found.failure or memory.trouble,
            awaited=memory.awaited,
            groups=groups.report if groups is not None else None,
            configs=configs.report if configs is not None else None,
            round_id=configs.desk.wanted if configs is not None and configs.desk is not None else "",
            memory_id=configs.memory[0] if configs is not None else "",
            drill=self._watch.drills.standing if self._watch.drills is not None else None,
        )

    def _take_events(self) -> None:
        audits = [self._watch.audit] if self._watch.audit is not None else []
        for one in (*self._services, *audits, self._watch.events):
            self._events.extend(one.take_events())

    def answer(self) -> DiscoveryAnswer:
        """Return the latest answer, with the events since the last call."""
        self._take_events()
        events, present = tuple(self._events), self._present
        self._events.clear()
        self._answered, self._given = _substance(present), events
        return msgspec.structs.replace(present, events=events, unrenewed_s=self.memory.unrenewed_s)

    @property
    def configs(self) -> ConfigServiceLike:
        """The service of its configs and ACLs. Raises LookupError if it has none."""
        if self._watch.configs is None:
            raise LookupError(f"{self._watch.flow} syncs no configs")
        return self._watch.configs

    async def positions(self) -> tuple[StoredOffset, ...]:
        """Read how far each partition is copied. Raises LookupError if nothing can, and what reading raises."""
        return await self._positions.read()

    async def alter_positions(self, wanted: tuple[AlteredOffset, ...] | None) -> None:
        """Set positions; None: remove all. Raises NotOpen, LookupError if nothing can, and what writing raises."""
        if not self.memory.holds:
            raise NotOpen(self.memory.taken or self.memory.trouble or "this mirror does not hold the flow now")
        await self._positions.alter(wanted)

    @property
    def _positions(self) -> PositionsLike:
        if self._watch.positions is None:
            raise LookupError(f"{self._watch.flow} has no reader of positions")
        return self._watch.positions

    def store_events(self, events: bytes) -> None:
        self._watch.events.append(unpack(events))

    async def close(self) -> None:
        """Write what is still unwritten and give the flow back, within a few seconds."""
        await self.memory.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._watch.events.flush()
                for trail in (self._watch.audit, self._watch.history):
                    if trail is not None:
                        await self._flush(trail)

    async def _flush(self, trail: AuditLike | HistoryLike) -> None:
        try:
            await trail.flush()
        except (AuditFailed, HistoryFailed) as failure:
            _log.error("%s", failure, extra={"flow": str(self._watch.flow)})  # the supervisor takes no more events


def _substance(answer: DiscoveryAnswer) -> DiscoveryAnswer:
    """Return an answer without what every round changes: numbers and times of rounds."""
    groups, configs = answer.groups, answer.configs
    return msgspec.structs.replace(
        answer,
        serial=min(answer.serial, 1),
        groups=groups if groups is None else msgspec.structs.replace(groups, at_ms=0, round_s=0.0),
        configs=configs if configs is None else msgspec.structs.replace(configs, at_ms=0),
    )


def _pause_s(failure: Exception, failures: int) -> float:
    """Return the seconds until the next try; longer after failed checks: an operator must act, and checks cost much."""
    return NOT_READY_S if isinstance(failure, NotReady) else RETRY_S[min(failures, len(RETRY_S)) - 1]


async def _after(former: asyncio.Task[None] | None, flow: FlowLoops) -> None:
    """Run a flow's services after the previous ones have ended; this mirror owns the flow throughout."""
    if former is not None:
        former.cancel()
        await asyncio.wait([former])
    await flow.run()


class MetadataActor:
    """All flows of one mirror."""

    def __init__(self, spec: bytes, make: Callable[[MirrorSpec], tuple[Watch, ...]] = make_watches) -> None:
        decoded = msgspec.msgpack.decode(spec, type=MirrorSpec)
        self._logs = setup_logging(decoded.namespace, "metadata")
        self._make = make
        self._flows = {watch.flow: FlowLoops(watch) for watch in make(decoded)}
        self._tasks: dict[FlowName, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._entered = asyncio.Event()
        self._reloads = 0
        self._answer_now = asyncio.Event()
        self._takeovers = 0
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for name, flow in self._flows.items():
                    self._tasks[name] = group.create_task(flow.run())
                self._entered.set()
                await asyncio.get_running_loop().create_future()  # flows may be given back, and others added
        finally:
            self._group = None
            self._entered.set()

    async def reload(self, spec: bytes) -> list[tuple[str, str, int]]:
        """Run the flows of another configuration; flows with unchanged settings continue untouched.

        Returns every flow with the number of the reload that created it. A flow that is not in the configuration stays
        until it is given back. May be repeated.
        """
        await self._entered.wait()
        if self._group is None:
            await join(self._task)
            raise RuntimeError("the rounds of the metadata actor have ended")  # `join` has raised the cause, if any
        self._reloads += 1
        for watch in self._make(msgspec.msgpack.decode(spec, type=MirrorSpec)):
            known = self._flows.get(watch.flow)
            if known is not None and known.adopts(watch):
                continue
            flow = self._flows[watch.flow] = FlowLoops(watch, self._reloads)
            former = self._tasks.get(watch.flow)
            self._tasks[watch.flow] = self._group.create_task(_after(former, flow))
        return [(*name, flow.made) for name, flow in self._flows.items()]

    async def give_back(self, source: str, target: str) -> None:
        """Write what is still unwritten for a flow, release the flow, and end its services. May be repeated."""
        flow = self._flows.pop(FlowName(source, target), None)
        task = self._tasks.pop(FlowName(source, target), None)
        if flow is None or task is None:
            return
        try:
            await flow.close()
        finally:
            task.cancel()

    async def found(
        self, asked: Sequence[tuple[str, str, bytes]], patience_s: float = 0.0
    ) -> tuple[float, list[bytes]]:
        """Take events to store (`asked`: source, target and events of each flow), return the latest discovery of each.

        The answer waits for news of some flow, up to `patience_s` seconds, a newer question, or `hurry`. The first part
        of the answer says how long it waited. Raises the error that ended the rounds.
        """
        asked_in, flows = self._takeovers, [self._flows[FlowName(source, target)] for source, target, _ in asked]
        for flow, (_, _, events) in zip(flows, asked, strict=True):
            flow.store_events(events)
        waited_s = await self._wait_for_news(flows, patience_s)
        if self._task.done():
            await join(self._task)
        if asked_in != self._takeovers:
            return waited_s, []  # whoever asked is gone: the events are for its successor
        return waited_s, [msgspec.msgpack.encode(flow.answer()) for flow in flows]

    async def _wait_for_news(self, flows: Sequence[FlowLoops], patience_s: float) -> float:
        """Look for news every LOOK_S seconds, for `patience_s` seconds at most; return how long that took."""
        self._answer_now.set()
        now = self._answer_now = asyncio.Event()
        began_s = now_s()
        while (left_s := began_s + patience_s - now_s()) > 0.0 and not now.is_set() and not self._task.done():
            if any(flow.has_news for flow in flows):
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, left_s)):
                    await now.wait()
        return now_s() - began_s

    async def hurry(self) -> None:
        """Have a question that waits for news answered now."""
        self._answer_now.set()

    async def read_again(self) -> None:
        """Answer for each flow only after a new discovery: another supervisor has taken this actor over."""
        self._takeovers += 1
        self._answer_now.set()
        for flow in self._flows.values():
            flow.read_again()

    async def store_state(self, source: str, target: str, state: bytes) -> None:
        """Store the state of one flow; returns when it is durable. Raises MirrorError."""
        await self._flows[FlowName(source, target)].memory.store(msgspec.msgpack.decode(state, type=RememberedFlow))

    async def positions(self, source: str, target: str) -> bytes:
        """Return how far each partition of a flow is copied by its position on the target: StoredOffsets as msgpack."""
        return msgspec.msgpack.encode(await self._flows[FlowName(source, target)].positions())

    async def alter_positions(self, source: str, target: str, wanted: bytes) -> None:
        """Set positions of one flow: AlteredOffsets as msgpack, None: remove all."""
        asked = msgspec.msgpack.decode(wanted, type=tuple[AlteredOffset, ...] | None)
        await self._flows[FlowName(source, target)].alter_positions(asked)

    async def config_round(self, source: str, target: str, round_id: str) -> bytes | None:
        """Return the request of a round that waits for a plan; None if it waits no longer."""
        desk = self._flows[FlowName(source, target)].configs.desk
        return desk.request(round_id) if desk is not None else None

    async def answer_round(self, source: str, target: str, round_id: str, plan: bytes | None, why: str) -> bool:
        """Take the plan of a round, or the reason why there is none; return False if the round waits no longer."""
        desk = self._flows[FlowName(source, target)].configs.desk
        if desk is None:
            return False
        return desk.refuse(round_id, why) if plan is None else desk.answer(round_id, plan)

    async def config_memory(self, source: str, target: str) -> tuple[str, bytes]:
        """Return what config sync remembers of a flow, and the id of that memory."""
        found = self._flows[FlowName(source, target)].configs.memory
        return found[0], found[1]

    async def remember_configs(self, source: str, target: str, memory: bytes) -> None:
        """Add what an earlier metadata actor of this mirror remembered of a flow."""
        self._flows[FlowName(source, target)].configs.remember(memory)

    async def close(self) -> None:
        """Give the flows back: the mirror ends."""
        async with asyncio.TaskGroup() as group:
            for flow in self._flows.values():
                group.create_task(flow.close())
        self._logs.close()
