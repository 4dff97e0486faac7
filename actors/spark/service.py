"""Manages the mirror's Spark host: starts it when a job first needs it, and replaces it when it fails, ever later.

Knows no Ray: a `Hosts` starts hosts. Jobs are idempotent, so the jobs of a host that has ended run again on the next
one. Errors of Spark never leave this module: copying does not depend on Spark.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from actors.control.ports import Clock
from actors.model.spark_status import HostStatus, SparkNews, SparkState, SparkStatus
from actors.spark.activity import ActivityMonitor
from actors.spark.job_registry import JobRegistry
from actors.spark.proofs import Proofs
from actors.spark.standing_jobs import lag_job
from engine.base.errors import MirrorError
from engine.base.redaction import redacted
from engine.core.events.event_base import Event
from engine.core.reports.progress import LaneProgress
from engine.jobs.proof.state import FlowProof
from engine.jobs.runtime.runner import JobLine
from engine.jobs.runtime.table import entry_of
from policies.model import FlowName

STEP_S = 0.5
REST_STEP_S = 4.0
"""Seconds between two steps while only standing jobs run: no one waits for their end."""
START_S = 300.0
"""How long a host may take to open its session, in seconds (10-17 s on an idle machine; the first may fetch jars)."""
SILENT_S = 60.0
PAUSES_S = (2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds between the end of a host and the start of the next, by the number of failures in a row."""
REFUSED_S = 15.0
"""Seconds between two checks whether the missing thing exists by now."""
WELL_S = 300.0
"""After so many seconds in state ready, the count of failures starts at 0 again."""
NEWS_KEPT = 100


class HostGone(Exception):
    """A host's process has ended."""


class HostSilent(Exception):
    """A host did not answer in time, for an unknown reason."""


class JobRefused(Exception):
    """A host does not accept a job."""


class Host(Protocol):
    """One host. Every call raises HostGone or HostSilent."""

    async def status(self) -> HostStatus: ...
    async def submit(self, job_id: str, job: str, options: bytes) -> None:
        """Raises JobRefused too."""

    async def cancel(self, job_id: str) -> None: ...
    async def wake(self, job_id: str) -> None: ...
    async def report(self, job_id: str) -> bytes | None: ...
    async def events(self, after: int) -> tuple[int, tuple[Event, ...]]: ...
    async def close(self) -> None: ...
    def kill(self) -> None: ...


class Hosts(Protocol):
    """Starts and ends hosts."""

    def clear(self) -> None:
        """End the hosts that an earlier supervisor left."""

    def refusal(self) -> str:
        """Return why no host can be started now; empty if one can."""

    def start(self, name: str) -> Host:
        """Start a host under a name never used before; do not wait until it is ready."""


class SparkOff(MirrorError):
    """Spark is switched off."""

    def __str__(self) -> str:
        return "this mirror runs without Spark; to get it, set raymirror.spark = on and give the file to: raymirror run"


class _RunningHost:
    """A host that was started, and its last known status."""

    def __init__(self, host: Host, began_at_s: float) -> None:
        self.host = host
        self.began_at_s = self.heard_at_s = began_at_s
        self.ready_at_s: float | None = None
        self.seen = HostStatus()
        self.events = 0
        """How many events of its jobs the service has taken."""


class SparkService:
    """Spark in one mirror. `namespace` makes the names of its sessions; `proven`: flows with a continuous proof.

    `stays`: a host runs even if no job needs one, because jobs come and go that do not wait for a start.
    """

    def __init__(
        self,
        hosts: Hosts,
        clock: Clock,
        *,
        on: bool,
        namespace: str,
        proven: Iterable[FlowName] = (),
        stays: bool = False,
    ) -> None:
        self._stays = stays
        self._hosts, self._clock, self._on, self._namespace = hosts, clock, on, namespace
        self._jobs = JobRegistry()
        self._proofs = Proofs(proven, self._jobs)
        self._running: _RunningHost | None = None
        self._state = SparkState.IDLE if on else SparkState.OFF
        self._reason = ""
        self._failures = 0
        self._again_at_s = 0.0
        self._last_news: SparkNews | None = None
        self._news: deque[SparkNews] = deque(maxlen=NEWS_KEPT)
        self._events: deque[Event] = deque(maxlen=NEWS_KEPT)
        self._activity, self._to_wake = ActivityMonitor(), set[str]()
        self._nudge = asyncio.Event()

    # --- calls of the supervisor ------------------------------------------------------------------------------

    def status(self) -> SparkStatus:
        executors = self._running.seen.executors if self._running is not None else 0
        return SparkStatus(state=self._state, reason=self._reason, executors=executors, jobs=self._jobs.lines())

    def take_news(self) -> tuple[SparkNews, ...]:
        news = tuple(self._news)
        self._news.clear()
        return news

    def take_events(self) -> tuple[Event, ...]:
        events = tuple(self._events)
        self._events.clear()
        return events

    def proofs(self) -> dict[str, FlowProof]:
        return self._proofs.by_flow()

    def note_activity(self, flows: Iterable[tuple[FlowName, Iterable[LaneProgress]]]) -> None:
        if self._state is SparkState.READY:
            self._to_wake.update(map(lag_job, self._activity.active_flows(flows, self._clock.now_s())))
            if self._to_wake:
                self._nudge.set()

    def submit(self, job: str, options: bytes, job_id: str = "") -> str:
        """Run a job once, as soon as Spark is ready; return its id. Raises SparkOff, UnknownJob."""
        if not self._on:
            raise SparkOff
        entry_of(job)
        job_id = job_id or f"{job}-{uuid.uuid4().hex[:8]}"
        self._jobs.add(job_id, job, options)
        self._nudge.set()
        return job_id

    def submit_standing(self, name: str, job: str, options: bytes) -> None:
        """Run a standing job under its own id: it starts again whenever it has ended, after growing pauses.

        Raises SparkOff, UnknownJob.
        """
        self.submit(job, options, name)
        self._jobs.make_standing(name)

    def line(self, job_id: str) -> JobLine:
        """Return the state of a job. Raises UnknownJobId."""
        return self._jobs.line(job_id)

    def report(self, job_id: str) -> bytes | None:
        """Return the last report of a job, as msgpack; None before the first. Raises UnknownJobId."""
        return self._jobs.report(job_id)

    def cancel(self, job_id: str) -> None:
        """Ask a job to end soon, and not to start again. Raises UnknownJobId."""
        self._jobs.cancel(job_id)
        self._nudge.set()

    def drop(self, job_id: str) -> None:
        """End a job if it still runs, and forget it with its report; an unknown id is ignored."""
        self._jobs.drop(job_id)
        self._nudge.set()

    def clear_node(self, node: str) -> None:
        """If the host is on this node, which is being drained, restart Spark: Ray starts the next host elsewhere."""
        if self._running is not None and self._running.seen.node == node:
            self._fail(f"its node {node} is being drained")

    # --- the service's own loop -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Manage Spark for as long as the mirror lives."""
        try:
            try:
                self._hosts.clear()
            except Exception as error:  # noqa: BLE001 as in `_step_safely`
                self._fail(f"{type(error).__name__}: {redacted(str(error))}")
            while self._on:
                await self._step_safely()
                await self._pause()
        finally:
            self._drop()

    async def close(self, within_s: float) -> None:
        """Stop Spark in order; after `within_s` seconds, kill it."""
        running, self._running, self._on = self._running, None, False
        if running is not None:
            try:
                async with asyncio.timeout(within_s):
                    await running.host.close()
            except (TimeoutError, HostGone, HostSilent):
                pass  # the host is killed in any case
            running.host.kill()
        self._state, self._reason = SparkState.OFF, "the mirror ends"

    async def step(self) -> None:
        running = self._running
        if running is None:
            self._begin()
            return
        try:
            seen = await running.host.status()
            if running is self._running and self._note_status(running, seen):
                await self._serve(running)
        except HostGone as gone:
            if running is self._running:
                self._fail(str(gone))
        except HostSilent as silent:
            if running is self._running and self._clock.now_s() - running.heard_at_s > SILENT_S:
                self._fail(str(silent))

    async def _step_safely(self) -> None:
        try:
            await self.step()
        except Exception as error:  # noqa: BLE001 no error of Spark or Ray may stop the supervisor
            self._fail(f"{type(error).__name__}: {redacted(str(error))}")

    async def _pause(self) -> None:
        at_rest = self._running is None and self._jobs.is_done and not self._stays  # nothing changes by itself
        try:
            async with asyncio.timeout(None if at_rest else self._step_s()):
                await self._nudge.wait()
        except TimeoutError:
            return
        self._nudge.clear()

    def _step_s(self) -> float:
        return REST_STEP_S if self._state is SparkState.READY and self._jobs.is_steady else STEP_S

    def _begin(self) -> None:
        is_needed = self._stays or self._jobs.needs_host(self._clock.now_s())
        if not is_needed or self._clock.now_s() < self._again_at_s:
            return
        if why := self._hosts.refusal():
            self._refuse(why)
            return
        host = self._hosts.start(f"{self._namespace}-{uuid.uuid4().hex[:8]}")
        self._running = _RunningHost(host, self._clock.now_s())
        if self._failures == 0 and self._state is not SparkState.REFUSED:
            self._state, self._reason = SparkState.STARTING, ""

    def _note_status(self, running: _RunningHost, seen: HostStatus) -> bool:
        """Take the status of a host; return whether the host accepts jobs."""
        now_s = self._clock.now_s()
        running.seen, running.heard_at_s = seen, now_s
        if seen.state == "broken":
            self._fail(seen.reason, refused=seen.refused)
        elif seen.state == "ready":
            if self._state is not SparkState.READY:
                self._announce(SparkNews("started" if self._last_news is None else "recovered"))
            self._state, self._reason = SparkState.READY, seen.reason
            running.ready_at_s = running.ready_at_s or now_s
            self._failures = 0 if now_s - running.ready_at_s > WELL_S else self._failures
        elif seen.reason:
            self._state, self._reason = SparkState.STARTING, seen.reason
        elif now_s - running.began_at_s > START_S:
            self._fail(f"its session did not open within {START_S:.0f} s")
        return seen.state == "ready"

    async def _serve(self, running: _RunningHost) -> None:
        """Give a host its jobs, and take their events and reports."""
        host = running.host
        if running.seen.events > running.events:
            running.events, events = await host.events(running.events)
            self._events.extend(events)
        for line in running.seen.jobs:
            wants_report = self._jobs.note_line(line, self._clock.now_s())
            if wants_report:
                self._jobs.note_report(line, await host.report(line.job_id), self._clock.now_s())
        for order in self._jobs.to_begin(self._clock.now_s()):
            try:
                await host.submit(order.run_id, order.job, order.options)
            except JobRefused as refused:
                self._jobs.refuse(order.run_id, str(refused), self._clock.now_s())
            else:
                self._jobs.begun(order.run_id, self._clock.now_s())
        for run_id in self._jobs.to_cancel():
            await host.cancel(run_id)
        to_wake, self._to_wake = self._to_wake, set()
        for run_id in self._jobs.running(to_wake):
            await host.wake(run_id)

    def _fail(self, reason: str, *, refused: bool = False) -> None:
        self._drop()
        self._jobs.lose_host(reason)
        if refused:
            self._refuse(reason)
            return
        pause_s = PAUSES_S[min(self._failures, len(PAUSES_S) - 1)]
        self._failures += 1
        self._again_at_s = self._clock.now_s() + pause_s
        self._state, self._reason = SparkState.RESTARTING, f"{reason}; Spark starts again after {pause_s:.0f} s"
        self._announce(SparkNews("failed", reason))

    def _refuse(self, reason: str) -> None:
        self._again_at_s = self._clock.now_s() + REFUSED_S
        self._state, self._reason = SparkState.REFUSED, reason
        self._announce(SparkNews("failed", reason))

    def _drop(self) -> None:
        if self._running is not None:
            self._running.host.kill()
            self._running = None

    def _announce(self, news: SparkNews) -> None:
        if news != self._last_news:
            self._last_news = news
            self._news.append(news)
