"""A server over a fake supervisor, on a port of this machine, and plain sockets to it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from actors.console.sessions import SessionBook
from actors.http.command_looks import CommandLooks
from actors.http.command_runs import RunBook
from actors.http.login_limit import LoginLimit
from actors.http.server import MirrorServer
from actors.http.views import MirrorFacts, SupervisorViews
from engine.config.settings import HttpConfig
from tests.unit.actors.http.test_views import FakePages, FakeSupervisor, facts

DEADLINE_S = 120.0
"""A limit for tests on a busy machine, not a time that anything takes."""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class ServedMirror:
    """A server, and what it is made of; by default log-ins may fail as often as a test wants."""

    def __init__(
        self,
        config: HttpConfig,
        supervisor: FakeSupervisor,
        limit: LoginLimit | None = None,
        looks: CommandLooks | None = None,
        known: MirrorFacts | None = None,
        runs: RunBook | None = None,
    ) -> None:
        self.config = config if config.port else msgspec.structs.replace(config, port=free_port())
        self.supervisor = supervisor
        supervisor.takes_s = 0.01  # of real time
        self.facts: MirrorFacts = known or facts()
        self.sessions = SessionBook()
        views = SupervisorViews(supervisor, FakePages(), self.facts, looks=looks, runs=runs)
        self.server = MirrorServer(
            self.config, views, self.sessions, again_s=0.02, limit=limit or LoginLimit(1_000_000)
        )

    @property
    def port(self) -> int:
        return self.config.port

    @property
    def url(self) -> str:
        return f"{'https' if self.config.certificate else 'http'}://127.0.0.1:{self.port}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection, as soon as the server listens."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    return await asyncio.open_connection("127.0.0.1", self.port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.01)

    async def listens(self) -> None:
        """Wait until the server listens."""
        (await self.connect())[1].close()

    async def send(self, data: bytes) -> bytes:
        """Send bytes over a connection of its own, and return all that comes until the server closes it."""
        reader, writer = await self.connect()
        writer.write(data)
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    async def closes(self, data: bytes) -> bool:
        """Whether the server closes a connection that has sent these bytes and no more."""
        await self.send(data)
        return True


@asynccontextmanager
async def served(
    config: HttpConfig | None = None,
    supervisor: FakeSupervisor | None = None,
    limit: LoginLimit | None = None,
    looks: CommandLooks | None = None,
    known: MirrorFacts | None = None,
    runs: RunBook | None = None,
) -> AsyncIterator[ServedMirror]:
    """Serve until the end of the block."""
    mirror = ServedMirror(config or HttpConfig(), supervisor or FakeSupervisor(), limit, looks, known, runs)
    task = asyncio.create_task(mirror.server.run())
    try:
        yield mirror
    finally:
        task.cancel()
        await asyncio.wait([task])
