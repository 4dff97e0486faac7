"""One command line of raymirror in a process of its own, watched line by line."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.errors import BenchError

_ROOT = Path(__file__).parents[2]
_POLL_S = 0.02
DEADLINE_S = 600.0


class Outcome:
    """How a command ended: exit code (-9: killed), standard output and standard error."""

    def __init__(self, words: Sequence[str], code: int, out: str, err: str) -> None:
        self.words, self.code, self.out, self.err = tuple(words), code, out, err

    @property
    def told(self) -> str:
        """The last line that says something."""
        lines = [line for line in (self.err or self.out).splitlines() if line.strip()]
        return f"{' '.join(self.words[:3])} ended with {self.code}: {lines[-1][:400] if lines else ''}"


class WatchedCommand:
    """`python -m actors WORDS`; its standard error is read while it runs."""

    def __init__(self, words: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._words = words
        self._lines: list[str] = []
        self._out_file = folder / "command.out"
        with self._out_file.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "actors", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                env={**env, "PYTHONPATH": str(_ROOT)},
                cwd=folder,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines.append(line)

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait_line(self, text: str, deadline_s: float = DEADLINE_S) -> bool:
        """Wait until it has said a text; False if it ended before. Raises BenchError."""
        give_up_at = time.monotonic() + deadline_s
        while not any(text in line for line in self._lines):
            if not self.is_running():
                self._reader.join()
                return any(text in line for line in self._lines)
            if time.monotonic() > give_up_at:
                raise BenchError("dr", f"no line {text!r} within {deadline_s:.0f} s: {''.join(self._lines)[-600:]}")
            time.sleep(_POLL_S)
        return True

    def stay(self, seconds: float) -> None:
        """Wait so long, or until it has ended."""
        until = time.monotonic() + seconds
        while self.is_running() and time.monotonic() < until:
            time.sleep(_POLL_S)

    def kill(self) -> bool:
        """Kill it; False if it had ended."""
        if not self.is_running():
            return False
        self._process.kill()
        return self._process.wait() == -signal.SIGKILL

    def wait(self, deadline_s: float = DEADLINE_S) -> Outcome:
        """Wait for its end. Raises BenchError, and kills it, if that takes too long."""
        try:
            code = self._process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            told = "".join(self._lines)[-800:]
            raise BenchError("dr", f"{' '.join(self._words)} not done within {deadline_s:.0f} s: {told}") from None
        finally:
            self._reader.join()
            if self._process.stderr is not None:
                self._process.stderr.close()
        return Outcome(self._words, code, self._out_file.read_text(errors="replace"), "".join(self._lines))


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of every command and mirror of a world: a state folder of its own, no foreign Ray."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return {**kept, "XDG_STATE_HOME": str(folder / "state")}
