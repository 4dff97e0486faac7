"""Connections of a simulated copier: requests that read their bytes as late as a kernel may, and leased buffers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.core.lane.outcome import UNKNOWN_OUTCOME, Outcome
from engine.core.lane.pending_batch import PendingBatch
from engine.core.streams.fenced_stream import Write
from tests.fakes.target_log import TargetLog

if TYPE_CHECKING:
    from tests.unit.engine.core.simulation import World


class Lease:
    """Shares of one receive buffer; behind the last one the bytes are garbage."""

    def __init__(self, world: World, buffer: bytearray) -> None:
        self.shares, self.buffer, self._world = 1, buffer, world
        world.leased += 1

    def own(self, size: int, *, stuck: bool) -> Lease:
        return Lease(self._world, bytearray())

    def retain(self) -> Lease:
        assert self.shares > 0
        self.shares += 1
        return self

    def release(self) -> None:
        assert self.shares > 0
        self.shares -= 1
        if self.shares == 0:
            self.buffer[:] = b"\xee" * len(self.buffer)
            self._world.leased -= 1


class Request:
    """One batch on a connection."""

    def __init__(self, batch: PendingBatch | Write) -> None:
        self.batch = batch
        self.lease = batch.lease.retain() if batch.lease is not None else None
        self.payload: bytes | bytearray | memoryview = batch.payload

    def let_go(self) -> None:
        if self.lease is not None:
            self.lease.release()


class Connection:
    """Requests in order, answers in order; `log` is where the broker appends them."""

    def __init__(self, world: World, log: TargetLog, deliver: Callable[[Request, Outcome], None]) -> None:
        self.world, self.log, self._deliver = world, log, deliver
        self.queue: deque[Request] = deque()
        self.answers: deque[tuple[Request, Outcome]] = deque()
        self.deposed = False
        """Whether the broker leads no more: what comes before its answers are known is refused."""

    def depose(self, appended: int) -> None:
        """The broker leads no more; of the requests that wait there some were appended in time."""
        for request in list(self.queue)[:appended]:
            self.log.append(bytes(request.payload))
        self.deposed = True

    def serve(self) -> None:
        """Let the broker work on the oldest request."""
        request = self.queue.popleft()
        payload = bytes(request.payload)
        outcome = self.world.refuse() if self.deposed else self.world.answer(self.log, payload)
        self.answers.append((request, outcome))

    def deliver(self) -> None:
        """Hand over the oldest answer."""
        request, outcome = self.answers.popleft()
        self.deposed = self.deposed and bool(self.queue or self.answers)
        self._deliver(request, outcome)
        request.let_go()

    def cut(self, *, lost: bool) -> None:
        """Lose the connection: no answer arrives any more; the broker may still work on what it received."""
        unanswered = [request for request, _ in self.answers] + list(self.queue)
        if not lost and not self.deposed:  # a broker that leads no more refuses them
            self.world.leave_ghost(self.log, [bytes(request.payload) for request in self.queue])
        self.queue.clear()
        self.answers.clear()
        self.deposed = False
        for request in unanswered:
            self._deliver(request, UNKNOWN_OUTCOME)
            request.let_go()
