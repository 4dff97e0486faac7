"""Commands and a supervisor over a real Unix socket: the answers, and clients that must not block the supervisor."""

import asyncio
import os
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

from actors.control.flow_state import TopicsNotKnownYet
from actors.local.session import MirrorPlace
from actors.local_socket import client, folder, frames, server
from actors.local_socket.client import LocalMirror, RequestRefused, reach
from actors.local_socket.folder import UnsafeFolder, socket_folder
from actors.local_socket.frames import HEAD, BadFrame, Hello, pack
from actors.local_socket.server import open_server
from actors.model.requests import AskStatus, GiveCommand, MirrorLost
from actors.model.states import Command, IllegalCommand, UnknownFlow
from actors.model.status import MirrorStatus, encode_status
from engine.base.clock import pause
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.mirrors import started

pytestmark = pytest.mark.local

NAME, INSTANCE = "raymirror-one", "5f" * 16


class FakeShell:
    """A supervisor's shell without a supervisor: answers with one status and keeps what it was asked."""

    def __init__(self, status: MirrorStatus) -> None:
        self.said = status
        self.asked: list[tuple[Any, ...]] = []
        self.failure: Exception | None = None
        self.holds = asyncio.Event()
        self.holds.set()
        self.begun = asyncio.Event()

    async def status(self, lanes: bool, follower: str) -> bytes:
        self.begun.set()
        await self.holds.wait()
        self.asked.append(("status", lanes, follower))
        return encode_status(self.said)

    async def command(self, command: str, flow: str | None, topics: tuple[str, ...]) -> bytes:
        if self.failure is not None:
            raise self.failure
        self.asked.append(("command", command, flow, topics))
        return encode_status(self.said)

    async def restart(self, flow: str) -> None:
        self.asked.append(("restart", flow))


@pytest.fixture
async def shell(fleet: FakeFleet, clock: Clock) -> FakeShell:
    return FakeShell(started(fleet, clock).status())


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a path short enough for sockets, which pytest's own have not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        yield Path(short) / "sockets"


def place_of(path: Path, **other: str) -> MirrorPlace:
    facts = {"address": "h:1", "namespace": NAME, "instance_id": INSTANCE, "socket": str(path), **other}
    return msgspec.convert(facts, MirrorPlace)


@asynccontextmanager
async def served(home: Path, shell: FakeShell, namespace: str = NAME) -> AsyncIterator[Path]:
    """Serve a shell; give the socket's path."""
    made = open_server(home, namespace, INSTANCE, shell)
    task = asyncio.create_task(made.run())
    try:
        yield made.path
    finally:
        task.cancel()
        await asyncio.wait([task])
        made.close()


async def asked(path: Path, ask: Callable[[LocalMirror], Any], **other: str) -> Any:
    """Ask over the socket as a command does, in a thread of its own."""

    def talk() -> Any:
        mirror = reach(place_of(path, **other))
        assert mirror is not None
        try:
            return ask(mirror)
        finally:
            mirror.close()

    return await asyncio.to_thread(talk)


async def reached(path: Path, **other: str) -> bool:
    mirror = await asyncio.to_thread(reach, place_of(path, **other))
    if mirror is not None:
        mirror.close()
    return mirror is not None


class Raw:
    """A client that sends what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def message(self) -> bytes:
        (size,) = HEAD.unpack(await self.reader.readexactly(HEAD.size))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Whether the other side closes without a further word."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read(1) == b""
            except ConnectionResetError:  # it closed before it had read all
                return True

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()


async def raw(path: Path) -> Raw:
    """Connect, and take the greeting."""
    found = Raw(*await asyncio.open_unix_connection(str(path)))
    assert frames.read_hello(await found.message()) == Hello(namespace=NAME, instance_id=INSTANCE)
    return found


# --- what is answered ----------------------------------------------------------------------------------------


async def test_every_request_of_the_table_is_answered(home: Path, shell: FakeShell) -> None:
    async with served(home, shell) as path:

        def ask(mirror: LocalMirror) -> list[MirrorStatus]:
            mirror.restart("A->B")
            return [
                mirror.status(),
                mirror.status(lanes=True),
                mirror.command(Command.PAUSE, "A->B", ("t", "u")),
                mirror.command(Command.RESUME),
            ]

        assert await asked(path, ask) == [shell.said] * 4
    assert shell.asked == [
        ("restart", "A->B"),
        ("status", False, ""),
        ("status", True, ""),
        ("command", Command.PAUSE, "A->B", ("t", "u")),
        ("command", Command.RESUME, None, ()),
    ]


@pytest.mark.parametrize("failure", [UnknownFlow("A->X", ("A->B",)), IllegalCommand("pause", "stopped")])
async def test_a_refusal_keeps_its_words_and_exit_code(home: Path, shell: FakeShell, failure: Exception) -> None:
    shell.failure = failure
    async with served(home, shell) as path:
        with pytest.raises(RequestRefused) as refused:
            await asked(path, lambda mirror: mirror.command(Command.PAUSE))
    assert str(refused.value) == str(failure)
    assert not hasattr(refused.value, "exit_code")


@pytest.mark.parametrize("failure", [MirrorLost("n", "it has ended"), TopicsNotKnownYet("t", "A->B", "a cluster")])
async def test_a_refusal_of_another_exit_code_keeps_that(home: Path, shell: FakeShell, failure: Exception) -> None:
    shell.failure = failure
    async with served(home, shell) as path:
        with pytest.raises(RequestRefused) as refused:
            await asked(path, lambda mirror: mirror.command(Command.PAUSE))
    assert (str(refused.value), refused.value.exit_code) == (str(failure), 1)


async def test_a_bug_of_the_supervisor_ends_nobody(home: Path, shell: FakeShell) -> None:
    shell.failure = KeyError("a bug")
    async with served(home, shell) as path:
        with pytest.raises(MirrorLost, match=r"does not answer \(KeyError: 'a bug'\)"):
            await asked(path, lambda mirror: mirror.command(Command.PAUSE))
        assert await asked(path, lambda mirror: mirror.status()) == shell.said


# --- whose socket it is --------------------------------------------------------------------------------------


async def test_a_mirror_is_known_by_its_name_and_its_instance(home: Path, shell: FakeShell) -> None:
    async with served(home, shell) as path:
        assert await reached(path)
        assert not await reached(path, namespace="raymirror-two")
        assert not await reached(path, instance_id="another, of the same name")
        assert not await reached(path, socket="")


async def test_another_protocol_is_not_spoken(home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(home, shell) as path:
        monkeypatch.setattr(client, "PROTOCOL", frames.PROTOCOL + 1)
        assert not await reached(path)


async def test_a_folder_that_others_may_enter_is_used_by_neither(home: Path, shell: FakeShell) -> None:
    async with served(home, shell) as path:
        home.chmod(0o755)
        assert not await reached(path)
        with pytest.raises(UnsafeFolder, match="has mode 0755: no socket is used there; it must be"):
            open_server(home, NAME, INSTANCE, shell)


def test_a_folder_of_somebody_else_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.make_folder(home)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UnsafeFolder, match=f"belongs to user {os.getuid()}"):
        folder.refuse_unsafe(home)


def test_a_link_is_no_folder(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "planted"
    target.mkdir(mode=0o700)
    home.symlink_to(target)
    with pytest.raises(UnsafeFolder, match="is no folder"):
        folder.make_folder(home)


def as_stranger(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """Have the other end belong to another user, for one of the two sides."""
    monkeypatch.setattr(module, "is_of_this_user", lambda _connection: False)


async def test_a_client_of_another_user_is_told_nothing(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(home, shell) as path:
        as_stranger(monkeypatch, folder)
        connection = Raw(*await asyncio.open_unix_connection(str(path)))
        assert await connection.is_closed()
        connection.close()
        assert not await reached(path)


async def test_a_server_of_another_user_is_asked_nothing(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(home, shell) as path:
        as_stranger(monkeypatch, client)
        assert not await reached(path)
    assert shell.asked == []


def test_the_kernel_says_whose_process_is_at_the_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert folder.is_of_this_user(ours)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not folder.is_of_this_user(ours)


# --- sockets that nobody listens at --------------------------------------------------------------------------


async def test_a_socket_ends_with_its_server(home: Path, shell: FakeShell) -> None:
    async with served(home, shell) as path:
        assert path.is_socket()
        assert list(home.iterdir()) == [path]
    assert list(home.iterdir()) == []
    assert not await reached(path)


def leave_dead(path: Path) -> None:
    """Leave a socket as a killed process does."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))


async def test_a_dead_socket_is_no_mirror_and_makes_room(home: Path, shell: FakeShell) -> None:
    folder.make_folder(home)
    other = home / f"other{folder.SUFFIX}"
    leave_dead(home / f"{INSTANCE}{folder.SUFFIX}")
    leave_dead(other)
    assert not await reached(home / f"{INSTANCE}{folder.SUFFIX}")
    async with served(home, shell) as path:
        assert await reached(path)
        assert not other.exists()


async def test_the_next_supervisor_takes_the_name_and_the_last_one_leaves_it(home: Path, shell: FakeShell) -> None:
    first = open_server(home, NAME, INSTANCE, shell)
    async with served(home, shell) as path:
        first.close()
        first.close()
        assert await reached(path)


async def test_living_sockets_of_other_mirrors_stay(home: Path, shell: FakeShell) -> None:
    async with served(home, shell) as path:
        other = open_server(home, "raymirror-two", "b" * 32, shell)
        assert await reached(path)
        other.close()


async def test_a_cancelled_server_that_had_not_begun_can_be_closed(home: Path, shell: FakeShell) -> None:
    made = open_server(home, NAME, INSTANCE, shell)
    made.close()
    assert list(home.iterdir()) == []


async def test_no_socket_is_left_where_none_can_be_made(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        open_server(home, NAME, INSTANCE, shell)


async def test_a_listener_that_fails_leaves_the_supervisor_alone(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = open_server(home, NAME, INSTANCE, shell)

    async def fail(_listener: socket.socket) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("actors.local_socket.server.readable", fail)
    await made.run()
    assert not made.path.exists()


def test_a_server_that_is_closed_between_two_requests_leaves_the_supervisor_alone(
    home: Path, fleet: FakeFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor runs on uvloop, which answers a closed socket with a ValueError."""

    async def serve_one() -> None:
        made = open_server(home, NAME, INSTANCE, FakeShell(started(fleet, clock).status()))
        send = server._send

        async def send_and_end(connection: socket.socket, message: bytes) -> None:
            await send(connection, message)
            made.close()

        monkeypatch.setattr(server, "_send", send_and_end)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(made.run())
            assert not await reached(made.path, instance_id="another")
            while made._open:
                await pause(0.01)
            assert not running.done()
            running.cancel()

    uvloop.run(serve_one())


def test_paths_are_short_enough_for_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    for base in ("/tmp", "/run/raymirror-main", "/a" * 60):
        monkeypatch.setattr("tempfile.tempdir", base)
        path = socket_folder() / f"{INSTANCE}.4194304"
        assert len(os.fsencode(path)) <= folder.LONGEST_PATH
    assert str(socket_folder()) == f"/tmp/raymirror-{os.geteuid()}"
    assert socket_folder("/run/x") == Path(f"/run/x/raymirror-{os.geteuid()}")


# --- what cannot hold the supervisor up ----------------------------------------------------------------------

NONSENSE = [
    b"GET / HTTP/1.1\r\n\r\n",
    HEAD.pack(0),
    HEAD.pack(3) + b"\xc1\xc1\xc1",
    HEAD.pack(5) + b"\x80\x04K\x01.",  # a pickle
    HEAD.pack(frames.MOST_REQUEST + 1),
    HEAD.pack(10) + msgspec.msgpack.encode({"method": 1}),
    *(
        HEAD.pack(len(body)) + body
        for body in map(
            msgspec.msgpack.encode,
            [
                {"method": "fail_over", "flow": "A->B"},  # a method of the shell that is not in the table
                {"method": "__class__"},
                {"method": "command", "command": "explode"},
                {"method": "command"},
                {"method": "status", "lanes": "yes"},
                {"method": "status", "more": 1},
                {"method": "restart", "flow": 7},
                [["deep"]] * 100,
            ],
        )
    ),
]


@pytest.mark.parametrize("data", NONSENSE)
async def test_nonsense_ends_its_connection_only(home: Path, shell: FakeShell, data: bytes) -> None:
    async with served(home, shell) as path:
        fine, bad = await raw(path), await raw(path)
        await bad.send(data)
        bad.writer.write_eof()
        assert await bad.is_closed()
        await fine.send(pack(AskStatus()))
        assert frames.read_reply(await fine.message()) == frames.Answer(encode_status(shell.said))
        bad.close()
        fine.close()
    assert shell.asked == [("status", False, "")]


async def test_bytes_at_random_are_a_bad_frame_or_a_request() -> None:
    good = pack(GiveCommand(Command.PAUSE, "A->B", ("t",)))[HEAD.size :]
    for place in range(len(good)):
        for value in range(256):
            body = good[:place] + bytes([value]) + good[place + 1 :]
            try:
                frames.read_request(body)
            except BadFrame:
                continue


async def test_silent_and_slow_clients_are_closed(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.05)
    monkeypatch.setattr(server, "MESSAGE_S", 0.05)
    async with served(home, shell) as path:
        silent, slow = await raw(path), await raw(path)
        await slow.send(HEAD.pack(100) + b"a part")
        assert await silent.is_closed()
        assert await slow.is_closed()
        silent.close()
        slow.close()


async def test_a_client_that_does_not_read_is_closed(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MESSAGE_S", 0.05)
    shell.said = msgspec.structs.replace(shell.said, version="x" * 8 * 1024 * 1024)
    async with served(home, shell) as path:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, str(path))
            await loop.sock_sendall(deaf, pack(AskStatus()))
            monkeypatch.setattr(server, "MESSAGE_S", 60.0)
            assert await asked(path, lambda mirror: mirror.status()) == shell.said


async def test_more_connections_than_are_allowed_are_closed(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 2)
    async with served(home, shell) as path:
        both = [await raw(path), await raw(path)]
        assert not await reached(path), "it is asked through Ray then"
        for one in both:
            one.close()
        async with asyncio.timeout(60):
            while not await reached(path):
                await pause(0.01)


async def test_who_hangs_up_early_is_no_trouble(home: Path, shell: FakeShell) -> None:
    async with served(home, shell) as path:
        with socket.socket(socket.AF_UNIX) as gone:
            gone.connect(str(path))
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        shell.holds.clear()
        asks = await raw(path)
        await asks.send(pack(AskStatus()))
        asks.close()
        shell.holds.set()
        assert await asked(path, lambda mirror: mirror.status()) == shell.said


# --- a supervisor that is not well ---------------------------------------------------------------------------


async def test_a_frozen_supervisor_is_left_to_ray(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HELLO_S", 0.05)
    folder.make_folder(home)
    path = home / f"{INSTANCE}{folder.SUFFIX}"
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(str(path))
        frozen.listen()
        assert not await reached(path)


async def test_one_that_does_not_answer_in_time_is_lost(home: Path, shell: FakeShell) -> None:
    shell.holds.clear()
    async with served(home, shell) as path:
        with pytest.raises(MirrorLost, match="no answer in 0 s"):
            await asked(path, lambda mirror: mirror.status(timeout_s=0.05))


async def test_one_that_ends_while_it_is_asked_is_lost(home: Path, shell: FakeShell) -> None:
    shell.holds.clear()
    async with served(home, shell) as path:
        asks = asyncio.create_task(asked(path, lambda mirror: mirror.status()))
        await shell.begun.wait()
    with pytest.raises(MirrorLost, match="its local socket"):
        await asks


@pytest.mark.parametrize("reply", [HEAD.pack(3) + b"\xc1\xc1\xc1", HEAD.pack(frames.MOST_ANSWER + 1), b"\x00"])
async def test_an_answer_that_is_none_is_told(home: Path, reply: bytes) -> None:
    folder.make_folder(home)
    path = home / f"{INSTANCE}{folder.SUFFIX}"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(pack(Hello(namespace=NAME, instance_id=INSTANCE)))
        (size,) = HEAD.unpack(await reader.readexactly(HEAD.size))
        await reader.readexactly(size)
        writer.write(reply)
        writer.close()

    async with await asyncio.start_unix_server(answer, str(path)):
        with pytest.raises(MirrorLost, match="its local socket"):
            await asked(path, lambda mirror: mirror.status())


async def test_a_command_that_is_too_long_is_refused_before_it_is_sent(
    home: Path, shell: FakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_REQUEST", 1000)
    async with served(home, shell) as path:
        with pytest.raises(RequestRefused, match="name fewer topics at a time"):
            await asked(path, lambda mirror: mirror.command(Command.PAUSE, None, ("t" * 200,) * 5))
    assert shell.asked == []
