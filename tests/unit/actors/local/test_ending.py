"""A command after a closed terminal, SIGTERM or lost output."""

import errno
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main
from actors.cli.common.output_file import NoOutputFile, OutputFile
from actors.cli.running.foreground import LastingView
from actors.local import ending
from actors.ray.follow import EndRequest, stop_signals
from tests.harness.shell import ROOT
from tests.unit.actors.cli.test_main import command

DEADLINE_S = 60.0


def python(code: str, **words: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of its own: these tests bend signals and standard output."""
    return subprocess.run(
        [sys.executable, "-c", code],
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=ROOT,
        **({"capture_output": True} | words),
    )


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_command_that_a_signal_ends_clears_away_and_says_so_by_its_exit_code(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cleared = []

    def work(_args: object) -> int:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)  # the second one breaks nothing off
            cleared.append(True)
        return 0

    before = signal.getsignal(number)
    command(monkeypatch, 0)
    monkeypatch.setattr(sys.modules["tried_command"], "run", work)
    assert main.main(["try"]) == 128 + number
    assert cleared == [True]
    assert signal.getsignal(number) == before
    assert capsys.readouterr().err == ""


@pytest.mark.local
def test_a_signal_that_nohup_ignores_stays_ignored() -> None:
    done = python(
        "import signal\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from actors.local.ending import ended_by_signals\n"
        "from actors.ray.follow import stop_signals\n"
        "with ended_by_signals():\n"
        "    signal.raise_signal(signal.SIGHUP)\n"
        "with stop_signals() as asked:\n"
        "    signal.raise_signal(signal.SIGHUP)\n"
        "    print(asked.wait(0.0))\n"
    )
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


def test_a_hangup_asks_for_the_end() -> None:
    with stop_signals() as asked:
        signal.raise_signal(signal.SIGHUP)
        assert asked.wait(DEADLINE_S)


@pytest.mark.local
def test_processes_that_are_started_meanwhile_ignore_a_hangup_and_it_is_delivered_afterwards() -> None:
    done = python(
        "import os, signal, subprocess, sys\n"
        "from actors.local.ending import hangup_held\n"
        "came = []\n"
        "signal.signal(signal.SIGHUP, lambda *_: came.append(1))\n"
        "with hangup_held():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    code = 'import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)'\n"
        "    subprocess.run([sys.executable, '-c', code], check=True)\n"
        "    assert not came\n"
        "print(came)\n"
    )
    assert done.stdout == "True\n[1]\n", done.stderr


def test_off_the_main_thread_signals_are_left_alone() -> None:
    found = []

    def work() -> None:
        with ending.ended_by_signals():
            found.append(signal.getsignal(signal.SIGHUP))

    before = signal.getsignal(signal.SIGHUP)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(DEADLINE_S)
    assert found == [before]


@pytest.mark.local
def test_what_is_printed_to_a_closed_terminal_goes_nowhere() -> None:
    master, slave = pty.openpty()
    os.close(master)
    done = python(
        "import sys\n"
        "from actors.local.ending import drop_lost_output\n"
        "try:\n"
        "    print('lost', flush=True)\n"
        "except OSError as error:\n"
        "    print(error.errno, file=sys.stderr)\n"
        "drop_lost_output()\n"
        "print('nowhere', flush=True)\n",
        stdout=slave,
        stderr=subprocess.PIPE,
        capture_output=False,
    )
    os.close(slave)
    assert (done.returncode, done.stderr) == (0, f"{errno.EIO}\n")


class Lost:
    """A view whose output cannot be written."""

    def __init__(self, number: int) -> None:
        self.number = number

    def show(self, _status: object) -> None:
        raise OSError(self.number, os.strerror(self.number))

    def say(self, _text: str) -> None:
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(("number", "ends"), [(errno.EIO, False), (errno.ENOSPC, False), (errno.EPIPE, True)])
def test_a_mirror_outlasts_who_reads_it(number: int, ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[bool] = []
    monkeypatch.setattr("actors.cli.running.foreground.drop_unread_pipe", lambda: dropped.append(True))
    asked = EndRequest()
    view = LastingView(Lost(number), asked)
    view.say("anybody there?")
    assert asked.wait(0.0) == ends
    assert dropped == ([True] if ends else [])


@pytest.mark.local
@pytest.mark.parametrize("shared", [False, True])
def test_what_is_printed_to_a_pipe_that_nobody_reads_goes_nowhere(shared: bool) -> None:
    read, write = os.pipe()
    os.close(read)
    done = python(
        "import os, sys\n"
        "from actors.local.ending import drop_unread_pipe\n"
        "drop_unread_pipe()\n"
        "print('nowhere', flush=True)\n"
        "print('error', file=sys.stderr, flush=True)\n",
        stdout=write,
        stderr=write if shared else subprocess.PIPE,
        capture_output=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, None if shared else "error\n")


def test_another_failure_of_a_view_is_not_hidden() -> None:
    with pytest.raises(OSError, match="Bad file"):
        LastingView(Lost(errno.EBADF), EndRequest()).say("x")


FULL = """
import sys
from pathlib import Path
from actors.cli.common.output_file import OutputFile

with OutputFile(Path(sys.argv[1]), most_bytes=100, old_files=2) as output:
    for number in range(6):
        print(f"{number}" * 60, flush=True)
        print(f"error {number}", file=sys.stderr, flush=True)
        output.rotate_if_full()
print("afterwards")
"""


@pytest.mark.local
def test_a_full_output_file_is_renamed_and_two_old_ones_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "mirror.log"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=ROOT,
    )
    assert (done.stdout, done.stderr) == ("afterwards\n", "")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["mirror.log", "mirror.log.1", "mirror.log.2"]
    assert path.read_text() == ""
    assert path.stat().st_mode & 0o777 == 0o600
    lines = (tmp_path / "mirror.log.2").read_text() + (tmp_path / "mirror.log.1").read_text()
    assert [line for line in lines.splitlines() if "error" in line] == [f"error {number}" for number in (2, 3, 4, 5)]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoOutputFile, match="cannot be written"):
        OutputFile(tmp_path / "nowhere" / "mirror.log")


HELD = """
import signal, sys
from actors.local.ending import ends_deferred
with ends_deferred("is being stopped") as came:
    signal.raise_signal(signal.{0})
    signal.raise_signal(signal.{0})
    print("whole", came.is_asked_for, flush=True)
print("not reached")
"""


@pytest.mark.local
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_what_must_not_be_left_half_way(number: signal.Signals) -> None:
    done = python(HELD.format(number.name))
    assert done.returncode == -number
    assert done.stdout == "whole True\n"
    assert done.stderr.startswith("is being stopped\n")


@pytest.mark.local
def test_the_alarm_that_ray_sets_at_a_signal_does_not_end_the_process() -> None:
    """Ray's handler of SIGTERM (Abseil's, for crashes) sets an alarm of 3 s that aborts, then calls the one before."""
    code = HELD.format("SIGTERM").replace('    print("whole"', '    print("alarm", signal.alarm(0))\n    print("whole"')
    done = python(code.replace("with ends", "signal.alarm(3000)\nwith ends"))
    assert done.stdout == "alarm 0\nwhole True\n"


@pytest.mark.local
def test_a_second_signal_ends_a_command_at_once_that_has_nothing_to_clear_away() -> None:
    code = HELD.format("SIGTERM").replace('stopped")', 'stopped", leave_at_second=True)')
    done = python(code)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "")


def test_a_block_that_no_signal_came_into_leaves_handlers_as_they_were() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with ending.ends_deferred("") as came:
        assert not came.is_asked_for
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_the_signal_goes_before_the_failure_of_what_it_stopped() -> None:
    with pytest.raises(KeyboardInterrupt), ending.ends_deferred(""):  # noqa: PT012 - the signal comes inside
        signal.raise_signal(signal.SIGINT)
        raise ValueError
