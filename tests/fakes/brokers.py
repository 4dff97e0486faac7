"""Brokers behind the ports of `engine/flow` that answer only when a test tells them to."""

import asyncio
from collections import deque
from collections.abc import Sequence

from engine.base.errors import ConnectionLost
from engine.core.lane.outcome import UNKNOWN_OUTCOME, Outcome, OutcomeKind
from engine.flow.ports.ports import Append, FetchAnswer, FetchOptions, OnOutcomes, PartitionFetch, Room


class HeldTarget:
    """A target broker: requests pile up until `answer` or `lose`."""

    is_stale = False

    def __init__(self) -> None:
        self.requests: deque[tuple[list[Append], OnOutcomes]] = deque()
        self.sent: list[list[Append]] = []
        self.lost = asyncio.Event()
        self.closed = False
        self.throttled = False
        self.flushed = True

    def append(self, appends: Sequence[Append], on_outcomes: OnOutcomes) -> None:
        self.sent.append(list(appends))
        if self.lost.is_set():
            on_outcomes([UNKNOWN_OUTCOME] * len(appends))
        else:
            self.requests.append((list(appends), on_outcomes))

    def answer(self, *outcomes: Outcome) -> None:
        """Answer the oldest request; without outcomes, every batch was appended."""
        appends, on_outcomes = self.requests.popleft()
        on_outcomes(list(outcomes) or [Outcome(OutcomeKind.APPENDED, 0)] * len(appends))

    def lose(self) -> None:
        """Cut the connection."""
        self.lost.set()
        while self.requests:
            appends, on_outcomes = self.requests.popleft()
            on_outcomes([UNKNOWN_OUTCOME] * len(appends))

    async def wait_lost(self) -> None:
        await self.lost.wait()

    async def close(self) -> None:
        self.closed = True
        self.lose()


class HeldSource:
    """A source broker: each fetch waits for `answer` or `lose`."""

    is_stale = False

    def __init__(self) -> None:
        self.asked: list[list[PartitionFetch]] = []
        self.options: list[FetchOptions] = []
        self.rooms: list[Room] = []
        self.pending: deque[asyncio.Future[FetchAnswer]] = deque()
        self.closed = False

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        self.asked.append(list(wanted))
        self.options.append(options)
        self.rooms.append(room)
        future: asyncio.Future[FetchAnswer] = asyncio.get_running_loop().create_future()
        self.pending.append(future)
        return await future

    def answer(self, answer: FetchAnswer) -> None:
        """Answer the oldest fetch."""
        self.pending.popleft().set_result(answer)

    def lose(self) -> None:
        """Cut the connection."""
        while self.pending:
            self.pending.popleft().set_exception(ConnectionLost("fake:1"))

    async def close(self) -> None:
        self.closed = True


async def turns(count: int = 20) -> None:
    """Let everything that is ready run; nothing waits for the clock."""
    for _ in range(count):
        await asyncio.sleep(0)
