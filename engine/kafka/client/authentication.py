"""Logs in to a broker by SASL over an open connection (KIP-152), for the first time or again (KIP-368)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from aiokafka.errors import KafkaConnectionError, for_code
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest
from aiokafka.protocol.api import Request

from engine.base.errors import ConnectionLost, MirrorError
from engine.config.security import Credentials, HandshakeOptions
from engine.security.sasl.login import Exchange, Login, LoginFailed

T = TypeVar("T")
_MOST_THREADS = 16
_AT_ONCE = 4
"""So many connections begin the same login, or read the same secrets, at a time; the others wait without a thread."""
SASL_REQUESTS = (SaslHandShakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY)
_NO_ERROR, _UNSUPPORTED_MECHANISM = 0, 33


class Asked(Protocol):
    """A connection to a broker, as far as a login needs it."""

    @property
    def address(self) -> str:
        """host:port."""

    async def call(self, request: Request[Any], timeout_s: float = ...) -> Any:
        """Send a request and decode its answer. Raises ConnectionLost."""


class MechanismRefused(MirrorError):
    """The broker does not accept the mechanism; `enabled` has those that it accepts."""

    def __init__(self, enabled: list[str]) -> None:
        super().__init__(enabled)
        self.enabled = enabled


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Run what a login computes, beside the loop and not in the loop's own threads."""
    return await asyncio.get_running_loop().run_in_executor(_threads(), work, *arguments)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST_THREADS, "login")


class _OwnThreads(Executor):
    """Gives each piece of work a thread that does not keep the process alive, however silent its server or disk is."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Begin the work at once."""
        found: Future[T] = Future()

        def work() -> None:
            if found.set_running_or_notify_cancel():
                try:
                    found.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - who waits gets it, whatever it is
                    found.set_exception(error)

        Thread(target=work, name="login", daemon=True).start()
        return found


_own_threads = _OwnThreads()
_turns: "WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Any, asyncio.Semaphore]]"
_turns = WeakKeyDictionary()


async def begin(login: Login, host: str) -> Exchange:
    """Prepare a login at a broker, which may fetch a token or a ticket. Raises LoginFailed."""
    return await _in_turn(login, lambda: login.exchange(host))


async def present(options: HandshakeOptions) -> Credentials:
    """Return the present credentials; their secrets and stores may be on a disk that does not answer.

    Raises what `HandshakeOptions.credentials` raises, and LoginFailed after the time of a handshake.
    """
    try:
        async with asyncio.timeout(options.timeout_s):
            return await _in_turn(options.credentials, options.credentials)
    except TimeoutError:
        late = f"the files with secrets and stores were not read within {options.timeout_s:g} s"
        raise LoginFailed(f"{late}; does their disk answer?", may_pass=True) from None


async def _in_turn(key: object, work: Callable[[], T]) -> T:
    """Do what may wait for a server or a disk: a few at once for each key, so that it takes no thread from another one.

    A thread cannot be cancelled, so it keeps its turn until it ends.
    """
    loop = asyncio.get_running_loop()
    turn = _turns.setdefault(loop, WeakKeyDictionary()).setdefault(key, asyncio.Semaphore(_AT_ONCE))
    await turn.acquire()

    def worked() -> T:
        try:
            return work()
        finally:
            with suppress(RuntimeError):  # the loop has ended meanwhile: nobody waits any more
                loop.call_soon_threadsafe(turn.release)

    try:
        begun = loop.run_in_executor(_own_threads, worked)
    except RuntimeError:  # the system has no thread left
        turn.release()
        raise
    return await begun


async def authenticate(connection: Asked, mechanism: str, exchange: Exchange, timeout_s: float) -> float:
    """Log in; return for how many seconds the broker accepts it, 0 if for as long as the connection lives.

    `timeout_s` is for each answer. Raises MechanismRefused, KafkaError as aiokafka's own login does, LoginFailed.
    """
    answer = await _ask(connection, SaslHandShakeRequest(mechanism), timeout_s)
    if answer.error_code == _UNSUPPORTED_MECHANISM or (
        answer.error_code == _NO_ERROR and mechanism not in answer.enabled_mechanisms
    ):
        raise MechanismRefused(list(answer.enabled_mechanisms))
    _check(answer.error_code, "")
    lifetime_ms, heard = 0, None
    while (message := await in_thread(_step, exchange, heard)) is not None:
        answer = await _ask(connection, SaslAuthenticateRequest(message), timeout_s)
        _check(answer.error_code, answer.error_message or "")
        heard, lifetime_ms = answer.sasl_auth_bytes, getattr(answer, "session_lifetime_ms", 0)
    return max(0, lifetime_ms) / 1000


def _step(exchange: Exchange, heard: bytes | None) -> bytes | None:
    """Return the next message of an exchange, None at its end. It may compute or ask for long: call it in a thread."""
    try:
        return next(exchange) if heard is None else exchange.send(heard)
    except StopIteration:
        return None


async def _ask(connection: Asked, request: Request[Any], timeout_s: float) -> Any:
    try:
        async with asyncio.timeout(timeout_s):
            return await connection.call(request, 2 * timeout_s)  # the time-out above comes first
    except ConnectionLost:
        raise KafkaConnectionError(f"Connection at {connection.address} closed") from None


def _check(code: int, message: str) -> None:
    if code != _NO_ERROR:
        raise for_code(code)(message)
