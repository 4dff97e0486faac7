"""Commands that outlive who starts them: their files, their refusals, and what a book that begins anew finds."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from actors.api.runs import CommandRun, RunState, run_of, state_of
from actors.http import command_runs
from actors.http.command_runs import RunBook
from actors.model.requests import ASKED_BY
from actors.model.step_lines import StepLine, timed
from actors.rest.exchange import EndCommand, HttpRefusal, StartCommand
from engine.base.clock import wall_ms
from tests.harness.eventually import until

pytestmark = pytest.mark.local

STEPS = """
import os, sys, time
print("  0.1 s  step 1 of 2, connect: ask", file=sys.stderr, flush=True)
print("  0.2 s  step 2 of 2, drain: copy", file=sys.stderr, flush=True)
gate = os.environ["GATE"]
while os.path.isdir(os.path.dirname(gate)) and not os.path.exists(gate): time.sleep(0.01)
print('{"asked_by": "%s", "words": %d}' % (os.environ["RAYMIRROR_ASKED_BY"], len(sys.argv)))
sys.exit(4)
"""
REFUSES = """
import sys
print("  0.1 s  step 1 of 2, connect: ask", file=sys.stderr, flush=True)
print("warning: x", file=sys.stderr)
print("raymirror failover: an operation is open", file=sys.stderr)
sys.exit(2)
"""
ASKS_WRONGLY = """
import os, sys
print("raymirror quarantine: 'x' names no record", file=sys.stderr)
sys.exit(64 if "RAYMIRROR_OVER_HTTP" in os.environ else 2)
"""


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file at whose sight the command goes on; a test that leaves it closed ends what waits there."""
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()


def call_of(run: str = "r1", began_ms: int = 0) -> StartCommand:
    words = ("failover", "A->B", "it's; $(touch /tmp/x)")
    began = began_ms or wall_ms()
    return StartCommand(run=run, kind="failover", flow="A->B", words=words, user="eve", dry_run=False, began_ms=began)


def program(text: str) -> tuple[str, ...]:
    return sys.executable, "-c", text


async def test_a_command_runs_on_without_its_book_and_another_book_finds_its_end(tmp_path: Path, gate: Path) -> None:
    await RunBook(tmp_path / "runs", program(STEPS)).start(call_of())
    book = RunBook(tmp_path / "runs", program("raise SystemExit(9)"))
    (found,) = book.all("r1")
    assert (found.alive, found.code, state_of(found)) == (True, None, RunState.RUNNING)
    assert [step.name for step in run_of(found).steps] == ["connect", "drain"]
    gate.touch()
    await until(lambda: book.all()[0].code is not None, "it has ended")
    (found,) = book.all("r1")
    run = run_of(found, with_result=True)
    assert (run.state, run.code, run.result) == (RunState.NOT_EQUAL, 4, {"asked_by": "eve", "words": 4})
    assert run.ended_ms is not None
    assert book.all()[0].printed == b"", "only of the one that is asked for"


async def test_a_command_is_in_a_session_of_its_own_and_no_child(tmp_path: Path, gate: Path) -> None:
    await RunBook(tmp_path / "runs", program(STEPS)).start(call_of())
    pid = int((tmp_path / "runs" / "r1" / "pid").read_text())
    assert os.getsid(pid) != os.getsid(0)
    assert psutil.Process(pid) not in psutil.Process().children(recursive=True)
    gate.touch()


async def test_a_refusal_is_the_answer(tmp_path: Path) -> None:
    book = RunBook(tmp_path / "runs", program(REFUSES))
    with pytest.raises(HttpRefusal) as refused:
        await book.start(call_of())
    assert (refused.value.status, refused.value.message) == (409, "an operation is open")
    (found,) = book.all()
    assert state_of(found) is RunState.REFUSED


@pytest.mark.parametrize("kind", ["failover", "replay"])
async def test_a_command_that_was_asked_wrongly_is_the_clients_error(tmp_path: Path, kind: str) -> None:
    book = RunBook(tmp_path / "runs", program(ASKS_WRONGLY))
    with pytest.raises(HttpRefusal) as refused:
        await book.start(msgspec.structs.replace(call_of(), kind=kind))
    assert (refused.value.status, refused.value.message) == (400, "'x' names no record")
    (found,) = book.all()
    assert state_of(found) is RunState.REFUSED, "also of a command that says no steps: it has changed nothing"


async def test_of_two_that_come_together_one_is_refused(tmp_path: Path, gate: Path) -> None:
    books = [RunBook(tmp_path / "runs", program(STEPS)) for _ in range(2)]
    calls = [call_of(f"r{number}") for number in range(4)]
    told = await asyncio.gather(*(books[at % 2].start(call) for at, call in enumerate(calls)), return_exceptions=True)
    assert [one for one in told if one is None] == [None]
    assert {one.status for one in told if isinstance(one, HttpRefusal)} == {409}
    assert len(books[0].all()) == 1, "what was refused leaves no file"
    gate.touch()


@contextmanager
def waiting(*words: str) -> Iterator[int]:
    """Run a process with these words until the block ends; its number. It has them when it says so: not at once."""
    call = (*program("print(flush=True); input()"), *words)
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.communicate(b"\n")


def stored(folder: Path, words: tuple[str, ...]) -> None:
    """Store a run that began an hour ago, and whose process has ended."""
    folder.mkdir(parents=True)
    call = msgspec.structs.replace(call_of(began_ms=wall_ms() - 3_600_000), words=words)
    (folder / "call").write_bytes(msgspec.json.encode(call))
    (folder / "pid").write_text("0\n")


async def test_between_the_end_of_a_command_and_its_exit_code_it_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "runs" / "r1"
    stored(folder, ("dr", "drill", "A->B"))
    book = RunBook(tmp_path / "runs")
    with waiting("dr", "drill", "A->B") as pid:
        (folder / "shell").write_text(f"{pid}\n")
        assert state_of(book.all()[0]) is RunState.RUNNING

    def ends(*_of: object) -> bool:
        (folder / "code").write_text("0\n")
        return False

    monkeypatch.setattr(command_runs, "_lives", ends)
    assert state_of(book.all()[0]) is RunState.DONE


async def test_a_number_of_the_same_command_for_another_flow_is_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r1"
    stored(folder, ("dr", "drill", "A->B"))
    with waiting("dr", "drill", "C->D") as pid:
        (folder / "pid").write_text(f"{pid}\n")
        assert state_of(RunBook(tmp_path / "runs").all()[0]) is RunState.LOST


async def test_a_killed_command_is_lost_and_its_reader_says_so(
    tmp_path: Path, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await RunBook(tmp_path / "runs", program(STEPS)).start(call_of())
    monkeypatch.setattr(command_runs, "_BORN_S", 0.0)
    folder = tmp_path / "runs" / "r1"
    pid = int((folder / "pid").read_text())
    shell = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert int((folder / "shell").read_text()) == shell
    os.kill(shell, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    book = RunBook(tmp_path / "runs")
    await until(lambda: not book.all()[0].alive, "it is gone")
    assert not gate.exists()
    run = run_of(book.all()[0])
    assert run.state is RunState.LOST
    assert "without an exit code" in run.why


async def ended(book: RunBook) -> CommandRun:
    await until(lambda: book.all()[0].code is not None, "it has ended")
    return run_of(book.all()[0])


async def test_a_run_is_ended_as_by_an_operator_and_says_so(tmp_path: Path, gate: Path) -> None:
    book = RunBook(tmp_path / "runs", program(STEPS))
    await book.start(call_of())
    book.stop(EndCommand(run="r1"))
    run = await ended(book)
    assert not gate.exists()
    assert (run.state, run.code) == (RunState.FAILED, 128 + signal.SIGTERM)
    assert run.why.startswith(f"its process was ended by signal {signal.SIGTERM:d}; ")
    with pytest.raises(HttpRefusal, match="r1 has no process") as refused:
        book.stop(EndCommand(run="r1"))
    assert refused.value.status == 409


DEAF = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{STEPS}"


async def test_a_run_that_does_not_end_is_killed(tmp_path: Path, gate: Path) -> None:
    book = RunBook(tmp_path / "runs", program(DEAF))
    await book.start(call_of())
    book.stop(EndCommand(run="r1"))
    assert state_of(book.all()[0]) is RunState.RUNNING
    book.stop(EndCommand(run="r1", kills=True))
    assert (await ended(book)).code == 128 + signal.SIGKILL
    assert not gate.exists()


async def test_no_signal_goes_to_a_process_that_is_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r1"
    stored(folder, ("dr", "drill", "A->B"))
    book = RunBook(tmp_path / "runs")
    with waiting("dr", "drill", "C->D") as pid:
        for number in (str(pid), str(os.getpid()), "x"):
            (folder / "pid").write_text(f"{number}\n")
            with pytest.raises(HttpRefusal):
                book.stop(EndCommand(run="r1", kills=True))
        assert psutil.pid_exists(pid)
    for name in ("none", "r1"):
        with pytest.raises(HttpRefusal):
            book.stop(EndCommand(run=name, kills=True))


async def test_a_run_may_fill_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_runs, "_SHELL", command_runs._SHELL.replace(f"{command_runs.MOST_BLOCKS}", "2"))
    book = RunBook(tmp_path / "runs", program("print('x' * 100_000)"))
    await book.start(call_of())
    assert (await ended(book)).state is RunState.FAILED
    assert (tmp_path / "runs" / "r1" / "printed").stat().st_size <= 1024


async def test_the_oldest_are_forgotten_if_all_are_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_runs, "MOST_KEPT_BYTES", 1500)
    book = RunBook(tmp_path / "runs", program("print('x' * 1000)"))
    for number in range(3):
        await book.start(call_of(f"r{number}"))
    assert [one.call.run for one in book.all()] == ["r2", "r1"]


async def test_a_number_that_another_process_has_now_is_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "r1"
    folder.mkdir(parents=True)
    (folder / "call").write_bytes(msgspec.json.encode(call_of(began_ms=wall_ms() - 3_600_000)))
    (folder / "pid").write_text(f"{os.getpid()}\n")
    (found,) = RunBook(tmp_path / "runs").all()
    assert state_of(found) is RunState.LOST


async def test_the_oldest_that_have_ended_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_runs, "MOST_KEPT", 2)
    book = RunBook(tmp_path / "runs", program("pass"))
    for number in range(4):
        await book.start(call_of(f"r{number}"))
    assert [one.call.run for one in book.all()] == ["r3", "r2", "r1"]


@pytest.mark.parametrize("end", ["\n", ""])
def test_the_steps_of_a_command_that_tells_much_stay(tmp_path: Path, end: str) -> None:
    folder = tmp_path / "runs" / "r1"
    folder.mkdir(parents=True)
    (folder / "call").write_bytes(msgspec.json.encode(call_of()))
    steps = [timed(0.1, str(StepLine(number=n, of=3, name=name, does="x"))) for n, name in ((1, "check"), (2, "drain"))]
    told = [timed(float(at), f"  {at:,} records are left") for at in range(20_000)]
    (folder / "said").write_text("\n".join([*steps, *told]) + end)
    (found,) = RunBook(tmp_path / "runs").all()
    assert len(found.said) < 1.1 * command_runs.MOST_SAID
    run = run_of(found)
    assert [step.name for step in run.steps] == ["check", "drain"]
    assert (run.steps[1].told, run.said[-1]) == ("19,999 records are left", told[-1])
    assert run.said[2] in told, "no half line"


def test_what_is_half_made_is_no_run(tmp_path: Path) -> None:
    assert RunBook(tmp_path / "none").all() == ()
    (tmp_path / "runs" / "r1").mkdir(parents=True)
    (tmp_path / "runs" / "r1" / "call").write_bytes(b"{")
    assert RunBook(tmp_path / "runs").all() == ()
    assert ASKED_BY not in os.environ
