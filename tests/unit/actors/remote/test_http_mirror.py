"""A mirror that is asked over HTTP: what is sent, how refusals are worded, and addresses that are none."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.api.commands.look_words import CommandOutcome
from actors.cli.common.exits import NO_MIRROR
from actors.cli.main import exit_code, main
from actors.cli.running.stop import _has_ended
from actors.http.command_looks import CommandLooks
from actors.local_socket.client import RequestRefused
from actors.model.requests import AskPositions, MirrorLost
from actors.model.states import Command
from actors.model.status import MirrorStatus
from actors.remote.http_mirror import BadUrl, HttpMirror, open_mirror
from engine.config.settings import HttpConfig, HttpUser
from policies.dr.advice import AskedFrom
from policies.roles import Role
from tests.unit.actors.http.http_servers import ServedMirror, free_port, served
from tests.unit.actors.http.test_views import FakeSupervisor
from tests.unit.actors.rest.rest_views import status_with
from tests.unit.actors.telemetry.statuses import lane

pytestmark = pytest.mark.local

USERS = HttpConfig(users=(HttpUser(name="eve", role=Role.VIEW, token="t0ken", password="p4ssword"),))


def mirror_at(served_at: ServedMirror, **env: str) -> HttpMirror:
    return open_mirror(served_at.url, None, env)


async def test_the_status_is_the_one_of_the_supervisor() -> None:
    supervisor = FakeSupervisor(status_with(lane("t", 0), lane("t", 1)))
    async with served(supervisor=supervisor) as at:
        await at.listens()
        found = await asyncio.to_thread(mirror_at(at).status, lanes=True)
        assert found == supervisor.now
        assert (await asyncio.to_thread(mirror_at(at).status)).lanes == ()


class NothingOpen(CommandLooks):
    """Finds no open operation."""

    async def run(self, words: tuple[str, ...], place: AskedFrom = AskedFrom.HTTP) -> CommandOutcome:
        """Answer as `raymirror dr status` does."""
        assert words[:3] == ("dr", "status", "A->B")
        return CommandOutcome(code=0, printed=b'{"operation": null, "reverse": ""}', said="", took_seconds=1.0)


async def test_a_failover_is_forgotten_only_if_that_is_asked_for() -> None:
    supervisor = FakeSupervisor(status_with(failed_over=True))
    async with served(supervisor=supervisor, looks=NothingOpen()) as at:
        await at.listens()
        mirror = mirror_at(at)
        with pytest.raises(RequestRefused, match="resume 'A->B' --forget-failover"):
            await asyncio.to_thread(mirror.command, Command.RESUME, "A->B")
        await asyncio.to_thread(mirror.command, Command.FORGET, "A->B")
        given = [one[1:3] for one in supervisor.asked if one[0] == "command"]
        assert given == [(Command.FORGET, "A->B"), (Command.RESUME, "A->B")]


async def test_commands_are_sent_and_answered_with_the_status() -> None:
    supervisor = FakeSupervisor(status_with())
    async with served(supervisor=supervisor) as at:
        await at.listens()
        mirror = mirror_at(at)
        for command, flow, topics in (
            (Command.PAUSE, None, ()),
            (Command.PAUSE, None, ("t",)),
            (Command.PAUSE, "A->B", ("t",)),
            (Command.RESUME, "A->B", ()),
            (Command.STOP, None, ()),
        ):
            status = await asyncio.to_thread(mirror.command, command, flow, topics)
            assert [one.flow for one in status.flows] == ["A->B"]
            given = [one for one in supervisor.asked if one[0] == "command"]
            assert given[-1] == ("command", command, flow, topics)
        await asyncio.to_thread(mirror.restart, "A->B")
        assert ("restart", "A->B") in supervisor.asked


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "HTTP 401: Give the password .* set RAYMIRROR_TOKEN, or name a file: --login FILE"),
        ({"RAYMIRROR_TOKEN": "wrong"}, "HTTP 401"),
        ({"RAYMIRROR_TOKEN": "t0ken"}, "HTTP 403: User eve has the role view; this needs the role operate"),
        ({"RAYMIRROR_USER": "eve", "RAYMIRROR_PASSWORD": "p4ssword"}, "HTTP 403"),
    ],
)
async def test_who_may_not_do_it_is_told_why(env: dict[str, str], said: str) -> None:
    async with served(USERS) as at:
        await at.listens()
        with pytest.raises(RequestRefused, match=said):
            await asyncio.to_thread(mirror_at(at, **env).command, Command.PAUSE)


async def test_an_unknown_flow_is_bad_input() -> None:
    async with served() as at:
        await at.listens()
        with pytest.raises(RequestRefused, match="No flow 'x' in this mirror; it has: A->B") as refused:
            await asyncio.to_thread(mirror_at(at).restart, "x")
        assert getattr(refused.value, "exit_code", None) is None


async def test_a_server_that_is_none_of_a_mirror_is_lost() -> None:
    async def other(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(MirrorLost, match="its answer is none of a mirror of this version"):
            await asyncio.to_thread(open_mirror(f"127.0.0.1:{port}", None, {}).status)


def test_a_server_that_is_not_there_is_lost() -> None:
    port = free_port()
    with pytest.raises(MirrorLost, match=f"no mirror answers at 127.0.0.1:{port}: Connection refused") as lost:
        open_mirror(f"http://127.0.0.1:{port}", None, {}).status()
    assert exit_code(lost.value) == NO_MIRROR


async def test_a_server_of_something_else_is_no_mirror() -> None:
    async def other(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RequestRefused, match="is no mirror with this interface") as refused:
            await asyncio.to_thread(open_mirror(f"127.0.0.1:{port}", None, {}).status)
    assert exit_code(refused.value) == NO_MIRROR


def test_what_cannot_be_asked_over_http_says_so() -> None:
    with pytest.raises(RequestRefused, match="positions cannot be asked over HTTP"):
        open_mirror("http://h:1", None, {}).send(AskPositions("A->B"))


@pytest.mark.parametrize("url", ["ftp://h:1", "http://", "http://h:x", "http://h:0", "http://h:1/?a=b", "", "http://["])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match="http://host:8083"):
        open_mirror(url, None, {})


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(BadUrl, match="which other users of this machine could read"):
        open_mirror("http://eve:secret@h:1", None, {})


@pytest.mark.parametrize(
    ("url", "env", "shows"),
    [
        ("http://far:1", {"RAYMIRROR_TOKEN": "t"}, True),
        ("http://far:1", {}, False),
        ("http://localhost:1", {"RAYMIRROR_TOKEN": "t"}, False),
        ("https://far:1", {"RAYMIRROR_TOKEN": "t"}, False),
    ],
)
def test_a_secret_that_passes_a_network_without_tls_is_noticed(url: str, env: dict[str, str], *, shows: bool) -> None:
    assert open_mirror(url, None, env).shows_secret is shows


Run = tuple[int, str, str]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a command of raymirror in a thread; return its exit code and what it printed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def run(*words: str) -> Run:
        code = await asyncio.to_thread(main, list(words))
        return code, *capsys.readouterr()

    return run


async def test_the_tables_of_a_mirror_elsewhere_are_those_of_one_here(command: Any) -> None:
    supervisor = FakeSupervisor(status_with(lane("orders", 3, state="failed", reason="too large")))
    async with served(supervisor=supervisor) as at:
        await at.listens()
        code, out, _ = await command("status", "--url", at.url)
        assert code == 0
        assert "A->B" in out
        code, out, _ = await command("lag", "--url", at.url)
        assert (code, "orders-3" in out, "too large" in out) == (0, True, True)
        code, out, _ = await command("events", "--url", at.url)
        assert code == 0
        code, out, _ = await command("resume", "A->B", "--url", at.url, "--json")
        assert (code, '"done":true' in out) == (0, True)
        code, out, _ = await command("restart", "A->B", "--url", at.url)
        assert (code, "restart: A->B" in out) == (0, True)


def lost(cause: Exception | None) -> MirrorLost:
    failure = MirrorLost("far:1", "x")
    failure.__cause__ = cause
    return failure


@pytest.mark.parametrize(
    ("failure", "has_ended"),
    [
        (lost(ConnectionRefusedError()), True),
        (lost(ConnectionResetError()), True),
        (lost(None), False),
        (lost(OSError("No route to host")), False),
        (RequestRefused("HTTP 409: no supervisor", 1), False),
    ],
)
def test_a_mirror_that_does_not_answer_has_not_ended_for_that(failure: Exception, has_ended: bool) -> None:
    class Away:
        def status(self) -> MirrorStatus:
            raise failure

    assert _has_ended(Away()) is has_ended  # type: ignore[arg-type]


async def test_a_stop_waits_until_the_server_has_ended(command: Any) -> None:
    supervisor = FakeSupervisor(status_with(phase="stopped"))
    async with served(supervisor=supervisor) as at:
        await at.listens()
        code, out, _ = await command("stop", "--url", at.url)
        assert (code, out) == (0, "stopped\n")
        assert ("command", Command.STOP, None, ()) in supervisor.asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "--url", "http://h:1", "--mirror", "x"], "--url and --mirror both name a mirror"),
        (["status", "--login", "/x"], "--login is for --url"),
        (["status", "--url", "ftp://h"], "names no HTTP server"),
    ],
)
async def test_words_that_do_not_go_together_are_bad_input(command: Any, words: list[str], said: str) -> None:
    code, _, err = await command(*words)
    assert (code, said in err) == (2, True)
