"""`commands`: seconds of each short command to a running mirror, by its socket and through Ray.

Measures the wall time of the whole process: Python's start, the request, the printed answer.
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.dataset import Backlog
from bench.errors import BenchError
from bench.measure import running
from bench.pair import cluster_pair
from bench.parts import Parts, chosen, report
from bench.small import ALONE, make_topic
from bench.systems import raymirror
from bench.systems.launch import Job

COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "status": ("status",),
    "status --json": ("status", "--json"),
    "lag": ("lag",),
    "events": ("events",),
    "pause": ("pause",),
    "pause --timeout 0": ("pause", "--timeout", "0"),
    "resume": ("resume",),
}
WAYS = ("socket", "ray")
_TOPIC, _PARTITIONS, _RECORDS = "bench-commands", 40, 100
_REPEATS, _QUICK_REPEATS, _RAY_REPEATS = 11, 3, 3
"""The most repeats through Ray: each takes seconds."""
_LOOK_S = 0.2
_COMMAND_S = 120.0
_START_S = 300.0
"""The longest start, in seconds, on a machine at its limit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--repeats", type=int, help=f"repeats, by socket (default {_REPEATS}, quick {_QUICK_REPEATS})")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"comma-separated, of {', '.join(WAYS)}")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a command lacks figures. Raises BenchError, ClusterError."""
    ways = chosen("commands", "way", args.ways, WAYS)
    repeats = args.repeats or (_QUICK_REPEATS if args.quick else _REPEATS)
    parts, loads = Parts(), [os.getloadavg()[0]]
    found: dict[str, dict[str, Any]] = {}
    with cluster_pair() as (source, target, folder):
        asyncio.run(make_topic(source.bootstrap_servers, _TOPIC, _PARTITIONS, _RECORDS))
        servers = source.bootstrap_servers, target.bootstrap_servers
        backlog = Backlog.short(_TOPIC, _PARTITIONS, _RECORDS)
        job = Job.between(*servers, backlog, "commands", folder / "commands")
        launch = raymirror.launch(job, ALONE)
        with running(launch, job) as (process, tree):
            asked = Asked(process, launch.environment)
            address = asked.wait_copied()
            tree.discover()
            for way in ways:
                by_ray = ("--address", address), min(repeats, _RAY_REPEATS)
                measured = parts.measure(way, partial(asked.measure, *(((), repeats) if way == "socket" else by_ray)))
                found |= {way: measured} if measured is not None else {}
                loads.append(os.getloadavg()[0])
    for way, figures in found.items():
        for command, seconds in figures.items():
            times = f"{seconds['median_s']:.3f} s  at most {seconds['most_s']:.3f} s  CPU {seconds['cpu_s']:.3f} s"
            print(f"{way:7} {command:20} {times}")
    return report(
        "commands",
        args,
        parts,
        ways=found,
        partitions=_PARTITIONS,
        load=[round(load, 1) for load in loads],
    )


class Asked:
    """Sends commands, each in its own process, to the mirror of a process."""

    def __init__(self, process: subprocess.Popen[bytes], environment: Mapping[str, str]) -> None:
        self._process = process
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment}

    def wait_copied(self) -> str:
        """Wait until everything is copied; return the address of the mirror's Ray. Raises BenchError."""
        give_up_at = time.monotonic() + _START_S
        while True:
            done = self._command("status", "--json")
            if done.returncode == 0:
                flow = msgspec.json.decode(done.stdout)["flows"][0]
                if flow["lanes"] == _PARTITIONS and flow["lag_records"] == 0:
                    break
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise BenchError("commands", f"the mirror has not copied everything: {done.stderr.decode()[-500:]}")
            time.sleep(_LOOK_S)
        (state,) = (Path(self._environment["XDG_STATE_HOME"]) / "raymirror" / "mirrors").glob("*.json")
        return str(msgspec.json.decode(state.read_bytes())["address"])

    def measure(self, words: Sequence[str], repeats: int) -> dict[str, dict[str, Any]]:
        """Return the seconds of every command, run in turns. Raises BenchError if one fails."""
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        cpu: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(repeats):
            for name, command in COMMANDS.items():
                began_at, used_s = time.monotonic(), _children_cpu_s()
                done = self._command(*command, *words)
                times[name].append(time.monotonic() - began_at)
                cpu[name].append(_children_cpu_s() - used_s)
                if done.returncode:
                    raise BenchError("commands", f"{name} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
        return {name: summary(seconds, cpu[name]) for name, seconds in times.items()}

    def _command(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "actors", *words]
        return subprocess.run(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_S,
            check=False,
        )


def _children_cpu_s() -> float:
    """CPU seconds of the ended child processes of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def summary(seconds: Sequence[float], cpu: Sequence[float]) -> dict[str, Any]:
    """Median and maximum of the seconds, median of the CPU time, and every value of the seconds."""
    return {
        "cpu_s": round(statistics.median(cpu), 3),
        "median_s": round(statistics.median(seconds), 3),
        "most_s": round(max(seconds), 3),
        "all_s": [round(one, 3) for one in seconds],
    }
