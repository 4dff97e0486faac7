"""A hundred requests a second to a mirror's HTTP server, every tenth a pause or a resume, and what each got.

One client gives the commands, one after the other, so it is known at each moment what a right answer says: after an
accepted command the flow is in its state, until the next command. A command that got no answer, or 409, may have been
carried out or not: until the next accepted one, both states are right.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp

EVERY_S = 0.01
ONE_IN = 10
ASK_S = 60.0
CUT = 0
"""The status of a request whose connection was closed or refused."""
Holds = Callable[[Any], bool]


class Answered(NamedTuple):
    """A request and what it got."""

    sent_s: float
    done_s: float
    method: str
    path: str
    status: int
    body: Any


class RestLoad:
    """The load on one source connector. `port`: of the server; `name`: of the connector, encoded for a path;
    `reads`: what a body of each path must be.
    """

    def __init__(self, port: int, name: str, reads: dict[str, Holds]) -> None:
        self._url, self._one, self._reads = f"http://127.0.0.1:{port}", f"/connectors/{name}", reads
        self.answered: list[Answered] = []
        self.wrong: list[Answered] = []
        self.accepted = Counter[str]()
        self._may_be = {"RUNNING"}
        """The states that a right answer has now; UNASSIGNED is none: it says that no copier works yet."""
        self._changes = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send requests until the end of the block."""
        connector = aiohttp.TCPConnector(limit=64, force_close=True)
        timeout = aiohttp.ClientTimeout(ASK_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            ends = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                steering = group.create_task(self._steer_always(session, ends))
                reading = group.create_task(self._read_always(session, group, ends))
                try:
                    yield
                finally:
                    ends.set()
                    await asyncio.wait([steering, reading])

    async def state(self) -> str:
        """Return the state of the connector now; empty if it is not answered."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(ASK_S)) as session:
            found = await self._ask(session, "GET", f"{self._one}/status")
        return str(found.body["connector"]["state"]) if found.status == 200 else ""

    @property
    def expected(self) -> set[str]:
        """The states that a right answer has now."""
        return self._may_be

    async def _steer_always(self, session: aiohttp.ClientSession, ends: asyncio.Event) -> None:
        verbs = {"pause": "PAUSED", "resume": "RUNNING"}
        while not ends.is_set():
            for verb, state in verbs.items():
                began_s = time.monotonic()
                self._changes += 1
                self._may_be = self._may_be | {state}
                found = await self._ask(session, "PUT", f"{self._one}/{verb}")
                self._note(found, found.status in (202, 409, CUT))
                if found.status == 202:
                    self.accepted[verb] += 1
                    self._changes += 1
                    self._may_be = {state}
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, began_s + EVERY_S * ONE_IN - time.monotonic())):
                        await ends.wait()

    async def _read_always(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup, ends: asyncio.Event) -> None:
        paths = [*self._reads, f"{self._one}/status", "/connectors?expand=status"]
        due_s, count = time.monotonic(), 0
        while not ends.is_set():
            count += 1
            if count % ONE_IN:
                group.create_task(self._read(session, paths[count % len(paths)]))
            due_s += EVERY_S
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    async def _read(self, session: aiohttp.ClientSession, path: str) -> None:
        before = self._changes
        found = await self._ask(session, "GET", path)
        is_right = found.status in (200, 409, CUT)
        if found.status == 200 and path in self._reads:
            is_right = self._reads[path](found.body)
        elif found.status == 200 and before == self._changes:  # no command came in between: the state is certain
            is_right = self._state_in(found.body) in {*self._may_be, "UNASSIGNED"}
        self._note(found, is_right)

    def _state_in(self, body: Any) -> str:
        if "connector" not in body:
            (body,) = [one["status"] for name, one in body.items() if name.endswith("MirrorSourceConnector")]
        return str(body["connector"]["state"])

    def _note(self, found: Answered, is_right: bool) -> None:
        self.answered.append(found._replace(body=None))
        if not is_right:
            self.wrong.append(found)

    async def _ask(self, session: aiohttp.ClientSession, method: str, path: str) -> Answered:
        sent_s = time.monotonic()
        try:
            async with session.request(method, f"{self._url}{path}") as answer:
                text = await answer.text()
                status = answer.status
        except (aiohttp.ClientError, OSError):
            return Answered(sent_s, time.monotonic(), method, path, CUT, None)
        is_json = answer.content_type == "application/json"
        body = json.loads(text) if is_json and text else text
        return Answered(sent_s, time.monotonic(), method, path, status, body)

    def away_s(self, since_s: float) -> float:
        """Seconds from the first request after `since_s` that was not answered, or with 409, to the last of them."""
        away = self._away(since_s, (409, CUT))
        return max(one.done_s for one in away) - min(one.sent_s for one in away) if away else 0.0

    def refused_s(self, since_s: float) -> float:
        """Seconds from `since_s` to the last request whose connection was refused or cut: then the port is open."""
        return max((one.done_s - since_s for one in self._away(since_s, (CUT,))), default=0.0)

    def _away(self, since_s: float, statuses: tuple[int, ...]) -> list[Answered]:
        return [one for one in self.answered if one.done_s >= since_s and one.status in statuses]
