"""Runs `distance.c`, the proxy that puts a distance between the mirror and a cluster, in its own process."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from bench.errors import BenchError
from deploy.local.ports import HOST

NO_WINDOW = 0
_SOURCE = Path(__file__).with_name("distance.c")
_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_S, _END_S = 120.0, 10.0
_SEED = 16


class Distance(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to the bytes of a connection."""

    rtt_ms: float
    """Half of it in each direction."""
    request_window_bytes: int = NO_WINDOW
    """Bytes that a client of the far cluster may have sent on a connection before their acknowledgement is back."""
    answer_window_bytes: int = NO_WINDOW
    """The same for a broker of the far cluster."""
    late_share: float = 0.0
    """Share of the chunks (at most 64 KiB) that come late; what follows on their connection waits behind them."""
    late_ms: float = 0.0
    cap_bytes: int = 256 * 1024 * 1024
    """Bytes that one direction of a connection may have under way: 5 Gbit/s for 400 ms."""


class Carried(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of the proxy; `connections_most` and `held_most_bytes` since the last time they were read."""

    request_bytes: int
    answer_bytes: int
    connections: int
    connections_most: int
    accepted: int
    chunks: int
    late_chunks: int
    held_most_bytes: int
    cpu_s: float


@dataclass
class FarPort:
    """Where a proxy listens for a broker, and the listener of the broker that it connects to."""

    port: int
    target: tuple[str, int] = (HOST, 0)


def compile_proxy(folder: Path) -> Path:
    """Compile the proxy into a folder; return the program. Raises BenchError without a C compiler."""
    compiler = next((path for name in _COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise BenchError(
            "wan", f"no C compiler on PATH ({', '.join(_COMPILERS)}): install one (Debian: apt install gcc)"
        )
    program = folder / "distance"
    command = (compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(_SOURCE))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILE_S)
    if done.returncode:
        raise BenchError("wan", f"{' '.join(command)} failed: {done.stderr[-1500:]}")
    return program


class DistanceProxy:
    """A running proxy; `ports`: of each port that it listens on, the port on this machine that it connects to."""

    def __init__(self, program: Path, distance: Distance, ports: Mapping[int, int]) -> None:
        words = (
            round(distance.rtt_ms * 1000),
            distance.request_window_bytes,
            distance.answer_window_bytes,
            round(distance.late_share * 1_000_000),
            round(distance.late_ms * 1000),
            distance.cap_bytes,
            _SEED,
        )
        pairs = (f"{port}:{target}" for port, target in ports.items())
        self._process = subprocess.Popen(
            (str(program), *map(str, words), *pairs),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def read(self) -> Carried:
        """Return its counters. Raises BenchError if it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        return msgspec.convert(self._hear(), Carried)

    def _hear(self) -> object:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return json.loads(line)

    def _ended(self) -> BenchError:
        assert self._process.stderr is not None
        code = self._process.wait(_END_S)
        return BenchError("wan", f"the proxy ended with {code}: {self._process.stderr.read()[-500:].strip()}")

    def __enter__(self) -> Self:
        try:
            self._hear()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it; every connection through it is cut."""
        self._process.kill()
        self._process.wait(_END_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
