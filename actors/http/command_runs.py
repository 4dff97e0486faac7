"""Starts commands of raymirror that outlive this process, and reads from their files how far they are.

Each run has a folder: what was asked (`call`), the process (`pid`) and its `shell`, what it prints (`printed`, `said`),
and at its end its exit code (`code`). The shell between this process and the command writes that, in a session of its
own: neither the end of the supervisor nor that of its Ray node ends it. So a supervisor that starts anew finds every
run of its machine.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from actors.api.runs import RunState, has_begun, refuse_start, state_of, tells_steps, why_of
from actors.api.view import RunFiles
from actors.model.requests import ASKED_BY, OVER_HTTP
from actors.rest.exchange import EndCommand, HttpRefusal, StartCommand
from actors.rest.failures import status_of_exit
from engine.base.clock import now_s, pause, wall_ms

MOST_KEPT: Final = 50
MOST_SAID: Final = 64 * 1024
MOST_SCANNED: Final = 4 * 1024 * 1024
"""Bytes of what a command has said in which its steps are searched: it may tell something each second, for hours."""
MOST_PRINTED: Final = 4 * 1024 * 1024
MOST_KEPT_BYTES: Final = 256 * 1024 * 1024
"""Bytes of all runs that have ended; of the last one, whatever it has."""
MOST_BLOCKS: Final = 2 * 1024 * 1024
"""Blocks of 512 bytes that a run may write to one file, so that a command gone wrong does not fill the disk."""
BEGINS_S: Final = 45.0
"""Seconds in which a command shows whether it begins, or why not; then the request is answered all the same."""
SOON_S: Final = 5.0
"""The same for a command that does not say how far it is."""
_LOOK_S: Final = 0.1
_SPAWN_LOOK_S: Final = 0.01
_STEP_MARK: Final = b" s  step "
_MOST_STEPS: Final = 100
_BORN_S: Final = 10.0
"""Seconds after its start in which a run without a process is only slow."""
_PROGRAM: Final = (sys.executable, "-m", "actors")
_NOT_OURS: Final = ("RAY_ADDRESS", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID")
"""What Ray tells its own worker process; a command joins Ray, if at all, by its own words."""
_SHELL: Final = f"""
folder=$1; shift
ulimit -f {MOST_BLOCKS} || :
(
  /bin/sh -c 'echo $PPID' >"$folder/shell"
  "$@" >"$folder/printed" 2>"$folder/said" </dev/null &
  echo $! >"$folder/pid"
  wait $!
  echo $? >"$folder/code.part"
  mv "$folder/code.part" "$folder/code"
  :
) >/dev/null 2>&1 </dev/null &
"""
"""Its last command is one of the shell: else the shell would become `mv`, and seem dead before there is a code."""


class RunBook:
    """The runs of a mirror on this machine. `folder`: where they are; `program`: what is run with a command's words."""

    def __init__(self, folder: Path, program: Sequence[str] = _PROGRAM, *, begins_s: float = BEGINS_S) -> None:
        self._folder, self._program, self._begins_s = folder, tuple(program), begins_s

    async def start(self, call: StartCommand) -> None:
        """Start a command, and wait until it is past its first step, has ended, or has taken `begins_s` seconds.

        A call that is answered at once waits for its process only.

        Raises HttpRefusal: 400 or 409 with the reason, if it has changed nothing and refuses; what `refuse_start`
        raises. It is asked once more here: requests that come together have all seen the same runs.
        """
        await asyncio.to_thread(self._begin, call)
        until_s = now_s() + (self._begins_s if tells_steps(call) else min(self._begins_s, SOON_S))
        while call.at_once and now_s() < until_s:
            if (self._folder / call.run / "pid").exists():  # before that, whoever follows it would take it for lost
                return
            await pause(_SPAWN_LOOK_S)
        while now_s() < until_s:
            found = await asyncio.to_thread(self._read, call.run)
            if found is None or not found.alive:
                break
            if has_begun(found):
                return
            await pause(_LOOK_S)
        found = await asyncio.to_thread(self._read, call.run, is_whole=True)
        if found is not None and state_of(found) is RunState.REFUSED:
            why = why_of(found) or f"raymirror {call.words[0]} refused, and said nothing"
            raise HttpRefusal(status_of_exit(found.code), why)

    def _begin(self, call: StartCommand) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with _only_one(self._folder):
            refuse_start(self.all(), call)
            self._spawn(call)

    def _spawn(self, call: StartCommand) -> None:
        folder = self._folder / call.run
        folder.mkdir(mode=0o700)
        (folder / "call").write_bytes(msgspec.json.encode(call))
        self._forget_oldest()
        subprocess.run(
            ("/bin/sh", "-c", _SHELL, "raymirror", str(folder), *self._program, *call.words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_env(os.environ, call),
            umask=0o077,
            start_new_session=True,
            check=True,
        )

    def stop(self, wanted: EndCommand) -> None:
        """Send a run the signal that ends it. Raises HttpRefusal (409) if it has ended, or has not begun.

        A process is found by its number and its words, and the signal goes to that process alone: its number cannot
        become another one's in between.
        """
        folder = self._folder / wanted.run
        try:
            call = msgspec.json.decode((folder / "call").read_bytes(), type=StartCommand)
            process = os.pidfd_open(int((folder / "pid").read_text()))
        except (OSError, ValueError, msgspec.DecodeError):
            raise _has_ended(wanted) from None
        try:
            if not _lives(folder / "pid", call):
                raise _has_ended(wanted)
            signal.pidfd_send_signal(process, signal.SIGKILL if wanted.kills else signal.SIGTERM)
        except ProcessLookupError:
            raise _has_ended(wanted) from None
        finally:
            os.close(process)

    def all(self, whole: str = "") -> tuple[RunFiles, ...]:
        """Return the runs, the newest first; of the one named `whole` also what it has printed."""
        found = (self._read(run, is_whole=run == whole) for run in reversed(self._names()))
        return tuple(one for one in found if one is not None)

    def _names(self) -> list[str]:
        try:
            return sorted(one.name for one in self._folder.iterdir())
        except FileNotFoundError:
            return []

    def _read(self, run: str, *, is_whole: bool = False) -> RunFiles | None:
        folder = self._folder / run
        try:
            call = msgspec.json.decode((folder / "call").read_bytes(), type=StartCommand)
        except (OSError, msgspec.DecodeError):  # just being made, or of another version
            return None
        code, ended_ms = _ended(folder / "code")
        alive = code is None and (_is_young(call) or any(_lives(folder / name, call) for name in ("pid", "shell")))
        if code is None and not alive:  # its shell has written it since then
            code, ended_ms = _ended(folder / "code")
        return RunFiles(
            call=call,
            alive=alive,
            code=code,
            ended_ms=ended_ms,
            said=_shortened(_end_of(folder / "said", MOST_SCANNED)).decode(errors="replace"),
            printed=_end_of(folder / "printed", MOST_PRINTED) if is_whole else b"",
            has_printed=_size(folder / "printed") > 0,
        )

    def _forget_oldest(self) -> None:
        kept = 0
        for at, one in enumerate(one for one in self.all() if not one.alive):
            folder = self._folder / one.call.run
            kept += sum(_size(folder / name) for name in ("printed", "said"))
            if at >= MOST_KEPT or (at and kept > MOST_KEPT_BYTES):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Hold a folder: of threads and processes that do so, one at a time goes on."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _env(env: Mapping[str, str], call: StartCommand) -> dict[str, str]:
    asked = {ASKED_BY: call.user, OVER_HTTP: call.asked_from}
    return {name: value for name, value in env.items() if name not in _NOT_OURS} | asked


def _ended(file: Path) -> tuple[int | None, int | None]:
    """Return the exit code of a run and when it ended (Unix ms); None while there is none."""
    try:
        return int(file.read_text()), int(file.stat().st_mtime * 1000)
    except (FileNotFoundError, ValueError):
        return None, None


def _lives(file: Path, call: StartCommand) -> bool:
    """Whether a process of a run lives: one of this number, with all its words, because numbers are used again.

    The shell has them too; it lives until it has written the exit code.
    """
    try:
        words = Path(f"/proc/{int(file.read_text())}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        words = b""
    except ValueError:  # its number is just being written
        words = b""
    own = "".join(f"\0{word}" for word in call.words).encode() + b"\0"
    return words.endswith(own)


def _has_ended(wanted: EndCommand) -> HttpRefusal:
    return HttpRefusal(409, f"Run {wanted.run} has no process: it has ended, or is just beginning")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _is_young(call: StartCommand) -> bool:
    """Whether a run has begun so recently that its process may still be the shell that becomes it."""
    return abs(wall_ms() - call.began_ms) < 1000 * _BORN_S


def _shortened(said: bytes) -> bytes:
    """Return the end of what a command has said, from a whole line on, and of what was before it the steps."""
    if len(said) <= MOST_SAID:
        return said
    cut = said.find(b"\n", len(said) - MOST_SAID) + 1
    steps = [line for line in said[:cut].splitlines() if _STEP_MARK in line]
    return b"\n".join([*steps[-_MOST_STEPS:], said[cut:]])


def _end_of(file: Path, most: int) -> bytes:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(0, size - most))
            return opened.read(most)
    except FileNotFoundError:
        return b""


def runs_folder(states: Path, namespace: str) -> Path:
    """Return where the runs of a mirror are; `states`: the folder of the state files of this user."""
    return states.parent / "runs" / namespace
