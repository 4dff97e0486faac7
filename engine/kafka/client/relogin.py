"""Keeps a connection logged in: brokers may limit how long they accept a login (KIP-368).

The broker closes a connection whose time is over at its next request. So raymirror logs in again on the same
connection before that, at 85 to 95 % of the time, as Kafka's Java client does (SaslClientAuthenticator.ReauthInfo). A
broker accepts no other request during a login; these wait in the connection.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from aiokafka.errors import KafkaError

from engine.config.security import HandshakeOptions
from engine.kafka.client.authentication import Asked, MechanismRefused, authenticate, begin, present
from engine.security.sasl.login import Exchange, LoginFailed

_EARLIEST, _SPREAD = 0.85, 0.10
_SHORTEST_S = 1.0
"""A broker does not begin another login on a connection within a second of the last one."""
_RETRY_PART, _RETRY_LEAST_S, _RETRY_MOST_S = 0.02, 0.25, 10.0
"""After a login that could not begin, the next attempt: a part of the accepted time, within bounds."""


class Holding(Asked, Protocol):
    """A connection that can make other requests wait."""

    @property
    def host(self) -> str:
        """The host of the broker."""

    def hold(self) -> None:
        """Let every request but those of a login wait."""

    def release(self) -> None:
        """Send the requests that waited."""

    def abort(self) -> None:
        """Close at once."""


class Relogin:
    """The login of one connection; `end` when the connection is closed."""

    def __init__(
        self, connection: Holding, options: HandshakeOptions, chance: Callable[[], float] = random.random
    ) -> None:
        self._connection = connection
        self._options = options
        self._chance = chance
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._ends_s = 0.0
        """When the broker no longer accepts the login, by the time of the loop."""
        self._retry_s = _RETRY_LEAST_S
        self.logins = 0
        """Completed logins after the first one."""

    def start(self, lifetime_s: float) -> None:
        """Plan the next login after one that the broker accepts for so many seconds; 0: for ever."""
        if lifetime_s < _SHORTEST_S:
            return
        self._ends_s = asyncio.get_running_loop().time() + lifetime_s
        self._retry_s = min(_RETRY_MOST_S, max(_RETRY_LEAST_S, lifetime_s * _RETRY_PART))
        self._plan(lifetime_s * (_EARLIEST + _SPREAD * self._chance()))

    def end(self) -> None:
        """Plan nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _plan(self, after_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(after_s, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._again())

    async def _again(self) -> None:
        """Log in again. A broker that refuses ends the connection; the next one shows its reason."""
        try:
            mechanism, exchange = await self._exchange()
        except LoginFailed:
            # The broker accepts the old login for a while yet.
            if asyncio.get_running_loop().time() + self._retry_s < self._ends_s:
                self._plan(self._retry_s)
            return
        self._connection.hold()
        try:
            lifetime_s = await authenticate(self._connection, mechanism, exchange, self._options.timeout_s)
        except (KafkaError, LoginFailed, MechanismRefused, TimeoutError):
            self._connection.abort()
            return
        finally:
            self._connection.release()
        self.logins += 1
        self.start(lifetime_s)

    async def _exchange(self) -> tuple[str, Exchange]:
        login = (await present(self._options)).login
        assert login is not None
        return login.mechanism, await begin(login, self._connection.host)
