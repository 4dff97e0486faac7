"""One Ray node as processes of this machine: started, inspected, killed, frozen, ended, all by pid."""

import contextlib
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import psutil

from tests.harness.ray_keeper import Start

START_DEADLINE_S = 120.0
END_DEADLINE_S = 60.0
MOST_TRIES = 6
ROOT = Path(__file__).parents[2]
_AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")


class RayNode:
    """The processes of one node, kept by a `ray_keeper` of its own: `--node-name`, what it prints, Ray's folder."""

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str], log_file: Path, temp: Path) -> None:
        self.name, self.log_file, self.temp = name, log_file, temp
        self._command, self._env = list(command), dict(env)
        self._tries = 0
        self._started = False
        self._keeper = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        self._tries += 1
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.harness.ray_keeper", *self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._env,
                start_new_session=True,
            )

    def wait_started(self, deadline_s: float = START_DEADLINE_S) -> None:
        """Wait until its command has ended well; AssertionError with what it printed otherwise.

        Ray gives its own agents 15 s to start, which a machine at its limit does not keep: a node is tried six times.
        """
        while not self._started:
            assert self._keeper.stdout is not None
            if select.select([self._keeper.stdout], [], [], deadline_s)[0] and self._keeper.stdout.readline():
                self._started = True
                return
            self.end()
            printed = self.log_file.read_text()[-4000:]
            assert self._tries < MOST_TRIES, (
                f"node {self.name} did not start {self._tries} times; it printed:\n{printed}"
            )
            self._keeper = self._spawn()

    @property
    def running(self) -> bool:
        """Whether any process of the node is left."""
        return self._keeper.poll() is None

    def only(self, program: str) -> psutil.Process:
        """Give its one process of a program; AssertionError when there is none or more."""
        found = [one for one in self.processes() if _program(one) == program]
        assert len(found) == 1, f"node {self.name} has {len(found)} of {program}"
        return found[0]

    def processes(self) -> list[psutil.Process]:
        """List what runs on the node."""
        return psutil.Process(self._keeper.pid).children(recursive=True) if self.running else []

    def workers(self) -> list[psutil.Process]:
        """List its worker processes: actors, and idle ones."""
        return [one for one in self.processes() if (name := _program(one)).startswith("ray::") and name not in _AGENTS]

    def freeze(self, *, workers: bool = True) -> None:
        """SIGSTOP: the whole node, or with `workers=False` its raylet only, as if the node were cut off."""
        self._signal(signal.SIGSTOP, workers=workers)

    def thaw(self) -> None:
        """SIGCONT to all of it."""
        self._signal(signal.SIGCONT, workers=True)

    def kill_raylet(self) -> None:
        """SIGKILL the raylet only and wait until it is gone; its workers notice by themselves."""
        kill_and_wait([self.only("raylet")])

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start a further process that ends with the node."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(msgspec.json.encode(Start(list(argv), dict(env))) + b"\n")
        self._keeper.stdin.flush()

    def end(self) -> None:
        """SIGKILL all its processes by pid and wait until nothing is left. Twice is once."""
        for stream in (self._keeper.stdin, self._keeper.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        try:
            self._keeper.wait(END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            kill_and_wait([*self.processes(), psutil.Process(self._keeper.pid)])
            self._keeper.wait()

    def _signal(self, number: signal.Signals, *, workers: bool) -> None:
        # The raylet first when it stops: it must not see its workers stand still and act on it.
        chosen = self.processes() if workers else [self.only("raylet")]
        for process in sorted(chosen, key=lambda one: _program(one) != "raylet"):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def kill_and_wait(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL processes and wait until they are gone."""
    listed = list(processes)
    for process in listed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _, left = psutil.wait_procs(listed, timeout=END_DEADLINE_S)
    assert not left, f"still there after SIGKILL: {left}"


def _program(process: psutil.Process) -> str:
    """Name a process by its first word: Ray's workers write `ray::...` there, binaries their path."""
    try:
        words = process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""
    return words[0].rpartition("/")[2] if words and not words[0].startswith("ray::") else "".join(words[:1])
