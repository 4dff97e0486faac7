"""Connections to the brokers of a cluster that many share, and which brokers cannot be reached just now.

An attempt to connect goes on by itself: whoever waits for it has a patience of its own, and what is known of a broker
that does not answer is told at once to everybody who asks next. So a broker that takes no connections (it is dead, or
a firewall drops what we send) costs its time-out once, not once a question.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable
from engine.kafka.client.connection import Connection

PATIENCE_S = 5.0
"""How long a broker that has not failed yet is waited for; a handshake may take longer, and is used when it is done."""
_GLANCE_S = 0.25
"""How long one is waited for whose last attempt was not quickly over."""
_QUICK_S = 1.0
"""A refusal that comes so soon costs nothing: it is asked for again and again while the broker starts."""
_MOST_S = 30.0

_Key = tuple[int, int]
"""A broker, and which of our connections to it."""


class _Trouble(msgspec.Struct, frozen=True):
    """A broker that could not be connected to: why, whether that took long, how often, and when to try again."""

    error: BrokerUnreachable
    slow: bool
    failures: int
    again_at_s: float


class _Attempt(msgspec.Struct, frozen=True):
    """An attempt to connect that goes on, and since when."""

    task: asyncio.Task[Connection | BrokerUnreachable]
    began_s: float


class SharedConnections:
    """The shared connections of one client; `open_` makes a new one. Raises BrokerUnreachable as that does.

    `shut_s`: how long a broker that refused is not tried again; one that did not answer is left alone for as long as
    that took, then twice as long, up to half a minute.
    """

    def __init__(self, open_: Callable[[int], Awaitable[Connection]], shut_s: float) -> None:
        self._open = open_
        self._shut_s = shut_s
        self._connections: dict[_Key, Connection] = {}
        self._attempts: dict[_Key, _Attempt] = {}
        self._discovery: dict[int, _Trouble] = {}
        self.took_s = 0.0
        """How long it took to connect, the last time."""

    async def get(self, node: int, turn: int = 0, *, within_s: float = PATIENCE_S) -> Connection:
        """Return a connection to a broker, opening it where needed. Raises BrokerUnreachable."""
        key = node, turn
        connection = self._connections.get(key)
        if connection is not None and not connection.closed.is_set():
            return connection
        attempt = self._attempts.get(key)
        trouble = self._discovery.get(node)
        if attempt is None:
            if trouble is not None and now_s() < trouble.again_at_s:
                raise trouble.error.again()
            attempt = self._attempts[key] = _Attempt(asyncio.create_task(self._attempt(key)), now_s())
        # Who comes later has less to wait for: a broker's silence costs everybody together what it costs one.
        left_s = 0.0 if trouble is not None and trouble.slow else attempt.began_s + within_s - now_s()
        # Unlike a time-out around the task, a wait leaves it going, for whoever asks next.
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
        """Try once. The error is a value, since perhaps nobody waits for it any more."""
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
        shut_s = min(_MOST_S, took_s * 2.0 ** min(failures - 1, 8)) if slow else self._shut_s
        self._discovery[node] = _Trouble(error, slow, failures, now_s() + max(self._shut_s, shut_s))

    def drop(self, node: int) -> None:
        """Close the first connection to a broker: whoever waits on it has waited in vain."""
        connection = self._connections.pop((node, 0), None)
        if connection is not None:
            connection.abort()

    def reached(self, node: int) -> None:
        """A broker was connected to, by whomever: it may be asked."""
        self._discovery.pop(node, None)

    def forgive(self) -> None:
        """Try every broker again when it is asked for."""
        self._discovery.clear()

    def is_connected(self, node: int) -> bool:
        """Whether there is a connection to a broker, the first one."""
        connection = self._connections.get((node, 0))
        return connection is not None and not connection.closed.is_set()

    def is_away(self, node: int) -> bool:
        """Whether a broker is left alone because it could not be connected to, or an attempt to takes long."""
        overdue_s = now_s() - _QUICK_S
        slow = any(key[0] == node and attempt.began_s < overdue_s for key, attempt in self._attempts.items())
        trouble = self._discovery.get(node)
        return slow or (trouble is not None and now_s() < trouble.again_at_s)

    async def close(self) -> None:
        """Close every connection, and those that are being opened."""
        attempts = [attempt.task for attempt in self._attempts.values()]
        for attempt in attempts:
            attempt.cancel()
        if attempts:
            await asyncio.wait(attempts)
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()
