"""The console over real sockets: its files, its sessions, and requests that others forge."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp
import pytest

from actors.api import hub
from actors.console.files import POLICY
from actors.http import server, streams
from engine.config.settings import HttpConfig, HttpUser
from policies.roles import Role
from tests.unit.actors.http.http_servers import DEADLINE_S, ServedMirror, served
from tests.unit.actors.rest.rest_views import SOURCE

pytestmark = pytest.mark.local

USERS = HttpConfig(
    users=(
        HttpUser(name="eve", role=Role.OPERATE, password="pass"),
        HttpUser(name="ro", role=Role.VIEW, token="t0ken"),
    )
)
PAUSE = f"/connectors/{SOURCE.replace('->', '%2D%3E')}/pause"


class Browser:
    """A client that keeps cookies, and sends the token of its session as the page does."""

    def __init__(self, mirror: ServedMirror, session: aiohttp.ClientSession) -> None:
        self.mirror, self._session = mirror, session
        self.csrf = ""

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, Any]:
        """Return status, body and headers."""
        sent = {"X-CSRF-Token": self.csrf} if headers is None else headers
        url = f"{self.mirror.url}{path}"
        async with self._session.request(method, url, json=body, headers=sent) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, await (answer.json() if is_json else answer.text()), answer.headers

    def stream(self, headers: dict[str, str] | None = None) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._session.get(f"{self.mirror.url}/api/v1/stream", headers=headers)

    def cookie(self) -> str:
        """The header with the cookie of the session."""
        (found,) = self._session.cookie_jar
        return f"{found.key}={found.value}"

    async def enter(self, **given: str) -> int:
        status, body, _ = await self.ask("POST", "/console/session", given)
        self.csrf = body.get("csrf", "")
        return status


@asynccontextmanager
async def browsing(config: HttpConfig | None = None) -> AsyncIterator[Browser]:
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address
    async with served(config) as mirror, aiohttp.ClientSession(cookie_jar=jar) as session:
        _, writer = await mirror.connect()  # so that it listens
        writer.close()
        yield Browser(mirror, session)


async def test_the_page_comes_with_its_policy_and_is_kept_by_its_tag() -> None:
    async with browsing(USERS) as browser:
        status, page, headers = await browser.ask("GET", "/console/")
        assert status == 200
        assert page.startswith("<!doctype html>")
        assert headers.getall("Content-Security-Policy") == [POLICY]
        assert headers.getall("Cache-Control") == ["no-cache"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        status, page, headers = await browser.ask("GET", "/console/", headers={"If-None-Match": headers["ETag"]})
        assert (status, page, headers["Content-Security-Policy"]) == (304, "", POLICY)


async def test_a_user_logs_in_acts_and_logs_out() -> None:
    async with browsing(USERS) as browser:
        assert (await browser.ask("GET", "/console/session"))[1]["user"] is None
        assert (await browser.ask("GET", "/connectors"))[0] == 401
        assert await browser.enter(user="eve", password="wrong") == 401
        assert await browser.enter(user="eve", password="pass") == 200
        assert (await browser.ask("GET", "/connectors"))[0] == 200
        assert (await browser.ask("PUT", PAUSE))[0] == 202
        assert browser.mirror.supervisor.asked[-1] == ("command", "pause", "A->B", ())
        assert (await browser.ask("DELETE", "/console/session"))[0] == 204
        assert (await browser.ask("GET", "/connectors"))[0] == 401


async def test_a_change_without_the_token_of_the_session_is_refused() -> None:
    async with browsing(USERS) as browser:
        await browser.enter(user="eve", password="pass")
        for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": f"{browser.csrf}x"}):
            status, body, _ = await browser.ask("PUT", PAUSE, headers=headers)
            assert (status, "reload the page" in body["message"]) == (403, True)
        assert browser.mirror.supervisor.asked == []
        assert (await browser.ask("GET", "/connectors", headers={}))[0] == 200  # what only reads needs none


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("config", [HttpConfig(), USERS], ids=["nobody", "users"])
async def test_a_page_of_another_origin_opens_and_ends_no_session(config: HttpConfig, method: str) -> None:
    async with browsing(config) as browser:
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            body = {"user": "eve", "password": "pass"} if method == "POST" else None
            status, _, answered = await browser.ask(method, "/console/session", body, headers)
            assert (status, "Set-Cookie" in answered) == (403, False)


async def test_a_role_bounds_a_session_too() -> None:
    async with browsing(USERS) as browser:
        await browser.enter(token="t0ken")
        assert (await browser.ask("GET", "/connectors"))[0] == 200
        assert (await browser.ask("PUT", PAUSE))[0] == 403


async def test_a_one_time_token_enters_once() -> None:
    async with browsing(USERS) as browser:
        token = browser.mirror.sessions.make_token("root", Role.ADMIN)
        assert await browser.enter(once=token) == 200
        assert (await browser.ask("PUT", PAUSE))[0] == 202
        await browser.ask("DELETE", "/console/session")
        assert await browser.enter(once=token) == 401


async def test_the_page_never_makes_the_browser_ask_for_a_password() -> None:
    async with browsing(USERS) as browser:
        _, _, asked = await browser.ask("GET", "/connectors")
        _, _, plain = await browser.ask("GET", "/connectors", headers={})
        assert "WWW-Authenticate" not in asked
        assert len(plain.getall("WWW-Authenticate")) == 2


async def test_a_password_of_the_request_goes_before_the_session() -> None:
    async with browsing(USERS) as browser:
        await browser.enter(user="eve", password="pass")
        assert (await browser.ask("PUT", PAUSE, headers={"Authorization": "Bearer t0ken"}))[0] == 403
        assert (await browser.ask("GET", "/connectors", headers={"Authorization": "Bearer x"}))[0] == 401


async def test_without_users_the_page_acts_without_a_session() -> None:
    async with browsing() as browser:
        assert (await browser.ask("GET", "/console/session"))[1]["login"] is False
        assert (await browser.ask("PUT", PAUSE))[0] == 202


async def test_a_cookie_of_another_port_is_no_session_here() -> None:
    async with browsing(USERS) as browser:
        await browser.enter(user="eve", password="pass")
        async with browsing(USERS) as other:
            cookie = f"raymirror-{other.mirror.port}=x; raymirror-{browser.mirror.port}=y"
            assert (await other.ask("GET", "/connectors", headers={"Cookie": cookie}))[0] == 401


async def test_a_stream_ends_soon_after_its_user_has_logged_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "QUIET_S", 0.02)
    monkeypatch.setattr(streams, "ASK_S", 0.0)
    async with browsing(USERS) as browser:
        await browser.enter(user="eve", password="pass")
        async with browser.stream() as response:
            assert response.status == 200
            await browser.ask("DELETE", "/console/session")
            async with asyncio.timeout(DEADLINE_S):
                sent = await response.content.read()
        last = json.loads(sent.strip().splitlines()[-1].removeprefix(b"data: "))
        assert last == {"why": "its user has logged out or changed", "again": True}


async def test_a_stream_ends_soon_after_the_token_of_its_user_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "QUIET_S", 0.02)
    monkeypatch.setattr(streams, "ASK_S", 0.0)
    monkeypatch.setattr(server, "LOGINS_LAST_S", -1.0)
    monkeypatch.setenv("CI_TOKEN", "first")
    user = HttpUser(name="ci", role=Role.VIEW, token="${env:CI_TOKEN}")
    bearer = {"Authorization": "Bearer first"}
    async with browsing(HttpConfig(users=(user,))) as browser, browser.stream(bearer) as response:
        assert response.status == 200
        monkeypatch.setenv("CI_TOKEN", "second")
        async with asyncio.timeout(DEADLINE_S):
            assert b"event: end" in await response.content.read()


@pytest.mark.parametrize("header", [b'Cookie: raymirror-%d="\xff"', b"Cookie: raymirror-%d=\xff", b"X-Port-%d: \xff"])
async def test_a_cookie_with_bytes_that_are_no_text_is_no_session(header: bytes) -> None:
    async with browsing(USERS) as browser:
        asked = b"PUT %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" % PAUSE.encode()
        answer = await browser.mirror.send(asked + header % browser.mirror.port + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 401 ")


async def test_a_token_of_the_session_with_bytes_that_are_no_text_is_refused() -> None:
    async with browsing(USERS) as browser:
        assert await browser.enter(user="eve", password="pass") == 200
        head = b"PUT %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" % PAUSE.encode()
        head += b"Cookie: %s\r\nX-CSRF-Token: \xff\r\n\r\n" % browser.cookie().encode()
        assert (await browser.mirror.send(head)).startswith(b"HTTP/1.1 403 ")
