"""`make test`, `make test-full`: three pytest processes in parallel, since tests with real clusters mostly wait.

One process has the tests that start Ray, one the others with real brokers, one all tests without brokers: units, and
those that need only this machine (`local`). Each has its own clusters, and a lower priority than the one before it: a
Ray that starts waits for its parts for seconds only, unit tests wait for nothing. The output of the first process is
shown as it comes, that of the next one after it; the last lines of all are added up to one line, in the form of pytest.

Each has its own folder for its tests: pytests that share one delete old folders in each other's way at their end, and
then fail. The folders are removed when all tests have passed; otherwise their path is printed.

Each is a process group: Ctrl-C reaches only this process, which forwards every SIGINT once, so that all of them stop
their brokers. If this process is killed, they get a SIGINT from the kernel (PR_SET_PDEATHSIG).
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import FrameType
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_COLOURS = re.compile(rb"\x1b\[[0-9;]*m")
_COUNT = re.compile(r"(\d+) ([a-z]+)")
_TOLD_LAST = re.compile(r"=+ (?P<counts>\d+ .*|no tests .*) in (?P<seconds>[\d.]+)s\b.*=+")
_ORDER = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings", "errors")
_NO_TESTS = ("deselected", "warnings")
_ONE = {"error": "errors", "warning": "warnings"}


class Stream(NamedTuple):
    """What one process runs: a marker expression, in words, and how far it stands back for others (`nice`).

    It does not even read the tests below `unread`, a folder without any that are wanted.
    """

    words: str
    wanted: str
    nice: int = 0
    unread: str = ""


UNITS = "tests/unit"
ALL = (
    Stream("with Ray", "ray", unread=UNITS),
    Stream("with brokers", "integration and not ray", nice=2, unread=UNITS),
    Stream("without brokers", "not ray and not integration", nice=7),
)
QUICK = tuple(stream._replace(wanted=f"{stream.wanted} and not full") for stream in ALL)
FULL = "--full"


class Told(NamedTuple):
    """What a pytest said last: tests by outcome (and `deselected`, `warnings`), and the seconds it took."""

    counts: Counter[str]
    seconds: float


class Running:
    """A pytest process whose output is read as it comes."""

    def __init__(self, stream: Stream, words: Sequence[str], folder: Path, scratch: Path) -> None:
        self.stream = stream
        self._came: SimpleQueue[bytes] = SimpleQueue()
        colour = "yes" if sys.stdout.isatty() else "auto"
        settings = [f"--color={colour}", f"--basetemp={scratch}"]
        settings += [f"--ignore={stream.unread}"] if stream.unread else []
        command = [sys.executable, "-u", "-m", "pytest", "-m", stream.wanted, *settings, *words]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            # Thousands of processes start here, and each would compile what it imports.
            env={**os.environ, "COLUMNS": str(columns()), "PYTHONDONTWRITEBYTECODE": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=lambda: _prepare(stream.nice),
        )

    def read(self) -> None:
        """Read its output from now on, however long nobody asks for it: a full pipe would hold it up."""
        Thread(target=self._read, daemon=True).start()

    def output(self) -> Iterator[bytes]:
        """Give what it prints, until it has ended."""
        while some := self._came.get():
            yield some

    def interrupt(self) -> None:
        """Have it stop what it started, and end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as pipe:
            while some := os.read(pipe.fileno(), 65536):
                self._came.put(some)
        self._came.put(b"")


def run(streams: Sequence[Stream], words: Sequence[str], folder: Path = ROOT) -> int:
    """Run pytest on a folder once for each stream, side by side; the worst of their exit codes."""
    began_s = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="raymirror-"))  # short: names of sockets have 107 bytes at most
    running = [Running(stream, words, folder, scratch / str(number)) for number, stream in enumerate(streams)]
    for one in running:
        one.read()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for one in running:
            one.interrupt()

    heeded = [one for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        last = [_show(one) for one in running]
        codes = [one.process.wait() for one in running]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if any(codes):
        _write(f"What the tests wrote is in {scratch}\n".encode())
    else:
        shutil.rmtree(scratch, ignore_errors=True)  # what a test started may still be writing its last line
    found = [told for line in last if (told := told_last(line)) is not None]
    if len(found) == len(running):
        took = ", ".join(f"{one.stream.words} {told.seconds:.0f} s" for one, told in zip(running, found, strict=True))
        _write(f"{took}\n{in_one_line(found, time.monotonic() - began_s)}\n".encode())
    else:
        _write(b"".join(line + b"\n" for line in last if line))
    return max(code if code >= 0 else 128 - code for code in codes)


def _show(running: Running) -> bytes:
    """Print the output of a process, but the last line that is like pytest's own last one; return that one.

    Something else may come behind it: what a library says at the end of the process.
    """
    begun = last = b""
    for some in running.output():
        *lines, begun = (begun + some).split(b"\n")
        for line in lines:
            if told_last(line) is None:
                _write(line + b"\n")
                continue
            if last:
                _write(last + b"\n")
            last = line
        if not _COLOURS.sub(b"", begun).startswith(b"="):  # a test's dot is shown when it comes
            _write(begun)
            begun = b""
    _write(begun)
    return last


def told_last(line: bytes) -> Told | None:
    """Read the last line of a pytest; None if it is not one, as where pytest itself has failed."""
    found = _TOLD_LAST.fullmatch(_COLOURS.sub(b"", line).decode(errors="replace").strip())
    if found is None:
        return None
    counts = {_ONE.get(name, name): int(count) for count, name in _COUNT.findall(found["counts"])}
    return Told(Counter(counts), float(found["seconds"]))


def in_one_line(told: Sequence[Told], seconds: float) -> str:
    """Say it as pytest would that had run all of it. One of them at least has collected all tests: what one of them
    leaves to another one is not deselected.
    """
    total: Counter[str] = sum((one.counts for one in told), Counter())
    collected = max(_ran(one) + one.counts["deselected"] for one in told)
    total["deselected"] = collected - sum(map(_ran, told))
    counts = ", ".join(f"{total[name]} {name}" for name in _ORDER if total[name] > 0)
    hours, rest = divmod(int(seconds), 3600)
    clock = f"{hours}:{rest // 60:02}:{rest % 60:02}"
    return f" {counts or 'no tests ran'} in {seconds:.2f}s ({clock}) ".center(columns(), "=")


def _ran(told: Told) -> int:
    return sum(count for name, count in told.counts.items() if name not in _NO_TESTS)


def columns() -> int:
    """How wide the output may be."""
    return shutil.get_terminal_size().columns


def _write(some: bytes) -> None:
    sys.stdout.buffer.write(some)
    sys.stdout.buffer.flush()


def _prepare(nice: int) -> None:
    os.nice(nice)
    # Shells have background jobs ignore SIGINT, `nohup` has commands ignore SIGHUP; whatever is started here would too.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != FULL]
    sys.exit(run(ALL if FULL in sys.argv else QUICK, [*words, "tests"]))
