"""`--url` of commands that start runs: they print what the command prints there, and end with its code."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from actors.api.runs import run_of
from actors.cli.common import exits, remote_runs
from actors.cli.common.remote_runs import fresh_lines
from actors.cli.main import INTERRUPTED, main
from actors.http import command_runs
from actors.http.command_runs import RunBook
from tests.harness.eventually import until
from tests.unit.actors.http.http_servers import ServedMirror, served

pytestmark = pytest.mark.local

COMMAND = """
import json, os, sys, time
words = sys.argv[1:]
print("  0.1 s  step 1 of 2, connect: ask", file=sys.stderr, flush=True)
print("  0.2 s  step 2 of 2, copy: do it", file=sys.stderr, flush=True)
gate = os.environ["GATE"]
while os.path.isdir(os.path.dirname(gate)) and not os.path.exists(gate): time.sleep(0.01)
if "--json" in words:
    print(json.dumps({"words": words, "share": 0.1}, separators=(",", ":")))
else:
    print("topic   records")
    print("orders       17")
code = int(os.environ["CODE"])
if code in (2, 64):
    print(f"raymirror {words[0]}: it does not fit a {os.environ['RAYMIRROR_OVER_HTTP']}", file=sys.stderr)
sys.exit(code)
"""
STEPS = "  0.1 s  step 1 of 2, connect: ask\n  0.2 s  step 2 of 2, copy: do it\n"
TABLE = "topic   records\norders       17\n"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file at whose sight the command goes on; it is there unless a test removes it."""
    (tmp_path / "gate").touch()
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    monkeypatch.setenv("CODE", "0")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(remote_runs, "_POLL_S", 0.05)
    return tmp_path / "gate"


@pytest.fixture
def book(tmp_path: Path, gate: Path) -> RunBook:
    assert gate.exists()
    return RunBook(tmp_path / "runs", (sys.executable, "-c", COMMAND))


@pytest.fixture
async def at(book: RunBook) -> AsyncIterator[ServedMirror]:
    async with served(runs=book) as mirror:
        await mirror.listens()
        yield mirror


@pytest.fixture
def by_url(at: ServedMirror, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Types a command with `--url`; returns its exit code, and what it prints on both outputs."""

    async def run(*words: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, [*words, "--url", at.url])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


COMMANDS = (
    ("failover", "A->B", "--now"),
    ("dr", "switchover", "A->B", "--yes"),
    ("dr", "failback", "A->B", "--yes"),
    ("dr", "drill", "A->B"),
    ("dr", "resume", "B->A"),
    ("dr", "abort", "A->B"),
    ("verify",),
    ("apply", "A->B"),
    ("quarantine", "replay", "A->B", "--all"),
    ("quarantine", "drop", "--record", "t-0@1"),
    ("translate", "g", "--apply"),
    ("move", "g"),
    ("move", "g", "--undo"),
    ("move", "--topics", "t.*", "--yes"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_a_command_prints_what_it_prints_there(by_url: Callable[..., Any], words: tuple[str, ...]) -> None:
    assert await by_url(*words) == (exits.OK, TABLE, STEPS)


async def test_json_is_that_of_the_command(by_url: Callable[..., Any]) -> None:
    code, out, err = await by_url("dr", "drill", "A->B", "--sample", "3", "--json")
    assert (code, err) == (exits.OK, STEPS)
    found = json.loads(out)
    assert {"drill", "--sample=3", "--json"} <= {*found["words"]}
    assert out == json.dumps(found, separators=(",", ":")) + "\n"


@pytest.mark.parametrize(("code", "shown"), [(1, 1), (2, 2), (64, 2), (3, 3), (4, 4), (143, 143)])
async def test_the_exit_code_is_that_of_the_command_also_if_it_refuses(
    by_url: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, code: int, shown: int
) -> None:
    monkeypatch.setenv("CODE", str(code))
    found, out, err = await by_url("dr", "switchover", "A->B", "--dry-run")
    assert (found, out) == (shown, TABLE)
    assert err == STEPS + ("raymirror dr: it does not fit a command-line\n" if code in (2, 64) else "")


async def test_advice_of_a_command_is_for_who_asked(
    at: ServedMirror, book: RunBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODE", "64")
    url = f"{at.url}/api/v1/flows/A-%3EB/quarantine/drop"
    async with aiohttp.ClientSession() as session, session.post(url, json={"flow": "A->B"}) as answer:
        assert answer.status in (202, 400), "seen past its first step, or at its end"
    await until(lambda: book.all()[0].code == 64, "it has ended")
    assert run_of(book.all()[0]).why == "it does not fit a http"


async def test_steps_are_shown_while_it_runs_and_an_interrupt_leaves_it_running(
    at: ServedMirror, book: RunBook, gate: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate.unlink()
    shown: list[str] = []

    def lines(before: tuple[str, ...], now: tuple[str, ...]) -> list[str]:
        shown.extend(fresh := [*fresh_lines(before, now)])
        if len(shown) == 2:
            raise KeyboardInterrupt  # as Ctrl-C does
        return fresh

    monkeypatch.setattr(remote_runs, "fresh_lines", lines)
    assert await asyncio.to_thread(main, ["dr", "drill", "A->B", "--url", at.url]) == INTERRUPTED
    (run,) = book.all()
    assert run.alive
    told = capsys.readouterr().err
    where = f"{at.url}/api/v1/flows/A-%3EB/runs/{run.call.run}"
    assert f"run {run.call.run} goes on, on the mirror's machine: GET {where} shows it, DELETE ends it" in told
    gate.touch()
    await until(lambda: book.all()[0].code == 0, "it has ended by itself")


async def test_a_mirror_that_ends_meanwhile_is_waited_for_and_then_said(
    book: RunBook, gate: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate.unlink()
    monkeypatch.setattr(remote_runs, "LOST_S", 0.2)
    async with served(runs=book) as mirror:
        await mirror.listens()
        task = asyncio.create_task(asyncio.to_thread(main, ["failover", "A->B", "--url", mirror.url]))
        await until(lambda: any(one.said for one in book.all()), "it runs")
    assert await task == exits.FAILED
    told = capsys.readouterr().err
    assert "no mirror answers at" in told
    assert f"run {book.all()[0].call.run} was started and may go on" in told
    assert "raymirror dr history 'A->B'" in told
    gate.touch()


async def test_a_run_that_was_killed_is_said(
    by_url: Callable[..., Any], book: RunBook, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_runs, "_BORN_S", 0.0)
    gate.unlink()
    task = asyncio.create_task(by_url("dr", "drill", "A->B"))
    await until(lambda: any("step 2" in one.said for one in book.all()), "it runs")
    monkeypatch.setattr(RunBook, "_read", _killed(RunBook._read))
    code, _, err = await task
    assert code == exits.FAILED
    assert "its process has ended without an exit code" in err
    gate.touch()


def _killed(read: Callable[..., Any]) -> Callable[..., Any]:
    def killed(*given: Any, **more: Any) -> Any:
        return msgspec.structs.replace(read(*given, **more), alive=False, code=None)

    return killed


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("dr", "switchover", "A->B"), "a switchover stops producers on the source, and nobody can be asked here; add"),
        (("dr", "failback", "A->B"), "a failback writes to both clusters, and nobody can be asked here; add --yes"),
        (("move", "--topics", "t"), "this stops producers on the source, and nobody can be asked here; add --yes"),
    ],
)
async def test_the_question_is_asked_here(
    by_url: Callable[..., Any], book: RunBook, words: tuple[str, ...], why: str
) -> None:
    code, _, err = await by_url(*words)
    assert (code, book.all()) == (exits.UNUSABLE, ())
    assert why in err


async def test_the_operator_types_the_flow_here(
    by_url: Callable[..., Any], book: RunBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda _question: "B->A")
    code, out, err = await by_url("dr", "switchover", "A->B")
    assert (code, book.all()) == (exits.UNUSABLE, ())
    assert "This keeps producers from cluster 'A', and makes 'B' the cluster that they write to." in out
    assert "was not confirmed; nothing was changed" in err
    monkeypatch.setattr("builtins.input", lambda _question: "A->B")
    code, out, _ = await by_url("dr", "switchover", "A->B")
    assert code == exits.OK
    assert out.endswith(TABLE)
    assert "--yes" in book.all()[0].call.words


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("dr", "drill", "X->Y"), exits.UNUSABLE, "No flow 'X->Y' in this mirror; it has: A->B"),
        (("verify", "--cores", "2"), exits.UNUSABLE, "--url does not go together with --cores"),
        (("dr", "failback", "A->B", "--yes", "--make-anew"), exits.UNUSABLE, "does not go together with --make-anew"),
        (("dr", "switchover", "nonsense"), exits.UNUSABLE, "'nonsense' names no flow; write SOURCE->TARGET"),
        (("dr", "drill", "A->B", "--timeout", "-1"), exits.UNUSABLE, "The body is not what is expected"),
        (("verify", "--mirror", "x"), exits.UNUSABLE, "--url and --mirror both name a mirror"),
    ],
)
async def test_what_cannot_be_asked_starts_nothing(
    by_url: Callable[..., Any], book: RunBook, words: tuple[str, ...], code: int, why: str
) -> None:
    found, _, err = await by_url(*words)
    assert (found, book.all()) == (code, ())
    assert why in err


async def test_another_run_of_the_flow_is_in_the_way(by_url: Callable[..., Any], book: RunBook, gate: Path) -> None:
    gate.unlink()
    first = asyncio.create_task(by_url("apply", "A->B"))
    await until(lambda: bool(book.all()), "it runs")
    code, _, err = await by_url("failover", "A->B")
    assert code == exits.FAILED
    assert "HTTP 409: A apply of A->B runs" in err
    gate.touch()
    assert (await first)[0] == exits.OK


@pytest.mark.parametrize(
    ("before", "now", "fresh"),
    [
        ("", "", ""),
        ("", "ab", "ab"),
        ("ab", "ab", ""),
        ("ab", "abc", "c"),
        ("abc", "bcde", "de"),
        ("abc", "xyz", "xyz"),
        ("aaa", "aaab", "b"),
    ],
)
def test_only_new_lines_are_shown(before: str, now: str, fresh: str) -> None:
    assert "".join(fresh_lines(tuple(before), tuple(now))) == fresh
