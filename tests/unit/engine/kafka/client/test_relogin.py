"""Logins that a broker accepts for a while only: when the next one comes, what waits meanwhile, and what ends it."""

import asyncio
from collections.abc import Callable
from threading import Event, current_thread
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest
from aiokafka.protocol.api import Request

from engine.base.clock import now_s, pause
from engine.base.errors import ConnectionLost
from engine.config.security import Credentials, HandshakeOptions
from engine.kafka.client.authentication import MechanismRefused, authenticate, begin, in_thread, present
from engine.kafka.client.relogin import Relogin
from engine.security.sasl.login import Exchange, LoginFailed
from engine.security.sasl.plain import PlainLogin

LIFETIME_S = 100.0
Answer = Callable[[Request[Any]], Any]


def accepts(request: Request[Any], lifetime_s: float = LIFETIME_S) -> Any:
    if isinstance(request, SaslHandShakeRequest):
        return SimpleNamespace(error_code=0, enabled_mechanisms=["PLAIN"])
    return SimpleNamespace(
        error_code=0, error_message=None, sasl_auth_bytes=b"", session_lifetime_ms=int(lifetime_s * 1000)
    )


class Broker:
    """The connection to a broker that answers logins as a test wants it, and notes what happens when."""

    host, address = "h", "h:1"

    def __init__(self, answer: Answer = accepts) -> None:
        self.answer = answer
        self.log: list[tuple[str, float]] = []

    async def call(self, request: Request[Any], timeout_s: float = 30.0) -> Any:
        self._note("handshake" if isinstance(request, SaslHandShakeRequest) else "login")
        return self.answer(request)

    def hold(self) -> None:
        self._note("hold")

    def release(self) -> None:
        self._note("release")

    def abort(self) -> None:
        self._note("abort")

    def _note(self, what: str) -> None:
        self.log.append((what, now_s()))

    @property
    def deeds(self) -> list[str]:
        return [what for what, _ in self.log]


class Slow:
    """A login whose token cannot be had at first."""

    mechanism, user = "PLAIN", ""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def exchange(self, host: str) -> Exchange:
        if self.failures:
            self.failures -= 1
            raise LoginFailed("no token", may_pass=True)
        return PlainLogin("u", "p").exchange(host)


def session(broker: Broker, login: Any = None) -> Relogin:
    present = Credentials(login=login or PlainLogin("u", "p"))
    options = HandshakeOptions(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", credentials=lambda: present)
    return Relogin(broker, options, chance=lambda: 0.5)


class Silent:
    """A login whose token server says nothing until the test lets it."""

    mechanism, user = "PLAIN", ""

    def __init__(self) -> None:
        self.speaks = Event()
        self.begun = 0
        self.keeps_the_process = True

    def exchange(self, host: str) -> Exchange:
        self.begun += 1
        self.keeps_the_process = not current_thread().daemon
        self.speaks.wait(60)
        return PlainLogin("u", "p").exchange(host)


async def test_a_silent_token_server_keeps_no_other_cluster_waiting() -> None:
    silent, other = Silent(), PlainLogin("u", "p")
    waiting = [asyncio.create_task(begin(silent, "h")) for _ in range(40)]
    try:
        assert next(await begin(other, "h")) == b"\0u\0p"
        assert await in_thread(lambda: "read") == "read"
        assert silent.begun <= 4
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        assert silent.begun <= 4, "a thread that nobody waits for still has its turn"
    finally:
        silent.speaks.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert silent.begun >= 39
    assert not silent.keeps_the_process, "it ends at once, whatever its token servers do"
    assert [type(one) for one in done].count(asyncio.CancelledError) == 1


async def test_a_disk_that_does_not_answer_keeps_no_other_cluster_waiting() -> None:
    answers = Event()
    begun = 0

    def hung() -> Credentials:
        nonlocal begun
        begun += 1
        answers.wait(60)
        return Credentials()

    here, there = HandshakeOptions(credentials=hung, timeout_s=0.5), HandshakeOptions(credentials=Credentials)
    waiting = [asyncio.create_task(present(here)) for _ in range(40)]
    try:
        assert await present(there) == Credentials()
        assert next(await begin(PlainLogin("u", "p"), "h")) == b"\0u\0p"
        assert begun <= 4
        for task in waiting:
            with pytest.raises(LoginFailed, match=r"were not read within 0\.5 s; does their disk answer") as caught:
                await task
            assert caught.value.may_pass
    finally:
        answers.set()


async def login(broker: Broker) -> float:
    return await authenticate(broker, "PLAIN", PlainLogin("u", "p").exchange("h"), 5.0)


async def test_a_broker_says_for_how_long_it_accepts_a_login() -> None:
    assert await login(Broker()) == LIFETIME_S
    assert await login(Broker(lambda request: accepts(request, 0))) == 0


async def test_brokers_that_refuse() -> None:
    def other(_request: Request[Any]) -> Any:
        return SimpleNamespace(error_code=33, enabled_mechanisms=["GSSAPI", "SCRAM-SHA-256"])

    with pytest.raises(MechanismRefused) as caught:
        await login(Broker(other))
    assert caught.value.enabled == ["GSSAPI", "SCRAM-SHA-256"]

    def refuses(request: Request[Any]) -> Any:
        if isinstance(request, SaslAuthenticateRequest):
            return SimpleNamespace(error_code=58, error_message="unknown user", sasl_auth_bytes=b"")
        return accepts(request)

    with pytest.raises(SaslAuthenticationFailed, match="unknown user"):
        await login(Broker(refuses))

    def hangs_up(_request: Request[Any]) -> Any:
        raise ConnectionLost("h:1")

    with pytest.raises(KafkaConnectionError, match="h:1 closed"):
        await login(Broker(hangs_up))


async def test_the_next_login_comes_in_time_and_other_requests_wait_for_it() -> None:
    broker = Broker()
    began_s = now_s()
    keeping = session(broker)
    keeping.start(LIFETIME_S)
    await pause(0.91 * LIFETIME_S)
    assert broker.deeds == ["hold", "handshake", "login", "release"]
    assert broker.log[0][1] - began_s == pytest.approx(0.90 * LIFETIME_S, abs=0.5)
    await pause(0.91 * LIFETIME_S)
    assert keeping.logins == 2
    keeping.end()
    await pause(2 * LIFETIME_S)
    assert keeping.logins == 2


@pytest.mark.parametrize("lifetime_s", [0.0, 0.5])
async def test_a_login_for_ever_or_for_less_than_a_broker_permits_is_not_repeated(lifetime_s: float) -> None:
    broker = Broker()
    session(broker).start(lifetime_s)
    await pause(LIFETIME_S)
    assert broker.deeds == []


async def test_a_token_that_cannot_be_had_is_asked_for_again_while_the_old_login_lasts() -> None:
    broker = Broker()
    keeping = session(broker, Slow(3))
    keeping.start(LIFETIME_S)
    await pause(0.98 * LIFETIME_S)
    assert broker.deeds == ["hold", "handshake", "login", "release"], "nothing waits while there is no token"
    keeping.end()
    never = Broker()
    session(never, Slow(1_000)).start(LIFETIME_S)
    await pause(3 * LIFETIME_S)
    assert never.deeds == []


async def test_a_broker_that_refuses_the_next_login_ends_the_connection() -> None:
    def refuses(request: Request[Any]) -> Any:
        if isinstance(request, SaslAuthenticateRequest):
            return SimpleNamespace(error_code=58, error_message="expired", sasl_auth_bytes=b"")
        return accepts(request)

    broker = Broker(refuses)
    session(broker).start(LIFETIME_S)
    await pause(2 * LIFETIME_S)
    assert broker.deeds == ["hold", "handshake", "login", "abort", "release"]
    assert len(asyncio.all_tasks()) == 1
