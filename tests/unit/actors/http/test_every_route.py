"""Every route of the table over a socket: without a name, with a wrong one, with a weak one, by pages of others."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Mapping

import pytest

from actors.http.table import ROUTES
from actors.rest.access import SAFE_METHODS
from actors.rest.routes import HttpRoute
from engine.config.settings import HttpConfig, HttpUser
from policies.roles import ROLES, Role
from tests.unit.actors.http.http_servers import DEADLINE_S, ServedMirror, served
from tests.unit.actors.rest.test_routes import path_of

pytestmark = pytest.mark.local

SECRETS = {role: f"pass-of-{role}" for role in Role}
USERS = HttpConfig(
    users=tuple(
        HttpUser(name=role, role=role, password=secret, token=f"token-{secret}") for role, secret in SECRETS.items()
    )
)
GUARDED = [route for route in ROUTES if route.role is not None]
PAGES = ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"})
HOST = {"Host": "localhost"}
REBOUND = {"Host": "evil.example:8083"}
Asked = tuple[str, str, Mapping[str, str]]
"""Method, path, headers."""


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


WRONG: tuple[Mapping[str, str], ...] = (
    {},
    basic("admin", "wrong"),
    basic("nobody", SECRETS[Role.ADMIN]),
    basic("admin", ""),
    {"Authorization": "Bearer wrong"},
    {"Authorization": f"Bearer {SECRETS[Role.ADMIN]}"},
    {"Authorization": "Bearer"},
    {"Authorization": "Basic !"},
    {"Authorization": f"Negotiate {SECRETS[Role.ADMIN]}"},
    {"Cookie": f"token=token-{SECRETS[Role.ADMIN]}"},
    {"X-Forwarded-User": "admin", "X-Remote-User": "admin", "X-Forwarded-For": "127.0.0.1"},
)


class Asker:
    """Sends requests of the table to a server, over connections that stay open."""

    def __init__(self, mirror: ServedMirror) -> None:
        self.mirror = mirror
        self.answers: list[str] = []

    async def statuses(self, requests: list[Asked]) -> list[int]:
        """Send requests one after the other, and return their statuses."""
        reader, writer = await self.mirror.connect()
        found = []
        async with asyncio.timeout(DEADLINE_S):
            for method, path, headers in requests:
                lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
                writer.write(("\r\n".join(lines) + "\r\nContent-Length: 0\r\n\r\n").encode())
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                sizes = [line for line in head.split("\r\n") if line.lower().startswith("content-length")]
                body = await reader.readexactly(int(sizes[0].partition(":")[2])) if method != "HEAD" and sizes else b""
                self.answers.append(head + body.decode())
                found.append(int(head.split(" ", 2)[1]))
        writer.close()
        return found


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    async with served(USERS) as mirror:
        yield Asker(mirror)


def of(route: HttpRoute, headers: Mapping[str, str]) -> Asked:
    return route.method, path_of(route.template), {**HOST, **headers}


async def test_nobody_gets_in_without_the_name_and_the_secret_of_a_user(asker: Asker) -> None:
    requests = [of(route, wrong) for route in GUARDED for wrong in WRONG]
    found = await asker.statuses(requests)
    assert [one for one, status in zip(requests, found, strict=True) if status != 401] == []
    assert asker.mirror.supervisor.asked == [], "not even the status was asked for"
    unknown: list[Asked] = [(method, "/nothing", HOST) for method in ("GET", "PUT", "TRACE", "PROPFIND")]
    assert set(await asker.statuses(unknown)) == {401}, "nor what there is"
    assert not any(secret in answer for secret in SECRETS.values() for answer in asker.answers)


def weak_ones() -> Iterator[tuple[HttpRoute, Role]]:
    for route in GUARDED:
        for role in Role:
            if route.role is not None and ROLES.index(role) < ROLES.index(route.role):
                yield route, role


async def test_a_role_that_is_too_weak_does_nothing(asker: Asker) -> None:
    pairs = list(weak_ones())
    assert len(pairs) > 10
    headers = [*(basic(role, SECRETS[role]) for _, role in pairs)]
    tokens = [{"Authorization": f"Bearer token-{SECRETS[role]}"} for _, role in pairs]
    requests = [of(route, one) for some in (headers, tokens) for (route, _), one in zip(pairs, some, strict=True)]
    found = await asker.statuses(requests)
    assert [one for one, status in zip(requests, found, strict=True) if status != 403] == []
    assert asker.mirror.supervisor.asked == []


async def test_a_page_of_another_origin_changes_nothing_even_with_the_secrets_of_its_reader(asker: Asker) -> None:
    changing = [route for route in GUARDED if route.method not in SAFE_METHODS]
    assert len(changing) > 10
    admin = basic("admin", SECRETS[Role.ADMIN])
    requests = [of(route, {**admin, **page}) for route in changing for page in PAGES]
    found = await asker.statuses(requests)
    assert [one for one, status in zip(requests, found, strict=True) if status != 403] == []
    assert asker.mirror.supervisor.asked == []
    assert not any("access-control-allow" in answer.lower() for answer in asker.answers), "no other page may read"


async def test_without_users_a_page_that_gave_this_machine_a_name_of_its_own_is_refused() -> None:
    async with served() as mirror:
        asker = Asker(mirror)
        requests: list[Asked] = [(method, path, REBOUND) for method, path, _ in (of(route, {}) for route in GUARDED)]
        found = await asker.statuses(requests)
        assert [one for one, status in zip(requests, found, strict=True) if status != 403] == []
        assert mirror.supervisor.asked == []
