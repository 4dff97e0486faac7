"""Shares connections to the brokers of a cluster, and knows which brokers are unreachable at the moment.

An attempt to connect runs by itself. Each caller that waits for it has its own time limit, and later callers get a
known failure at once. So a broker that accepts no connections (it is dead, or a firewall drops the packets) costs its
time-out once, not once per request.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from engine.base.clock import Backoff, now_s
from engine.base.errors import BrokerUnreachable
from engine.kafka.client.connection import Connection

PATIENCE_S = 5.0
"""Seconds to wait for a broker that has not failed yet; a slower handshake continues, and is used when it ends."""
_GLANCE_S = 0.25
"""Seconds to wait for a broker whose last attempt failed slowly."""
_QUICK_S = 1.0
"""A failure within this many seconds is cheap, so attempts repeat often while the broker starts."""
_MOST_S = 30.0

_Key = tuple[int, int]
"""Broker id, and the number of the connection to it."""


class _Trouble(msgspec.Struct, frozen=True):
    """Failed attempts to connect to a broker: the error, whether it was slow, how many, and when to try again."""

    error: BrokerUnreachable
    slow: bool
    failures: int
    again_at_s: float


class _Attempt(msgspec.Struct, frozen=True):
    """A running attempt to connect, and when it began."""

    task: asyncio.Task[Connection | BrokerUnreachable]
    began_s: float


class SharedConnections:
    """The shared connections of one client; `open_` opens a new one and may raise BrokerUnreachable.

    `shut_s`: seconds before a broker that refused is tried again. A broker that did not answer is tried again after as
    long as the attempt took, then after twice as long, up to 30 s. `pauses` replaces both limits.
    """

    def __init__(
        self, open_: Callable[[int], Awaitable[Connection]], shut_s: float, pauses: Backoff | None = None
    ) -> None:
        self._open = open_
        self._shut_s = shut_s
        self._pauses = pauses
        self._connections: dict[_Key, Connection] = {}
        self._attempts: dict[_Key, _Attempt] = {}
        self._discovery: dict[int, _Trouble] = {}
        self.took_s = 0.0
        """Seconds that the last successful connect took."""

    async def get(self, node: int, turn: int = 0, *, within_s: float = PATIENCE_S) -> Connection:
        """Return a connection to a broker, opening it if needed. Raises BrokerUnreachable."""
        key = node, turn
        connection = self._connections.get(key)
        if connection is not None and not connection.closed.is_set():
            if not connection.is_stale:
                return connection
            connection.abort()
        attempt = self._attempts.get(key)
        trouble = self._discovery.get(node)
        if attempt is None:
            if trouble is not None and now_s() < trouble.again_at_s:
                raise trouble.error.again()
            attempt = self._attempts[key] = _Attempt(asyncio.create_task(self._attempt(key)), now_s())
        # Later callers wait less: all callers together wait for a silent broker as long as one does.
        left_s = 0.0 if trouble is not None and trouble.slow else attempt.began_s + within_s - now_s()
        # Unlike a time-out around the task, this lets the attempt continue for the next caller.
        await asyncio.wait([attempt.task], timeout=min(within_s, max(left_s, _GLANCE_S)))
        if not attempt.task.done():
            if trouble is not None:
                raise trouble.error.again()
            raise BrokerUnreachable(f"broker {node}", f"no connection within {within_s:g} s")
        if attempt.task.cancelled():
            raise BrokerUnreachable(f"broker {node}", "the client was closed")
        found = attempt.task.result()
        if isinstance(found, BrokerUnreachable):
            raise found.again()
        return found

    async def _attempt(self, key: _Key) -> Connection | BrokerUnreachable:
        """Try once. The error is a value, because perhaps no caller waits for it any more."""
        node, _ = key
        began_s = now_s()
        try:
            connection = self._connections[key] = await self._open(node)
            self.took_s = now_s() - began_s
            self.reached(node)
            return connection
        except BrokerUnreachable as error:
            self._failed(node, error, now_s() - began_s)
            return error
        finally:
            del self._attempts[key]

    def _failed(self, node: int, error: BrokerUnreachable, took_s: float) -> None:
        before = self._discovery.get(node)
        failures = 1 if before is None else before.failures + 1
        slow = took_s >= _QUICK_S
        least_s = self._shut_s if self._pauses is None else self._pauses.after_s(failures)
        most_s = _MOST_S if self._pauses is None else self._pauses.most_s
        shut_s = min(most_s, took_s * 2.0 ** min(failures - 1, 8)) if slow else least_s
        self._discovery[node] = _Trouble(error, slow, failures, now_s() + max(least_s, shut_s))

    def failures(self, node: int) -> int:
        """Return how many attempts to connect to a broker have failed in a row."""
        trouble = self._discovery.get(node)
        return 0 if trouble is None else trouble.failures

    def drop(self, node: int) -> None:
        """Close the first connection to a broker; requests that wait on it fail."""
        connection = self._connections.pop((node, 0), None)
        if connection is not None:
            connection.abort()

    def reached(self, node: int) -> None:
        """Note that some caller has connected to a broker: it may be asked again."""
        self._discovery.pop(node, None)

    def forgive(self) -> None:
        """Forget all failures, so that the next request for any broker tries again."""
        self._discovery.clear()

    def is_connected(self, node: int) -> bool:
        """Whether the first connection to a broker is open."""
        connection = self._connections.get((node, 0))
        return connection is not None and not connection.closed.is_set()

    def is_away(self, node: int) -> bool:
        """Whether a broker is not tried at the moment after a failure, or an attempt to connect takes long."""
        overdue_s = now_s() - _QUICK_S
        slow = any(key[0] == node and attempt.began_s < overdue_s for key, attempt in self._attempts.items())
        trouble = self._discovery.get(node)
        return slow or (trouble is not None and now_s() < trouble.again_at_s)

    async def close(self) -> None:
        """Close every connection, and cancel attempts to open one."""
        attempts = [attempt.task for attempt in self._attempts.values()]
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts)
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()
