"""Clients that mean harm, against a server in a process of its own: refused, its memory flat, its loop free."""

import asyncio
import resource
from collections.abc import Iterator

import pytest

from actors.http.connections import MOST_CONNECTIONS
from tests.harness.eventually import until_equal
from tests.harness.rest_attacks import Flood, Smuggling, floods, smugglings
from tests.harness.rest_victim import Victim, victim
from tests.unit.actors.rest.rest_views import SOURCE

pytestmark = pytest.mark.local

STEER = f"/connectors/{SOURCE.replace('>', '%3E')}/stop"
IDLE_S = 1.0
FLAT = 96 * 1024 * 1024
"""Bytes that a process may grow by in an attack: buffers of its connections, and what the allocator keeps of them."""
MOST_STALL_S = 5.0
"""Far beyond what any attack takes, and far below what a held-up loop takes: a slow machine stalls, too."""
MOST_LOGGED = 10_000
"""Bytes of log: no attack repeats there what it has sent, nor writes a line for each request."""


@pytest.fixture(scope="module")
def attacked() -> Iterator[Victim]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with victim(IDLE_S) as one:
        asyncio.run(_until_served(one))
        yield one
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _until_served(one: Victim) -> None:
    await until_equal(one.status, 200)


@pytest.fixture(autouse=True)
def unharmed(attacked: Victim) -> Iterator[None]:
    """After each attack: nothing was done, memory is flat, the loop was free, the next client is served."""
    before = attacked.look()
    yield
    asyncio.run(_until_served(attacked))
    seen = attacked.look()
    assert seen["asked"] == []
    assert seen["resident"] - before["resident"] < FLAT
    assert seen["logged"] - before["logged"] < MOST_LOGGED
    assert seen["stall_s"] < MOST_STALL_S


@pytest.mark.parametrize("one", smugglings(STEER), ids=lambda one: one.name)
async def test_a_request_whose_end_is_not_certain_is_refused_and_its_connection_closed(
    attacked: Victim, one: Smuggling
) -> None:
    answer = await attacked.send(one.data)
    assert answer.partition(b" ")[2].startswith(b"400 ")
    assert answer.count(b"HTTP/1.") == 1, "what follows is no request"
    assert answer.endswith(b'{"error_code":400,"message":"HTTP 400 Bad Request"}'), "nothing of it is repeated"


FIRST, *MORE = floods()


@pytest.mark.parametrize(
    "flood",
    [pytest.param(FIRST, id=FIRST.name), *(pytest.param(one, id=one.name, marks=pytest.mark.full) for one in MORE)],
)
async def test_what_has_no_end_is_cut_off(attacked: Victim, flood: Flood) -> None:
    assert await attacked.flood(flood) > 0


async def test_requests_of_one_connection_that_are_not_awaited_are_answered_one_by_one(attacked: Victim) -> None:
    assert await attacked.pipeline(3_000) == 3_000


async def test_headers_that_arrive_byte_by_byte_end_with_their_connections(attacked: Victim) -> None:
    await attacked.drip(MOST_CONNECTIONS)
    assert await attacked.status() == 200


@pytest.mark.full
async def test_ten_thousand_connections_are_closed_but_for_those_that_it_has_room_for(attacked: Victim) -> None:
    async with attacked.crowd(10_000) as opened:
        assert opened > MOST_CONNECTIONS
    await until_equal(attacked.status, 200)
