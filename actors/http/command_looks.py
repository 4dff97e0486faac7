"""Runs a command of raymirror in a process of its own, and returns what it prints: three at most at one time.

Requests for the same command share one run, and its outcome for a few seconds. The process has less priority than the
mirror, may print so much, and is killed when its time is over or when the server ends.
"""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Final

from actors.api.commands.look_words import CommandOutcome
from actors.model.requests import OVER_HTTP
from actors.rest.exchange import HttpRefusal
from engine.base.clock import now_s
from policies.dr.advice import AskedFrom

MOST_RUNS: Final = 3
"""One more than a user may have at one time (`shares.py`): so no user keeps the others from a preview."""
RUN_S: Final = 60.0
RECENT_S: Final = 5.0
"""Seconds for which an outcome is returned again, from its end on."""
MOST_RECENT: Final = 64 * 1024 * 1024
"""Bytes of all outcomes that are kept for that, but for the last one."""
MOST_PRINTED: Final = 64 * 1024 * 1024
_NICE: Final = 10
_MOST_SAID: Final = 2000
_Asked = tuple[tuple[str, ...], AskedFrom]
_PROGRAM: Final = (sys.executable, "-m", "actors")


class CommandLooks:
    """The commands that are under way, and the last outcomes. `program`: what is run with the words of a command."""

    def __init__(self, program: Sequence[str] = _PROGRAM, *, run_s: float = RUN_S) -> None:
        self._program, self._run_s = tuple(program), run_s
        self._running: dict[_Asked, asyncio.Task[CommandOutcome]] = {}
        self._recent: dict[_Asked, tuple[float, CommandOutcome]] = {}

    async def run(self, words: tuple[str, ...], place: AskedFrom = AskedFrom.HTTP) -> CommandOutcome:
        """Run a command to its end; `place`: where its advice is read.

        Raises HttpRefusal: 429 if too many run, 409 if it takes too long.
        """
        asked = words, place
        self._recent = {key: one for key, one in self._recent.items() if now_s() - one[0] < RECENT_S}
        if asked in self._recent:
            return self._recent[asked][1]
        task = self._running.get(asked)
        if task is None:
            if len(self._running) >= MOST_RUNS:
                raise HttpRefusal(429, f"{MOST_RUNS} commands that look are running; ask again in a moment")
            task = self._running[asked] = asyncio.get_running_loop().create_task(self._run(*asked))
            task.add_done_callback(lambda done: self._ended(asked, done))
        return await asyncio.shield(task)

    def _ended(self, asked: _Asked, done: asyncio.Task[CommandOutcome]) -> None:
        self._running.pop(asked, None)
        if not done.cancelled() and done.exception() is None:
            self._recent[asked] = now_s(), done.result()
            while len(self._recent) > 1 and sum(len(one.printed) for _, one in self._recent.values()) > MOST_RECENT:
                del self._recent[next(iter(self._recent))]

    async def _run(self, words: tuple[str, ...], place: AskedFrom) -> CommandOutcome:
        began_s = now_s()
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
            process = await _surely_begun((*self._program, *words), place, printed, said)
            try:
                async with asyncio.timeout(self._run_s):
                    code = await asyncio.to_thread(process.wait)
            except TimeoutError:
                raise HttpRefusal(409, f"raymirror {words[0]} did not end within {self._run_s:g} s") from None
            finally:
                if process.returncode is None:
                    process.kill()  # the thread that waits for it takes its end
            return CommandOutcome(
                code=code,
                printed=_content(printed, MOST_PRINTED),
                said=_sentence(_content(said, MOST_PRINTED)),
                took_seconds=now_s() - began_s,
            )

    def close(self) -> None:
        """Kill what is under way."""
        for task in self._running.values():
            task.cancel()


async def _surely_begun(
    words: Sequence[str], place: AskedFrom, printed: IO[bytes], said: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Begin a process in a thread; if nobody waits for it any more when it has begun, it is killed."""
    loop = asyncio.get_running_loop()
    begun = loop.run_in_executor(None, _begun, words, place, printed, said)

    def end(done: asyncio.Future[subprocess.Popen[bytes]]) -> None:
        if not done.cancelled() and done.exception() is None:
            done.result().kill()
            loop.run_in_executor(None, done.result().wait)

    try:
        return await asyncio.shield(begun)
    except asyncio.CancelledError:
        begun.add_done_callback(end)
        raise


def _begun(words: Sequence[str], place: AskedFrom, printed: IO[bytes], said: IO[bytes]) -> subprocess.Popen[bytes]:
    env = _env(os.environ, place)
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=printed, stderr=said, env=env)
    try:
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_PRINTED, MOST_PRINTED))
    except (ProcessLookupError, PermissionError):  # it has ended already, or has another user's rights
        pass
    return process


def _env(env: Mapping[str, str], place: AskedFrom) -> dict[str, str]:
    """Return the environment of a command: it shall not join a Ray by itself."""
    return {name: value for name, value in env.items() if name != "RAY_ADDRESS"} | {OVER_HTTP: place}


def _content(file: IO[bytes], most: int) -> bytes:
    file.seek(0)
    return file.read(most)


def _sentence(said: bytes) -> str:
    """Return what a command has said on standard error, without warnings and its own name, in one line."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines()]
    told = [line.partition(": ")[2] if line.startswith("raymirror ") else line for line in lines]
    return "; ".join(line for line in told if line and not line.startswith("warning:"))[-_MOST_SAID:]
