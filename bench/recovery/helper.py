"""A child process of the bench: gets a JSON argument, exchanges lines with the bench, and is ended by pid."""

import contextlib
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from bench.errors import BenchError

_END_S = 20.0


class Helper:
    """One `python -m MODULE SPEC`; a context manager that kills the process at exit. Its errors go to a log file."""

    def __init__(self, module: str, spec: msgspec.Struct, log_file: Path) -> None:
        self._name = module.rpartition(".")[2]
        self._log_file = log_file
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, msgspec.json.encode(spec).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def say(self, word: str) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def end_input(self) -> None:
        """Close its standard input, which ends it."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def hear(self, timeout_s: float) -> Any:
        """Return its next line, decoded; raises BenchError with its output if none comes."""
        assert self._process.stdout is not None
        give_up_at = time.monotonic() + timeout_s
        while time.monotonic() < give_up_at:
            if select.select([self._process.stdout], [], [], 0.5)[0]:
                line = self._process.stdout.readline()
                if line:
                    return json.loads(line)
                break
        told = self._log_file.read_text(errors="replace")[-1500:].strip() or "(nothing)"
        raise BenchError(self._name, f"printed nothing within {timeout_s:.0f} s; its errors end: {told}")

    def require_running(self) -> None:
        """Raise BenchError if it has ended."""
        if self._process.poll() is not None:
            raise BenchError(self._name, f"ended: {self._log_file.read_text(errors='replace')[-1500:].strip()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(_END_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
