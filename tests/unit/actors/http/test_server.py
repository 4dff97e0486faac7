"""The server over real sockets: clients as they are, and clients that mean harm."""

import asyncio
import json
import os
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from actors.http import connections, server
from actors.http.login_limit import LoginLimit
from actors.model.states import UnknownFlow
from bench.tls import make_certificates
from engine.config.http.http_secrets import logins_of
from engine.config.settings import HttpConfig, HttpUser
from policies.roles import Role
from tests.harness.eventually import until, until_equal
from tests.unit.actors.http.http_servers import DEADLINE_S, ServedMirror, served
from tests.unit.actors.http.test_views import FakeSupervisor
from tests.unit.actors.rest.rest_views import NAMES, SOURCE
from tests.unit.actors.rest.test_access import basic

pytestmark = pytest.mark.local

PAUSE = f"/connectors/{SOURCE.replace('->', '%2D%3E')}/pause"
END = b"Connection: close\r\n\r\n"
GET = b"GET /connectors HTTP/1.1\r\nHost: localhost\r\n"
Told = list[tuple[str, str]]


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """What is logged: severities and sentences."""
    said: Told = []
    monkeypatch.setattr(server, "log_sentence", lambda severity, text: said.append((severity, text)))
    return said


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def is_cut_off(writer: asyncio.StreamWriter, data: bytes, pause_s: float = 0.0) -> bool:
    """Send the same bytes again and again until the server has closed the connection."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                writer.write(data)
                await writer.drain()
                await asyncio.sleep(pause_s)
    except ConnectionError:
        return True
    finally:
        writer.close()


async def get(mirror: ServedMirror, path: str, **words: Any) -> tuple[int, Any]:
    reader, writer = await mirror.connect()  # so that it listens
    del reader
    writer.close()
    async with aiohttp.ClientSession() as session, session.get(f"{mirror.url}{path}", **words) as answer:
        return answer.status, await answer.json()


async def test_a_client_gets_connects_json_and_safe_headers() -> None:
    async with served() as mirror:
        answer = await mirror.send(GET + END)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert status_of(answer) == 200
    assert json.loads(body) == list(NAMES)
    headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert headers[b"Content-Type"] == b"application/json"
    assert headers[b"Server"] == b"raymirror"
    assert headers[b"Cache-Control"] == b"no-store"
    assert headers[b"X-Content-Type-Options"] == b"nosniff"
    assert b"default-src 'none'" in headers[b"Content-Security-Policy"]


@pytest.mark.parametrize("name", [SOURCE, SOURCE.replace(">", "%3E"), SOURCE.replace("->", "%2D%3E")])
@pytest.mark.parametrize("slash", ["", "/"])
async def test_names_and_slashes_arrive_as_they_are_sent(name: str, slash: str) -> None:
    async with served() as mirror:
        request = f"GET /connectors/{name}{slash} HTTP/1.1\r\nHost: localhost\r\n".encode()
        answer = await mirror.send(request + END)
    assert (status_of(answer), body_of(answer)["name"]) == (200, SOURCE)


async def test_javas_client_asks_for_http2_first() -> None:
    upgrade = b"Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
    async with served() as mirror:
        plain = await mirror.send(GET + upgrade + b"Connection: Upgrade, HTTP2-Settings, close\r\n\r\n")
        put = f"PUT {PAUSE} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n".encode()
        paused = await mirror.send(put + upgrade + b"Connection: Upgrade, HTTP2-Settings, close\r\n\r\n")
        assert mirror.supervisor.asked[-1] == ("command", "pause", "A->B", ())
    assert (status_of(plain), body_of(plain)) == (200, list(NAMES))
    assert status_of(paused) == 202


async def test_an_answer_without_a_body_has_length_zero() -> None:
    async with served() as mirror:
        answer = await mirror.send(f"PUT {PAUSE} HTTP/1.1\r\nHost: localhost\r\n".encode() + END)
        head = await mirror.send(b"HEAD /connectors HTTP/1.1\r\nHost: localhost\r\n" + END)
    assert status_of(answer) == 202
    assert b"Content-Length: 0\r\n" in answer
    assert b"\r\nContent-Type:" not in answer
    assert (status_of(head), head.partition(b"\r\n\r\n")[2]) == (200, b"")


async def test_requests_of_one_connection_are_answered_in_their_order() -> None:
    async with served() as mirror:
        reader, writer = await mirror.connect()
        writer.write((GET + b"\r\n") * 3 + GET.replace(b"/connectors", b"/x") + END)
        async with asyncio.timeout(DEADLINE_S):
            answers = (await reader.read()).split(b"HTTP/1.1 ")[1:]
        writer.close()
    assert [one[:3] for one in answers] == [b"200", b"200", b"200", b"404"]


async def test_a_body_is_asked_for_if_the_client_waits() -> None:
    body = json.dumps({"connector.class": "MirrorSourceConnector"}).encode()
    head = (
        "PUT /connector-plugins/MirrorSourceConnector/config/validate HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n"
    )
    async with served() as mirror:
        reader, writer = await mirror.connect()
        writer.write(head.encode() + END)
        async with asyncio.timeout(DEADLINE_S):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            answer = await reader.read()
        writer.close()
    assert status_of(answer) == 200
    assert body_of(answer)["error_count"] > 0


BIG = server.MOST_BODY + 1
POST = b"POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (POST + b"Content-Length: %d\r\n\r\n" % BIG, 413),
        (POST + b"Content-Length: 1000000000000\r\nExpect: 100-continue\r\n\r\n", 413),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % BIG + b" " * BIG + b"\r\n0\r\n\r\n", 413),
        (GET + b"X: " + b"x" * 9000 + b"\r\n\r\n", 400),
        (GET + b"".join(b"X-%d: y\r\n" % number for number in range(70)) + b"\r\n", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (GET + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ],
    ids=range(9),
)
async def test_what_is_too_much_or_no_http_is_refused_and_the_connection_closed(
    data: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_S", 3.0)  # the end of a body that is too large is waited for so long
    async with served() as mirror:
        answer = await mirror.send(data)
        assert status_of(answer) == status
        assert status_of(await mirror.send(GET + END)) == 200


@pytest.mark.parametrize("data", [b"", b"GET / HT", GET, GET + b"X: "])
async def test_a_client_that_never_sends_its_headers_is_closed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.2)
    async with served() as mirror:
        assert await mirror.closes(data)
        assert mirror.supervisor.asked == []


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_S", 0.2)
    async with served() as mirror:
        answer = await mirror.send(POST + b"Content-Length: 10\r\n\r\n{")
    assert (status_of(answer), body_of(answer)["error_code"]) == (408, 408)


async def test_a_client_that_does_not_read_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SEND_S", 0.2)

    async def metrics() -> str:
        return "x" * 64 * 1024 * 1024

    async with served() as mirror:
        mirror.server._views._pages.metrics = metrics  # type: ignore[method-assign] # a fake
        reader, writer = await mirror.connect()
        del reader
        writer.transport.pause_reading()  # type: ignore[attr-defined] # a socket's transport can
        writer.write(GET.replace(b"/connectors", b"/metrics") + b"\r\n")
        assert await is_cut_off(writer, b"x", pause_s=0.05)
        assert status_of(await mirror.send(GET + END)) == 200


async def test_more_connections_than_allowed_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 3)
    async with served() as mirror:
        open_ones = [await mirror.connect() for _ in range(3)]
        for reader, writer in open_ones:  # so that each has been accepted
            writer.write(GET + b"\r\n")
            async with asyncio.timeout(DEADLINE_S):
                assert await reader.readuntil(b"\r\n\r\n")
        assert await mirror.send(GET + END) == b""
        for _, writer in open_ones:
            writer.close()

        async def is_answered() -> bool:
            return bool(await mirror.send(GET + END))

        await until_equal(is_answered, wanted=True)


async def test_an_answer_that_takes_too_long_is_connects_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ANSWER_S", 0.05)
    async with served() as mirror:
        mirror.supervisor.takes_s = 1.0
        answer = await mirror.send(GET.replace(b"/connectors", b"/") + END)
    assert (status_of(answer), body_of(answer)["message"]) == (500, "Request timed out")


class BrokenSupervisor(FakeSupervisor):
    """Fails each command."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def command(self, *_words: Any) -> bytes:
        raise self.error


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UnknownFlow("A->B", ("B->C",)), 404, "no flow 'A->B' in this mirror; it has: B->C"),
        (
            ValueError("hunter2"),
            500,
            "The mirror could not answer, because of an error in raymirror; see: raymirror logs",
        ),
    ],
)
async def test_a_failure_is_answered_and_only_the_log_has_a_bug(
    told: Told, error: Exception, status: int, message: str
) -> None:
    async with served(supervisor=BrokenSupervisor(error)) as mirror:
        answer = await mirror.send(f"PUT {PAUSE} HTTP/1.1\r\nHost: localhost\r\n".encode() + END)
    assert body_of(answer) == {"error_code": status, "message": message}
    assert bool(told) is (status == 500)


USERS = HttpConfig(
    users=(HttpUser(name="eve", password="${env:EVE}"), HttpUser(name="bob", role=Role.ADMIN, token="t0ken"))
)


async def test_users_and_what_they_change_are_in_the_log(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.setenv("EVE", "hunter2")
    async with served(USERS) as mirror:
        assert (await get(mirror, "/connectors"))[0] == 401
        eve = basic("eve:hunter2")
        assert await get(mirror, "/connectors", headers=eve) == (200, list(NAMES))
        async with aiohttp.ClientSession() as session:
            async with session.put(f"{mirror.url}{PAUSE}", headers=eve) as refused:
                assert refused.status == 403
            async with session.put(f"{mirror.url}{PAUSE}", headers={"Authorization": "Bearer t0ken"}) as done:
                assert done.status == 202
    texts = [text for _, text in told]
    assert any(text.startswith("an HTTP request of 127.0.0.1 was refused: Give the password") for text in texts)
    assert any("User eve has the role view" in text for text in texts)
    assert texts[-1] == f"bob at 127.0.0.1: PUT /connectors/{SOURCE}/pause: 202"
    assert "hunter2" not in str(told)
    assert "t0ken" not in str(told)


async def test_a_changed_password_is_used_without_a_restart(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.setattr(server, "LOGINS_LAST_S", -1.0)
    monkeypatch.setenv("EVE", "old")
    async with served(USERS) as mirror:
        assert (await get(mirror, "/connectors", headers=basic("eve:old")))[0] == 200
        monkeypatch.setenv("EVE", "new")
        assert (await get(mirror, "/connectors", headers=basic("eve:old")))[0] == 401
        assert (await get(mirror, "/connectors", headers=basic("eve:new")))[0] == 200
        monkeypatch.delenv("EVE")
        assert (await get(mirror, "/connectors", headers=basic("eve:new")))[0] == 200
    assert any("keep their passwords" in text for _, text in told)


async def test_a_port_that_is_taken_is_reported_once_and_tried_again(told: Told) -> None:
    async with served() as first:
        await first.send(GET + END)
        async with served(first.config) as second:
            await until(lambda: bool(told), "a line in the log")
            await asyncio.sleep(0.1)
            ((severity, text),) = told
            assert severity == "warning"
            assert f"HTTP cannot be served at 127.0.0.1:{second.port} (Address already in use)" in text


async def test_a_secret_that_is_missing_opens_no_port(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.delenv("EVE", raising=False)
    async with served(USERS) as mirror:
        await until(lambda: bool(told), "a line in the log")
        assert "environment variable EVE is not set" in told[0][1]
        monkeypatch.setenv("EVE", "hunter2")
        assert (await get(mirror, "/connectors", headers=basic("eve:hunter2")))[0] == 200


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Path, Path]:
    """An authority, and a chain with its key."""
    return make_certificates(tmp_path)


async def test_tls_from_end_to_end(certificates: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.5)
    authority, chain = certificates
    config = HttpConfig(certificate=str(chain), key=str(chain))
    async with served(config) as mirror:
        context = ssl.create_default_context(cafile=str(authority))
        context.check_hostname = False
        assert await get(mirror, "/connectors", ssl=context) == (200, list(NAMES))
        assert await mirror.closes(GET + END), "plain HTTP is no handshake"
        assert await mirror.closes(b""), "and silence is none"
        assert await get(mirror, "/connectors", ssl=context) == (200, list(NAMES))


async def test_a_client_needs_a_certificate_if_an_authority_is_named(certificates: tuple[Path, Path]) -> None:
    authority, chain = certificates
    config = HttpConfig(certificate=str(chain), key=str(chain), client_ca=str(authority))
    async with served(config) as mirror:
        context = ssl.create_default_context(cafile=str(authority))
        context.check_hostname = False
        with pytest.raises(aiohttp.ClientError):
            await get(mirror, "/connectors", ssl=context)
        context.load_cert_chain(str(chain))
        assert await get(mirror, "/connectors", ssl=context) == (200, list(NAMES))


async def test_the_memory_of_a_flood_of_bodies_is_bounded() -> None:
    def resident() -> int:
        return int(Path(f"/proc/{os.getpid()}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    chunk = b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n"
    async with served() as mirror:
        await mirror.send(GET + END)

        async def flood() -> None:
            reader, writer = await mirror.connect()
            writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            del reader
            assert await is_cut_off(writer, chunk)

        before = resident()
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(flood())
        assert resident() - before < 64 * 1024 * 1024


async def test_the_log_has_the_first_refused_requests_and_how_many_more_there_were(
    monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    monkeypatch.setattr(server, "MOST_REFUSALS", 2)
    refusals = server.RefusalLog()
    for number in range(5):
        refusals.note(str(number))
    assert [text for _, text in told] == ["0", "1"]
    monkeypatch.setattr(server, "REFUSALS_S", 0.0)
    refusals.note("5")
    assert [text for _, text in told[2:]] == ["3 more HTTP requests were refused after these", "5"]


async def test_what_is_no_http_fills_no_log_and_its_text_is_in_none(
    monkeypatch: pytest.MonkeyPatch, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "MOST_REFUSALS", 2)
    async with served() as mirror:
        for _ in range(5):
            assert status_of(await mirror.send(GET + b"Authorization: Bearer hunter2\x01\r\n" + END)) == 400
    assert [text for _, text in told] == ["a connection of 127.0.0.1 was closed: it sent no HTTP (BadHttpMessage)"] * 2
    assert caplog.records == []


async def test_too_many_wrong_passwords_are_refused_but_an_open_session_goes_on() -> None:
    config = HttpConfig(users=(HttpUser(name="eve", role=Role.ADMIN, password="right"),))
    async with served(config, limit=LoginLimit(2)) as mirror:
        for _ in range(30):
            assert (await get(mirror, "/connectors", headers=basic("eve:right")))[0] == 200
            assert (await get(mirror, "/connectors"))[0] == 401, "who shows no secret has not failed"
        opened = mirror.sessions.open(logins_of(config)[0])
        wrong = [(await get(mirror, "/connectors", headers=basic("eve:wrong")))[0] for _ in range(4)]
        assert wrong == [401, 401, 429, 429]
        assert (await get(mirror, "/connectors", headers=basic("eve:right")))[0] == 429, "nor is a guess told from it"
        cookie = {"Cookie": f"raymirror-{mirror.port}={opened.cookie}"}
        assert (await get(mirror, "/connectors", headers=cookie))[0] == 200
        body = b'{"user": "eve", "password": "x"}'
        head = b"POST /console/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        entry = await mirror.send(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert status_of(entry) == 429
        assert b"\r\nRetry-After: " in entry
