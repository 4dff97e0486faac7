"""The supervisor: compares what is with what is wanted, once a second, and says what to do. No Ray here.

One step: bury who ended, look at what Metadata found, staff each flow, place free sets, tell copiers, collect
progress. A call that does not come back is said again in the next step; nothing else is retried. The state lives in
memory only: a restarted supervisor ends the copiers it finds and starts new ones at higher assignment epochs, which
is what the positions topic is there for.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from actors.desk import FlowDesk, Plan, Seat
from actors.ports import CopierUnreachable, Fleet, MetadataPort
from actors.states import Command, CopierState, Desired, Sign, desired_after
from actors.status import EventLine, MirrorStatus
from engine.core.events import AnyEvent
from engine.core.progress import FlowProgress
from engine.errors import MirrorError
from policies.model import FlowName

EVENTS_KEPT = 500
QUICK_DEATH_S = 60.0  # a copier that ends sooner than this after its start slows the next start down
BACKOFF_MAX_S = 30.0


class UnknownFlow(MirrorError):
    """A command named a flow that this mirror does not have."""

    def __init__(self, flow: str, known: tuple[str, ...]) -> None:
        super().__init__(flow, known)
        self.flow, self.known = flow, known

    def __str__(self) -> str:
        return f"no flow {self.flow!r} in this mirror; it has: {', '.join(self.known)}"


class FlowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the supervisor needs to know of a flow: its name and how many copiers it gets."""

    name: FlowName
    copiers: int = 1


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who this mirror is: shown by `status`, compared by `run` before it joins one."""

    namespace: str
    version: str
    config_path: str
    config_digest: str


class Supervisor:
    """Keeps a mirror as it is wanted. `clock_s` is monotonic, `wall_ms` is Unix time."""

    def __init__(
        self,
        identity: Identity,
        flows: Iterable[FlowPlan],
        *,
        fleet: Fleet,
        metadata: MetadataPort,
        plan: Plan,
        clock_s: Callable[[], float],
        wall_ms: Callable[[], int],
        drain_s: float,
    ) -> None:
        self.identity = identity
        self.desired = Desired.RUNNING
        self._draining = False
        self._desks = {flow.name: FlowDesk(flow.name, copiers=flow.copiers, plan=plan) for flow in flows}
        self._fleet, self._metadata = fleet, metadata
        self._clock_s, self._wall_ms = clock_s, wall_ms
        self._drain_s = drain_s
        self._events: deque[EventLine] = deque(maxlen=EVENTS_KEPT)
        self._began_at = clock_s()

    async def step(self) -> None:
        """Do one round. Raises only on a bug: what fails outside becomes an event or a reason in `status`."""
        await self._bury()
        if self._draining:
            await self._drain()
        else:
            await self._look()
            for desk in self._desks.values():
                self._staff(desk)
                desk.place()
        await self._tell_and_collect()
        for desk in self._desks.values():
            desk.mark(self._clock_s())

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> None:
        """Note a command; the next step carries it out. Raises UnknownFlow, UnknownTopic, IllegalCommand."""
        if command is Command.STOP:
            self.desired = desired_after(self.desired, command)
            self.drain()
            return
        after = desired_after(self.desired, command)
        desks = [self._desk(flow)] if flow is not None else list(self._desks.values())
        for desk in desks:
            desk.command(command, topics)
        if flow is None and not topics:
            self.desired = after

    def drain(self) -> None:
        """End the copying in order, whatever is wanted afterwards."""
        self._draining = True

    @property
    def is_drained(self) -> bool:
        """Whether every copier is gone after `drain` or a stop."""
        return self._draining and not any(desk.seats for desk in self._desks.values())

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        """Say how everything is; `lanes` adds every lane, which can be many."""
        return MirrorStatus(
            namespace=self.identity.namespace,
            version=self.identity.version,
            config_path=self.identity.config_path,
            config_digest=self.identity.config_digest,
            desired=self.desired,
            phase=self._phase(),
            at_ms=self._wall_ms(),
            up_s=self._clock_s() - self._began_at,
            flows=tuple(desk.status() for desk in self._desks.values()),
            copiers=tuple(copier for desk in self._desks.values() for copier in desk.copier_statuses()),
            events=tuple(self._events),
            lanes=tuple(lane for desk in self._desks.values() for lane in desk.lanes()) if lanes else (),
        )

    def _phase(self) -> str:
        if self._draining:
            return "stopped" if self.is_drained else "draining"
        seats = [seat for desk in self._desks.values() for seat in desk.seats.values()]
        return "running" if any(seat.state is CopierState.READY for seat in seats) else "starting"

    def _desk(self, flow: str) -> FlowDesk:
        for name, desk in self._desks.items():
            if str(name) == flow:
                return desk
        raise UnknownFlow(flow, tuple(str(name) for name in self._desks))

    async def _bury(self) -> None:
        for desk in self._desks.values():
            for copier_id, seat in list(desk.seats.items()):
                vital = seat.port.vital()
                if vital.state == "ready":
                    seat.sign(Sign.ANSWERED)
                if vital.state not in ("closed", "dead"):
                    continue
                seat.sign(Sign.ENDED)
                if vital.last is not None:
                    self._take_progress(seat, vital.last)
                if seat.drain_asked_at is None:
                    self._unexpected_end(desk, copier_id, seat, vital.cause or "returned without being asked")
                elif vital.state == "dead":
                    self._note("warning", desk.flow, f"{copier_id} died while it drained: {vital.cause}")
                desk.vacate(copier_id)
                await self._fleet.retire(seat.port)

    def _unexpected_end(self, desk: FlowDesk, copier_id: str, seat: Seat, cause: str) -> None:
        lived_s = self._clock_s() - seat.started_at
        desk.quick_deaths = desk.quick_deaths + 1 if lived_s < QUICK_DEATH_S else 0
        # The first replacement comes at once: that is the case of a lost process. A copier that cannot live is slow.
        wait_s = min(BACKOFF_MAX_S, 2.0 ** (desk.quick_deaths - 1)) if desk.quick_deaths > 1 else 0.0
        desk.start_not_before = self._clock_s() + wait_s
        again = f"; the next one starts in {wait_s:.0f} s" if wait_s else "; its partitions move to a new one"
        self._note("error", desk.flow, f"{copier_id} ended: {cause}{again}")

    async def _look(self) -> None:
        for desk in self._desks.values():
            try:
                found = await self._metadata.found(desk.flow)
            except CopierUnreachable as unreachable:
                desk.failure = str(unreachable)
                continue
            if found.failure and found.failure != desk.failure:
                self._note("error", desk.flow, found.failure)
            desk.take(found)
            self._keep(found.events)

    def _staff(self, desk: FlowDesk) -> None:
        if self._clock_s() < desk.start_not_before:
            return
        while len(desk.seats) < desk.copiers_wanted:
            copier_id = desk.next_copier_id()
            desk.seats[copier_id] = Seat(self._fleet.start_copier(desk.flow, copier_id), self._clock_s())

    async def _drain(self) -> None:
        for desk in self._desks.values():
            for copier_id, seat in list(desk.seats.items()):
                if seat.drain_asked_at is None:
                    seat.drain_asked_at = self._clock_s()
                    await self._ask_drain(desk, copier_id, seat)
                elif self._clock_s() - seat.drain_asked_at > self._drain_s:
                    self._note("warning", desk.flow, f"{copier_id} did not drain in {self._drain_s:.0f} s; killed")
                    desk.vacate(copier_id)
                    await self._fleet.retire(seat.port)

    async def _ask_drain(self, desk: FlowDesk, copier_id: str, seat: Seat) -> None:
        if seat.state is CopierState.STARTING:  # it has nothing in flight, and may never answer
            desk.vacate(copier_id)
            await self._fleet.retire(seat.port)
            return
        seat.sign(Sign.DRAIN_ASKED)
        try:
            await seat.port.drain()
        except CopierUnreachable as unreachable:
            self._note("warning", desk.flow, str(unreachable))

    async def _tell_and_collect(self) -> None:
        async with asyncio.TaskGroup() as group:
            for desk in self._desks.values():
                for copier_id, seat in desk.seats.items():
                    if seat.state in (CopierState.READY, CopierState.DRAINING):
                        group.create_task(self._attend(desk, copier_id, seat))

    async def _attend(self, desk: FlowDesk, copier_id: str, seat: Seat) -> None:
        try:
            if seat.state is CopierState.READY:
                await self._tell_wanted(desk, seat)
                for partition_set in desk.undelivered(copier_id):
                    await seat.port.assign(partition_set)
                    seat.delivered[partition_set.set_id] = partition_set
            self._take_progress(seat, await seat.port.progress())
            seat.trouble = ""
        except CopierUnreachable as unreachable:
            seat.trouble = str(unreachable)

    async def _tell_wanted(self, desk: FlowDesk, seat: Seat) -> None:
        wanted, told = desk.wanted, seat.told
        if wanted == told:
            return
        if wanted.state is Desired.PAUSED:
            await seat.port.pause(None)
        elif told.state is Desired.PAUSED or (wanted.wake != told.wake and not wanted.paused_topics):
            await seat.port.resume(None)
        if freed := told.paused_topics - wanted.paused_topics:
            await seat.port.resume(freed)
        if wanted.paused_topics:
            await seat.port.pause(wanted.paused_topics)
        seat.told = wanted

    def _take_progress(self, seat: Seat, progress: FlowProgress) -> None:
        seat.progress = progress
        self._keep(progress.events)

    def _keep(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self._note(event.severity, event.flow, event.text())

    def _note(self, severity: str, flow: FlowName, text: str) -> None:
        self._events.append(EventLine(at_ms=self._wall_ms(), severity=severity, flow=str(flow), text=text))
