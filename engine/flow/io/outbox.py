"""Sends batches of many lanes to one target broker, gathered into produce requests; keeps the order of each lane."""

import asyncio
from collections import Counter
from typing import Protocol

import msgspec

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.lane.outcome import Outcome
from engine.core.lane.pending_batch import REMEMBERED, BufferShare
from engine.flow.context.lease_guard import LeaseGuard
from engine.flow.io.far_paths import target_bound
from engine.flow.io.path_window import PathWindow
from engine.flow.io.silence import SILENT_S
from engine.flow.lane.appender import Appender, ReadyBatch
from engine.flow.lane.copier_metrics import CopierMetrics
from engine.flow.lane.in_flight import InFlightTracker
from engine.flow.ports.ports import Append, TargetBroker
from policies.model import TopicPartition
from policies.rebatch import is_slow

NEAR_REQUESTS = 5
"""Requests that may be in flight to a leader next door; over a distance the window holds more (`path_window.py`)."""
_TURN_S = 0.001
"""After this many seconds of making batches and sending them, the other tasks of the loop run first: lanes that merge
small batches take long."""
_LOOK_S = 0.5
_MOVING_S = 0.5
"""A broker that answered within this many seconds works through its requests: waiting batches will have their turn."""

_Sent = list[tuple[Appender, ReadyBatch, BufferShare | None]]


class OutboxLimits(msgspec.Struct, frozen=True):
    """How long requests may stay without an answer, and how large they are.

    `request_bytes`: batches of one request together, unless one alone is larger (Kafka: max.request.size).
    """

    request_timeout_s: float
    request_bytes: int = 1024 * 1024


class AppendSide(Protocol):
    """The broker that an outbox appends to, as the router sees it."""

    async def connect(self) -> TargetBroker:
        """Open a connection. Raises BrokerUnreachable, ConnectionLost."""

    async def back_off(self, attempt: int) -> None:
        """Wait before another attempt to connect."""

    def opened(self) -> None:
        """The connection is open: batches may be sent."""

    def lost(self) -> None:
        """The connection is lost, or could not be opened."""

    def silent(self) -> None:
        """The broker takes requests and answers none."""

    @property
    def most_in_flight_bytes(self) -> int:
        """The memory for this connection's requests in flight."""


class Outbox:
    """The outbox of one broker. `schedule_send` names an appender that may have something to send."""

    def __init__(
        self,
        side: AppendSide,
        lease_guard: LeaseGuard,
        limits: OutboxLimits,
        meter: CopierMetrics | None = None,
        tracker: InFlightTracker | None = None,
    ) -> None:
        self._side = side
        self._lease_guard = lease_guard
        self._request_timeout_s = limits.request_timeout_s
        self._request_bytes = limits.request_bytes
        self._meter = meter or CopierMetrics()
        self._tracker = tracker or InFlightTracker()
        self._silent_since_s = 0.0
        self._broker: TargetBroker | None = None
        self._ready: dict[Appender, None] = {}
        self._gone: set[Appender] = set()
        self._window = PathWindow(NEAR_REQUESTS)
        self._unanswered: dict[int, tuple[float, _Sent]] = {}
        self._pumping = False
        self._soon = False
        self._looks: asyncio.Timeout | None = None
        """Ends the wait for a lost connection, for a look at it; without an instant while nothing is in flight."""

    @property
    def open(self) -> bool:
        """Whether there is a connection to send on."""
        return self._broker is not None

    @property
    def throttled(self) -> bool:
        """Whether the broker's quota holds answers back."""
        return self._broker is not None and self._broker.throttled

    @property
    def answers(self) -> bool:
        """Whether a connection is open, and no request on it has waited long for an answer, except for a quota."""
        return self._is_heard_within(SILENT_S)

    @property
    def moves(self) -> bool:
        """Whether a request that is sent now will probably be answered soon; a quota only makes it slower."""
        return self._is_heard_within(_MOVING_S)

    def bound(self, node: int, appender: Appender, *, has_unsent: bool) -> str:
        """Return why an appender is sent no faster, if distance is the reason; else empty. `node`: the broker."""
        return target_bound(node, self._window, has_unsent=has_unsent and appender in self._ready)

    def _is_heard_within(self, most_s: float) -> bool:
        if self._broker is None:
            return False
        return not self._window.requests or self._broker.throttled or now_s() - self._silent_since_s < most_s

    async def run(self) -> None:
        """Keep a connection open until cancelled; requests in flight on a lost one have unknown outcomes."""
        attempt = 0
        while True:
            try:
                broker = await self._side.connect()
            except (BrokerUnreachable, ConnectionLost):
                attempt += 1
                self._side.lost()
                await self._side.back_off(attempt)
                continue
            attempt = 0
            self._broker, self._window = broker, PathWindow(NEAR_REQUESTS)
            self._side.opened()
            try:
                self.pump()
                await self._watch(broker)
                is_lost = self._broker is broker  # else it was given up, with nothing in flight
            finally:
                self._broker = None
                await broker.close()
            if is_lost:
                self._side.lost()

    async def _watch(self, broker: TargetBroker) -> None:
        """Return when the connection is lost, was given up, or has been silent for too long.

        While the broker is silent, leaders are looked up. If an appender then has another leader, but still waits for
        answers here, the connection is given up, so that the appender can continue there.
        """
        looked_s = 0.0
        while self._broker is broker:
            look_s = min(_LOOK_S, self._request_timeout_s) if self._window.requests else None
            try:
                async with asyncio.timeout(look_s) as self._looks:
                    await broker.wait_lost()
                    return
            except TimeoutError:
                pass
            finally:
                self._looks = None
            now = now_s()
            silent_s = now - self._silent_since_s if self._window.requests and not broker.throttled else 0.0
            if silent_s >= self._request_timeout_s or (silent_s >= SILENT_S and self._owes_strays):
                return
            if silent_s >= SILENT_S and now - looked_s >= SILENT_S:
                looked_s = now
                self._side.silent()

    def _begin_looks(self) -> None:
        """Look at the connection, which was at rest, when its first request may have been silent for too long."""
        if self._looks is not None and self._looks.when() is None:
            after_s = min(SILENT_S, self._request_timeout_s)
            self._looks.reschedule(asyncio.get_running_loop().time() + after_s)

    def _give_up(self) -> None:
        """Use the connection no more: nothing is in flight on it, and `run` opens another one."""
        self._broker = None
        if self._looks is not None and not self._looks.expired():
            self._looks.reschedule(asyncio.get_running_loop().time())

    @property
    def _owes_strays(self) -> bool:
        """Whether an appender that moved to another broker still waits for answers of this broker."""
        return any(self._tracker.holds(appender, self) for appender in self._gone)

    def schedule_send(self, appender: Appender) -> None:
        """Remember that an appender may have something to send; one request soon gathers all of them."""
        self._gone.discard(appender)
        self._ready[appender] = None
        self._schedule_pump()

    def _schedule_pump(self) -> None:
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._pump_soon)

    def _pump_soon(self) -> None:
        self._soon = False
        self.pump()

    def forget(self, appender: Appender) -> None:
        """Remove an appender that moved to another broker; answers that are still to come must not bring it back."""
        self._ready.pop(appender, None)
        self._gone.add(appender)
        self._tracker.forget(appender)

    def drop(self, appender: Appender) -> None:
        """Remove an appender that has ended, and all that is stored about it."""
        self._ready.pop(appender, None)
        self._gone.discard(appender)
        self._tracker.forget(appender)

    def copy_out(self, after_s: float) -> None:
        """Take batches out of their receive buffers that were sent `after_s` seconds ago and are not answered.

        By then the operating system has their bytes, unless the broker has stopped reading; then the buffers stay. The
        first batches of an appender are copied, as many as the leader remembers. The later ones are let go: if one
        fails, the lane drops them all and is acquired again.
        """
        if self._broker is None or not self._broker.flushed:
            return
        before = now_s() - after_s
        passed: Counter[Appender] = Counter()
        for sent_s, sent in self._unanswered.values():
            for index, (appender, batch, lease) in enumerate(sent):
                passed[appender] += 1
                if lease is not None and sent_s <= before:
                    if passed[appender] > REMEMBERED:
                        batch.let_go()
                    else:
                        batch.detach()
                    lease.release()
                    sent[index] = appender, batch, None

    def pump(self) -> None:
        """Send as many requests as may be in flight; none while the lease guard is shut."""
        if self._pumping:
            return  # called by an outcome during a send: the loop below continues
        if self._ready and self._broker is not None and self._broker.is_stale:
            self._give_up()
        self._pumping = True
        most_bytes, until_s = self._side.most_in_flight_bytes, now_s() + _TURN_S
        try:
            while (
                self._broker is not None
                and self._ready
                and self._window.has_room(most_bytes)
                and self._lease_guard.is_open
            ):
                sent = self._gather(until_s)
                if not sent:
                    break
                self._send(self._broker, self._window, sent)
                if now_s() >= until_s:
                    self._schedule_pump()
                    break
        finally:
            self._pumping = False

    def _gather(self, until_s: float) -> _Sent:
        """Take one batch of each ready appender, in turn, until the request is full or the turn is over.

        Lanes share positions partitions, and a broker keeps only one of two batches for one partition: the other
        waits for the next request. So does a batch of another transaction than the first: a request has one.
        """
        sent: _Sent = []
        window = self._window
        # Batches of several partitions already share a request, and its wait for the replicas.
        queues = len(self._ready) == 1 and window.queues and is_slow(window.request_bytes, window.rate)
        taken: set[TopicPartition] = set()
        size, transaction = 0, ""
        for appender in list(self._ready):
            if appender.partition in taken or (transaction and appender.transactional_id not in ("", transaction)):
                continue
            if self._tracker.refuses(appender, self):
                del self._ready[appender]
                continue
            del self._ready[appender]
            batch = appender.next_batch(queues=queues)
            if batch is None:
                continue
            taken.add(appender.partition)
            transaction = transaction or appender.transactional_id
            self._ready[appender] = None  # to the end of the queue: it may have more
            # The request has its own share: the bytes must stay until the answer, even if the lane drops the batch.
            lease = batch.lease.retain() if batch.lease is not None else None
            sent.append((appender, batch, lease))
            self._tracker.sent(appender, self)
            size += len(batch.payload)
            if size >= self._request_bytes or now_s() >= until_s:
                break
        return sent

    def _send(self, broker: TargetBroker, window: PathWindow, sent: _Sent) -> None:
        sent_s = self._meter.sent()
        if not window.requests:
            self._silent_since_s = sent_s
            self._begin_looks()
        mark = window.sent(sum(len(batch.payload) for _, batch, _ in sent), sent_s)
        self._unanswered[id(sent)] = sent_s, sent

        def on_outcomes(outcomes: list[Outcome]) -> None:
            self._meter.answered(sent_s, outcomes)
            del self._unanswered[id(sent)]
            if broker is self._broker:
                self._silent_since_s = now_s()
                window.answered(mark, self._silent_since_s)
            for (appender, batch, lease), outcome in zip(sent, outcomes, strict=True):
                appender.on_outcome(batch, outcome)
                self._tracker.answered(appender)
                if lease is not None:
                    lease.release()
                if appender not in self._gone:
                    self._ready.setdefault(appender, None)
            self.pump()

        appends = [Append(one.partition, batch.payload, one.transactional_id) for one, batch, _ in sent]
        broker.append(appends, on_outcomes)
