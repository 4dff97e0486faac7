"""The typed API over real sockets, with the supervisor's shell behind it: answers, commands, the live stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from actors.api import hub
from engine.config.settings import HttpConfig
from tests.harness.eventually import until, until_equal
from tests.unit.actors.http.http_servers import DEADLINE_S, served
from tests.unit.actors.http.test_mirror_over_http import HttpStage

pytestmark = pytest.mark.local

FLOW = "/api/v1/flows/A-%3EB"


@pytest.fixture
async def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[HttpStage]:
    async with aiohttp.ClientSession() as session:
        made = HttpStage(monkeypatch, tmp_path, session)
        await made.stage.until(lambda status: status.phase == "starting")
        yield made
        if not made.stage.shell._task.done():
            await made.stage.end()


class Stream:
    """An open stream of a server."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.ids: list[str] = []

    async def next(self) -> tuple[str, Any]:
        """Return kind and body of the next message."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(DEADLINE_S):
            while True:
                line = (await self._response.content.readline()).decode()
                if not line:
                    return "closed", None
                name, _, value = line.rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    self.ids += [fields["id"]] if "id" in fields else []
                    return fields["event"], json.loads(fields["data"])
                if not line.strip():
                    fields = {}

    async def find(self, kind: str) -> Any:
        """Return the body of the next message of a kind."""
        while True:
            found, body = await self.next()
            if found == kind:
                return body
            assert found != "closed", f"the stream has ended before {kind}"


async def state_of(mirror: HttpStage) -> str:
    return str((await mirror.ask("GET", FLOW))[1]["state"])


async def test_a_flow_is_seen_and_steered(mirror: HttpStage) -> None:
    status, page = await mirror.ask("GET", "/api/v1/mirror")
    assert (status, [flow["flow"] for flow in page["flows"]]) == (200, ["A->B"])
    assert [cluster["bootstrap"] for cluster in page["clusters"]] == [["a:1"], ["b:1"]]
    for verb, state in (("pause", "paused"), ("stop", "stopped"), ("resume", "waiting")):
        status, accepted = await mirror.ask("POST", f"{FLOW}/{verb}")
        assert (status, accepted) == (202, {"command": verb, "flow": "A->B", "topics": [], "moved_topics": []})
        await until_equal(lambda: state_of(mirror), state)


async def test_statuses_that_somebody_asks_for_fill_the_series(mirror: HttpStage) -> None:
    await mirror.stage.status()
    status, found = await mirror.ask("GET", f"{FLOW}/series")
    assert (status, found["every_seconds"]) == (200, 5.0)
    assert len(found["at_ms"]) == len(found["lag_records"]) >= 1


async def test_a_stream_shows_what_a_command_changes_and_ends_with_the_mirror(mirror: HttpStage) -> None:
    await mirror.ask("GET", "/api/v1/me")  # so that it listens
    async with mirror._session.get(f"http://127.0.0.1:{mirror.port}/api/v1/stream") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        stream = Stream(response)
        snapshot = await stream.find("snapshot")
        assert [flow["state"] for flow in snapshot["flows"]] == ["waiting"]
        await mirror.ask("POST", f"{FLOW}/pause")
        assert (await stream.find("flow"))["state"] == "paused"
        await mirror.stage.end()
        assert (await stream.find("end"))["again"] in (True, False)
        assert (await stream.next())[0] == "closed"


async def test_a_reader_that_comes_back_gets_no_second_snapshot(mirror: HttpStage) -> None:
    await mirror.ask("GET", "/api/v1/me")
    url = f"http://127.0.0.1:{mirror.port}/api/v1/stream"
    async with mirror._session.get(url) as response:
        stream = Stream(response)
        await stream.find("snapshot")
    await mirror.ask("POST", f"{FLOW}/pause")
    async with mirror._session.get(url, headers={"Last-Event-ID": stream.ids[-1]}) as response:
        kinds: list[str] = []
        again = Stream(response)
        while "flow" not in kinds:
            kinds.append((await again.next())[0])
        assert "snapshot" not in kinds


async def test_a_stream_that_is_one_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "MOST_READERS", 1)
    async with served() as mirror, aiohttp.ClientSession() as session:
        await mirror.listens()
        async with session.get(f"{mirror.url}/api/v1/stream") as first:
            await Stream(first).find("snapshot")
            async with session.get(f"{mirror.url}/api/v1/stream") as second:
                assert second.status == 429
                assert (await second.json())["error_code"] == 429
        assert first.status == 200


async def test_a_client_that_goes_away_frees_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "QUIET_S", 0.1)  # the next write finds that it has gone
    async with served(HttpConfig()) as mirror, aiohttp.ClientSession() as session:
        await mirror.listens()
        async with session.get(f"{mirror.url}/api/v1/stream") as response:
            await Stream(response).find("snapshot")
            assert mirror.server._hub.readers == 1
        await until(lambda: mirror.server._hub.readers == 0, "no reader")


async def test_head_of_a_stream_has_no_body() -> None:
    async with served() as mirror, aiohttp.ClientSession() as session:
        await mirror.listens()
        async with session.head(f"{mirror.url}/api/v1/stream") as response:
            assert (response.status, await response.read()) == (200, b"")
