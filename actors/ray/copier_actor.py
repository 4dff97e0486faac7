"""The copier actor: a thin shell around `engine.services.runner.Copier`.

Two event loops in one process: the data loop runs the engine; the `control` loop receives orders and returns reports
while the data loop is busy. The control loop touches two numbers of the engine: it sets the instant when the lease
ends, and reads the beat. Orders go to the data loop by `call_soon_threadsafe`; snapshots come back as frozen structs,
events through a deque whose append and popleft are atomic.

A task error in an actor is silent unless the task is awaited. So the supervisor keeps one call to `wait_closed` parked:
it returns after a drain, raises the engine's error, and fails with ActorDiedError when the process dies.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec
import ray

from actors.logging.logs import log_progress_events, setup_logging
from actors.model.messages import CopierSpec, Orders, Report
from engine.base.clock import Turns, beat_s, now_s
from engine.base.collecting import spare_what_lasts
from engine.base.errors import MirrorError
from engine.base.parts import parts
from engine.base.tasks import join
from engine.core.events.events import AnyEvent
from engine.core.reports.progress import FlowProgress
from engine.wire import native
from policies.model import PartitionSet
from policies.traffic import TrafficRules

SAMPLE_S, CALM_SAMPLE_S = 0.5, 1.0
"""Seconds between two snapshots while records arrive, and while none do."""
SWITCH_S = 0.0005
"""Seconds for which another thread may keep Python's lock while the data loop waits for it. Python's own 5 ms would add
up to 5 ms to records whenever the control loop or Ray's threads work. With one thread that works for 3 ms ten times a
second, the data loop of a test waited 3.0 ms at the 99th percentile, and with this value 0.6 ms."""
PATIENCE_S = 0.9
"""Seconds that a copier without news delays its answer: so there is one call a second, and news is sent at once."""
REST_PATIENCE_S = 3.0
"""The same while no snapshot says more than the one before: a call through Ray costs the two processes 4 ms of CPU.
Half of a lease, so a supervisor that dies has as long to be replaced before a lease ends."""
_SPARE_SAMPLES, _SPARE_S, _LEAST_SAMPLES = 20, 3.0, 3
"""After a snapshot none begins for 20 times as long as it took, but no longer than 3 s: one of 2,500 lanes takes 40 ms.
One of tens of thousands takes seconds: then none begins for 3 times as long."""
_COMPARED_AT_ONCE = 200
"""Lanes compared before other tasks of the data loop may run, which takes 0.3 ms."""
ABANDONED_S = 300.0
"""Seconds without orders after which a copier ends itself: its positions are durable, and it has no supervisor."""
EVENTS_KEPT = 1000  # of one copier, not fetched yet; the supervisor fetches every second


class Abandoned(MirrorError):
    """No supervisor has sent orders to this copier for a long time."""

    def __init__(self, copier_id: str, silent_s: float) -> None:
        super().__init__(copier_id, silent_s)
        self.copier_id, self.silent_s = copier_id, silent_s

    def __str__(self) -> str:
        return f"{self.copier_id}: no supervisor has sent orders for {self.silent_s:.0f} s; the copier ended itself"


class _Sample(NamedTuple):
    """A snapshot and its number; one value, because the data loop writes it and the control loop reads it."""

    number: int
    progress: FlowProgress


class Engine(Protocol):
    """The part of `engine.services.runner.Copier` that the actor uses."""

    lease_until_s: float

    @property
    def beat(self) -> int: ...
    async def run(self) -> None: ...
    def assign(self, partition_set: PartitionSet) -> None: ...
    async def release(self, set_id: str) -> None: ...
    def pause(self, topics: frozenset[str] | None) -> None: ...
    def resume(self, topics: frozenset[str] | None) -> None: ...
    def progress(self) -> FlowProgress: ...
    async def progress_in_turns(self) -> FlowProgress: ...
    async def drain(self) -> None: ...
    def limit(self, traffic: TrafficRules) -> None: ...


def make_engine(spec: CopierSpec) -> Engine:
    """Read the configuration in the copier's own process and build the engine of one flow."""
    from actors.config import config_ref
    from engine.services.runner import Copier

    config = config_ref.load(spec.config)
    flow = next(flow for flow in config.flows if flow.name == spec.flow)
    engine = Copier(config, flow, copier_id=spec.copier_id, deployment_id=spec.deployment_id)
    spare_what_lasts()
    sys.setswitchinterval(SWITCH_S)
    return engine


class CopierActor:
    """One copier process of one flow."""

    def __init__(self, spec: bytes, make: Callable[[CopierSpec], Engine] = make_engine) -> None:
        self._spec = msgspec.msgpack.decode(spec, type=CopierSpec)
        self._logs = setup_logging(self._spec.namespace, self._spec.copier_id, flow=str(self._spec.flow))
        self._engine = make(self._spec)
        self._engine.lease_until_s = 0.0  # until a supervisor grants one, nothing is copied
        self._node: str = ray.get_runtime_context().get_node_id() if ray.is_initialized() else ""
        self._loop = asyncio.get_running_loop()
        self._group: asyncio.TaskGroup | None = None
        self._events: deque[AnyEvent] = deque(maxlen=EVENTS_KEPT)
        self._latest = _Sample(1, self._engine.progress())
        self._sampling = asyncio.Lock()
        self._heard = Orders(term=0, version=0, sets=None, lease_s=0.0)
        self._traffic: TrafficRules | None = None
        """The last part of the bandwidth that it heard; the control loop writes it."""
        self._heard_at_s = now_s()
        self._ordered = self._followed = self._heard
        self._has_orders = asyncio.Event()
        self._held: dict[str, PartitionSet] = {}
        self._released: dict[str, PartitionSet] = {}
        """Sets that the engine has released, and that are still reported as held."""
        self._has_released = asyncio.Event()
        self._news = 0
        self._answered_news = 0
        self._answer_now = asyncio.Event()  # belongs to the control loop from its first wait on
        self._changes = self._answered_changes = 0
        """Snapshots that said more than the one before, and how many of them the last answer knew."""
        self._rests = False
        """Whether an answer is delayed until a snapshot says more."""
        self._control: asyncio.AbstractEventLoop | None = None
        self._drain_asked = asyncio.Event()
        self._task = self._loop.create_task(self._run())

    # --- the data loop ---------------------------------------------------------------------------------------

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            helpers = [
                group.create_task(one)
                for one in (self._follow_orders(), self._show_released(), self._sample(), self._drain_when_asked())
            ]
            try:
                await self._engine.run()
            finally:
                for helper in helpers:
                    helper.cancel()
        self._take_sample()
        self._signal_news()
        self._logs.close()

    async def _sample(self) -> None:
        while True:
            records, began_s = self._latest.progress.records, now_s()
            await self._take_sample_in_turns()
            took_s = now_s() - began_s
            if (silent_s := now_s() - self._heard_at_s) > ABANDONED_S:
                raise Abandoned(self._spec.copier_id, silent_s)
            rest_s = SAMPLE_S if self._latest.progress.records != records else beat_s(CALM_SAMPLE_S)
            await asyncio.sleep(max(rest_s, spared_s(took_s)))

    def _take_sample(self) -> None:
        self._take_events(snapshot := self._engine.progress())
        self._keep(snapshot)

    def _keep(self, snapshot: FlowProgress) -> None:
        self._latest = _Sample(self._latest.number + 1, msgspec.structs.replace(snapshot, events=()))

    async def _take_sample_in_turns(self) -> None:
        """Take a sample that begins now, between other tasks: of very many lanes it takes seconds on a busy machine."""
        async with self._sampling:  # else one that began earlier could end later
            before = self._latest.progress
            self._take_events(snapshot := await self._engine.progress_in_turns())
            self._keep(snapshot)
        if snapshot.events or await _says_more(snapshot, before):
            self._changes += 1
            if self._rests and self._control is not None:
                self._control.call_soon_threadsafe(self._answer_now.set)

    def _take_events(self, snapshot: FlowProgress) -> None:
        log_progress_events(snapshot)
        self._events.extend(snapshot.events)

    async def _drain_when_asked(self) -> None:
        await self._drain_asked.wait()
        await self._engine.drain()

    def _take_orders(self, orders: Orders) -> None:
        """Note the newest orders; they replace earlier ones, followed or not."""
        if (orders.term, orders.version) > (self._ordered.term, self._ordered.version):
            self._ordered = orders
            self._has_orders.set()

    async def _follow_orders(self) -> None:
        while True:
            await self._has_orders.wait()
            self._has_orders.clear()
            await self._follow(self._ordered)

    async def _follow(self, orders: Orders) -> None:
        """Apply orders, set by set in turns; a set that is being released becomes news when its release is done."""
        turns, before = Turns(), self._followed
        wanted = {group.set_id: group for group in orders.sets or ()}
        for set_id in self._held.keys() - wanted.keys():
            self._spawn_release(set_id, self._held[set_id])
        self._follow_pause(before, orders)  # first, so that a paused topic's new lane does not fetch
        # the newest first: a lane that moves to a newer set must not be released with its old set
        for set_id, group in sorted(wanted.items(), key=lambda item: -item[1].epoch):
            if self._held.get(set_id) != group:
                self._held = {**self._held, set_id: group}  # swapped, because the control loop reads it
                self._engine.assign(group)
            await turns.rest()
        if orders.drain:
            self._drain_asked.set()
        await self._take_sample_in_turns()
        self._followed = orders  # last: a report of the control loop with these orders must contain their effects
        self._signal_news()

    def _spawn_release(self, set_id: str, leaving: PartitionSet) -> None:
        if self._group is not None:
            self._group.create_task(self._release(set_id, leaving))

    async def _release(self, set_id: str, leaving: PartitionSet) -> None:
        if self._held.get(set_id) is not leaving:
            return  # before this task started, an earlier release ended, or the set was assigned again
        await self._engine.release(set_id)
        self._released[set_id] = leaving
        self._has_released.set()

    async def _show_released(self) -> None:
        """Report released sets, those of one moment together: a snapshot of many lanes takes long."""
        while True:
            await self._has_released.wait()
            self._has_released.clear()
            released, self._released = self._released, {}
            await self._take_sample_in_turns()  # first: the control loop reads what is held before the snapshot
            # a set that was assigned again meanwhile stays
            self._held = {kept: one for kept, one in self._held.items() if released.get(kept) is not one}
            self._signal_news()

    def _follow_pause(self, before: Orders, orders: Orders) -> None:
        if orders.paused:
            self._engine.pause(None)
        if not orders.paused and (before.paused or orders.wake != before.wake):
            self._engine.resume(None)  # also if topics stay paused: a resume retries lanes that have failed
        elif freed := before.paused_topics - orders.paused_topics:
            self._engine.resume(freed)
        if orders.paused_topics:
            self._engine.pause(orders.paused_topics)

    def _signal_news(self) -> None:
        self._news += 1
        if self._control is not None:
            self._control.call_soon_threadsafe(self._answer_now.set)

    # --- calls to the data loop ------------------------------------------------------------------------------

    async def hello(self) -> None:
        """Answer, once the engine is built."""

    async def wait_closed(self) -> bytes:
        """Wait for the end; return the last progress, or raise the engine's error."""
        await join(self._task)
        return msgspec.msgpack.encode(self._with_events(self._latest.progress))

    # --- calls to the control loop ---------------------------------------------------------------------------

    @ray.method(concurrency_group="control")
    async def attend(self, orders: bytes) -> bytes:
        """Receive orders, return a Report: at once if there is news, else after PATIENCE_S seconds."""
        heard = msgspec.msgpack.decode(orders, type=Orders)
        if heard.term >= self._heard.term:
            self._accept(heard)
        self._answer_now.set()  # an earlier call that still waits is superseded
        if self._answered_news == self._news:
            await self._wait_for_news(may_rest=heard.stamp > 0.0)  # else this supervisor has granted no lease yet
        self._answered_news, self._answered_changes = self._news, self._changes
        return msgspec.msgpack.encode(self._report(introduce=heard.version == 0, known=heard.sample))

    def _accept(self, orders: Orders) -> None:
        self._control = asyncio.get_running_loop()
        if orders.stamp and not orders.unsure:
            self._engine.lease_until_s = max(self._engine.lease_until_s, orders.stamp + orders.lease_s)
        self._heard_at_s = now_s()
        if orders.traffic is not None and orders.traffic != self._traffic:
            self._traffic = orders.traffic
            self._loop.call_soon_threadsafe(self._engine.limit, orders.traffic)
        if orders.version and (orders.term, orders.version) > (self._heard.term, self._heard.version):
            self._loop.call_soon_threadsafe(self._take_orders, orders)
        self._heard = orders

    async def _wait_for_news(self, *, may_rest: bool) -> None:
        now = self._answer_now = asyncio.Event()
        if await _is_set_within(now, PATIENCE_S) or not may_rest:
            return
        self._rests = True  # first, so that no change is missed between the two
        try:
            if self._changes == self._answered_changes:
                await _is_set_within(now, REST_PATIENCE_S - PATIENCE_S)
        finally:
            self._rests = False

    def _report(self, *, introduce: bool, known: int) -> Report:
        followed = self._followed  # first, as it is written last
        held, sample = self._held, self._latest
        progress = self._with_events(sample.progress)
        if same_lanes := sample.number == known:
            progress = msgspec.structs.replace(progress, lanes=())
        return Report(
            copier_id=self._spec.copier_id,
            fingerprint=self._spec.fingerprint,
            node=self._node,
            term=self._heard.term,
            version=followed.version if followed.term == self._heard.term else 0,
            stamp=now_s(),
            beat=self._engine.beat,  # not the snapshot's: of many lanes it takes seconds on a busy machine
            held={set_id: group.epoch for set_id, group in held.items()},
            progress=progress,
            sets=tuple(held.values()) if introduce else (),
            sample=sample.number,
            same_lanes=same_lanes,
            batches=native.in_use(),
        )

    def _with_events(self, progress: FlowProgress) -> FlowProgress:
        events = []
        while self._events:
            events.append(self._events.popleft())
        return msgspec.structs.replace(progress, events=tuple(events))


def spared_s(took_s: float) -> float:
    """Return how long no snapshot begins after one that took so many seconds."""
    return max(_LEAST_SAMPLES * took_s, min(_SPARE_SAMPLES * took_s, _SPARE_S))


async def _says_more(now: FlowProgress, before: FlowProgress) -> bool:
    """Whether a snapshot has news, besides events; looks at the lanes in turns with other tasks."""
    if now.totals != before.totals:
        return True
    turns = Turns()
    for some, same in zip(parts(now.lanes, _COMPARED_AT_ONCE), parts(before.lanes, _COMPARED_AT_ONCE), strict=True):
        if any(one.facts != then.facts for one, then in zip(some, same, strict=True)):
            return True
        await turns.rest()
    return False


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
