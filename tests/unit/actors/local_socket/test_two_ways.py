"""The way of a command to its mirror, and its cost: no Ray and no heavy import if the mirror's socket answers."""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.cli.common import connect_args as asking
from actors.local import session
from actors.local.session import MirrorEnds, StateFile
from actors.local_socket.client import LocalMirror
from actors.local_socket.server import open_server
from actors.model.requests import MirrorLost
from actors.model.status import MirrorStatus, decode_status, encode_status
from actors.ray import connect, mirror
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.mirrors import started

pytestmark = pytest.mark.local

ROOT = Path(__file__).parents[4]
NAME, INSTANCE = "raymirror-one", "5f" * 16
ARGS = argparse.Namespace(address=None, mirror=None)
HEAVY = {
    "ray",
    "raydp",
    "pyspark",
    "aiokafka",
    "numpy",
    "yaml",
    "asyncio",
    "aiohttp",
    "opentelemetry",
    "engine.config.config",
}


class FakeShell:
    """A supervisor's shell that answers with one status."""

    def __init__(self, status: MirrorStatus) -> None:
        self.said = encode_status(status)

    async def status(self, _lanes: bool, _follower: str) -> bytes:
        return self.said

    async def command(self, _command: str, _flow: str | None, _topics: tuple[str, ...]) -> bytes:
        return self.said

    async def restart(self, _flow: str) -> None:
        return


@pytest.fixture
def status(fleet: FakeFleet, clock: Clock) -> MirrorStatus:
    return started(fleet, clock).status()


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        yield Path(short) / "sockets"


def note(path: Path) -> None:
    """Note on this machine that this very process has the mirror."""
    pid = os.getpid()
    session.write(
        StateFile(
            address="h:1",
            namespace=NAME,
            pid=pid,
            pid_start=session.process_start(pid) or 0,
            version="0",
            config_path="mm2.properties",
            config_digest="d",
            local=True,
            instance_id=INSTANCE,
            socket=str(path),
        ),
        os.environ,
    )


@asynccontextmanager
async def served(home: Path, status: MirrorStatus) -> AsyncIterator[None]:
    """Serve a status, and note where."""
    made = open_server(home, NAME, INSTANCE, FakeShell(status))
    task = asyncio.create_task(made.run())
    note(made.path)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        made.close()


@pytest.fixture
def by_ray(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses of the Rays that commands connect to."""
    asked: list[str] = []

    def attach(address: str, *, local: bool) -> Any:
        del local
        asked.append(address)
        return SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(connect, "attach", attach)
    monkeypatch.setattr(mirror, "join", lambda _connection, _place: "by Ray")
    return asked


def ask(args: argparse.Namespace = ARGS) -> MirrorStatus | str:
    """Ask for the status whichever way; what the Ray way gives is no mirror here."""
    with asking.running_mirror(args) as (found, _):
        return found.status() if isinstance(found, LocalMirror) else str(found)


async def test_the_socket_is_taken_where_it_answers(home: Path, status: MirrorStatus, by_ray: list[str]) -> None:
    async with served(home, status):
        assert await asyncio.to_thread(ask) == decode_status(encode_status(status))
    assert by_ray == []


async def test_an_address_that_is_given_means_ray(home: Path, status: MirrorStatus, by_ray: list[str]) -> None:
    async with served(home, status):
        assert await asyncio.to_thread(ask, argparse.Namespace(address="h:1", mirror=None)) == "by Ray"
    assert by_ray == ["h:1"]


async def test_a_dead_supervisor_is_asked_for_through_ray(home: Path, status: MirrorStatus, by_ray: list[str]) -> None:
    async with served(home, status):
        pass
    assert await asyncio.to_thread(ask) == "by Ray"
    assert by_ray == ["h:1"]


async def test_one_that_ends_while_it_is_asked_says_so(home: Path, status: MirrorStatus) -> None:
    def end() -> None:
        with asking.running_mirror(ARGS):
            session.note(NAME, os.getpid(), os.environ, ending_ms=1)
            raise MirrorLost(NAME, "its local socket: it was closed")

    async with served(home, status):
        with pytest.raises(MirrorEnds):
            await asyncio.to_thread(end)


class CountedRay:
    """A Ray whose one supervisor answers with a status, and counts how often it was asked."""

    def __init__(self, status: MirrorStatus) -> None:
        self._status, self.asked = status, 0
        self.status = self  # the handle's method

    def remote(self, _lanes: bool, _follower: str) -> bytes:
        self.asked += 1
        return encode_status(self._status)

    def get(self, answer: bytes, timeout: float) -> bytes:
        assert timeout > 0
        return answer


async def test_a_follower_uses_the_socket_while_it_answers_and_ray_otherwise(home: Path, status: MirrorStatus) -> None:
    said = msgspec.structs.replace(status, instance_id=INSTANCE, socket=str(home / f"{INSTANCE}.sock"))
    ray = CountedRay(said)
    followed = mirror.Mirror(connect.RayConnection(ray, "h:1", None), ray, NAME)
    async with served(home, said):
        for _ in range(3):
            assert (await asyncio.to_thread(followed.follow)).instance_id == INSTANCE
        assert ray.asked == 1, "only Ray knows at first where the socket is"
    for _ in range(2):
        assert (await asyncio.to_thread(followed.follow)).instance_id == INSTANCE
    assert ray.asked == 3
    async with served(home, said):
        followed._forget_socket()  # as when another supervisor was found
        for _ in range(2):
            await asyncio.to_thread(followed.follow)
    assert ray.asked == 4
    followed._forget_socket()


@pytest.mark.parametrize(
    "words",
    [
        ["status"],
        ["status", "--json"],
        ["lag"],
        ["events"],
        ["pause", "--timeout", "0"],
        ["resume"],
        ["restart", "A->B"],
    ],
    ids=" ".join,
)
async def test_the_command_imports_nothing_heavy(home: Path, status: MirrorStatus, words: list[str]) -> None:
    script = (
        "import sys\nfrom actors.cli.main import main\n"
        f"assert main({words!r}) == 0\nheavy = {HEAVY!r} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    async with served(home, msgspec.structs.replace(status, lanes=())):
        done = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        out, _ = await done.communicate()
    assert done.returncode == 0, out.decode()
