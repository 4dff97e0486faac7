"""`page`: what an open page of the console costs a mirror at rest, by role; a real browser holds the page open."""

import argparse
import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from aiokafka import AIOKafkaProducer
from rich.console import Console
from rich.table import Table

from bench.admin import create_topic
from bench.dataset import Backlog
from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.measure import running
from bench.pair import cluster_pair
from bench.parts import Parts, report
from bench.processes import ProcessTree
from bench.rest import role_of
from bench.systems import raymirror
from bench.systems.launch import Job
from bench.watch import DISCOVER_S, wait_until

_TOPIC, _PARTITIONS = "bench-page", 40
_SYSTEM = "raymirror"
_SECONDS, _QUICK_SECONDS = 120.0, 30.0
_SETTLE_S, _QUICK_SETTLE_S = 30.0, 10.0
"""Seconds from the last record, and from the opening of the page, to the window."""
_GOAL_PERCENT = 1.0
"""Of one core: the most that an open page may cost."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PAGES = {"overview": "#/", "flow": "#/flows/{flow}"}
_FLAGS = ("--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-port=0")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--seconds", type=float, help=f"seconds of each window (default {_SECONDS:.0f}, quick 30)")
    parser.add_argument("--partitions", type=int, default=_PARTITIONS, help="partitions with one record each")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a window lacks figures. Raises BenchError, ClusterError."""
    seconds = args.seconds or (_QUICK_SECONDS if args.quick else _SECONDS)
    settle_s = _QUICK_SETTLE_S if args.quick else _SETTLE_S
    parts, load_before = Parts(), os.getloadavg()[0]
    with cluster_pair() as (source, target, folder):
        asyncio.run(create_topic(source.bootstrap_servers, _TOPIC, args.partitions))
        backlog = Backlog.short(_TOPIC, args.partitions, 1)
        job = Job.between(source.bootstrap_servers, target.bootstrap_servers, backlog, _SYSTEM, folder / _SYSTEM)
        found = parts.measure(_SYSTEM, partial(_measured, job, seconds, settle_s)) or {}
    costs = costs_of(found)
    show(found, costs)
    return report(
        "page",
        args,
        parts,
        windows=found,
        cost_percent=costs,
        goal_percent=_GOAL_PERCENT,
        partitions=args.partitions,
        seconds=seconds,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


def costs_of(windows: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return how much CPU all processes of a mirror take with each page beyond none, in percent of one core.

    "None" is the mean of the windows before and after, so that a drift of the machine is no cost.
    """
    alone = [sum(roles.values()) for name, roles in windows.items() if name.startswith("none")]
    if not alone:
        return {}
    return {name: round(sum(windows[name].values()) - sum(alone) / len(alone), 2) for name in _PAGES if name in windows}


def show(windows: Mapping[str, Mapping[str, float]], costs: Mapping[str, float]) -> None:
    """Print the CPU of each role in each window."""
    roles = sorted({role for found in windows.values() for role in found})
    table = Table("CPU % of a core", *windows)
    for role in roles:
        table.add_row(role, *(f"{found.get(role, 0.0):.2f}" for found in windows.values()))
    table.add_row("all", *(f"{sum(found.values()):.2f}" for found in windows.values()))
    Console().print(table)
    for page, percent in costs.items():
        print(f"an open page ({page}) costs {percent:.2f} % of a core; the goal is {_GOAL_PERCENT:g} %")


def _measured(job: Job, seconds: float, settle_s: float) -> dict[str, dict[str, float]]:
    return asyncio.run(_measure(job, seconds, settle_s))


async def _measure(job: Job, seconds: float, settle_s: float) -> dict[str, dict[str, float]]:
    """Measure a mirror at rest without a page, with each page, and without one again. Raises BenchError."""
    command = next((path for name in _BROWSERS if (path := shutil.which(name)) is not None), None)
    if command is None:
        raise BenchError("page", f"no browser is installed here ({', '.join(_BROWSERS)})")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    found: dict[str, dict[str, float]] = {}
    with running(raymirror.launch(job, {"raymirror.http.port": str(port)}), job) as (process, tree):
        await _copy(job)
        await asyncio.sleep(settle_s)
        found["none, before"] = await _window(tree, seconds)
        for page, fragment in _PAGES.items():
            address = f"http://127.0.0.1:{port}/console/{fragment.format(flow=f'{job.alias}->target')}"
            with _opened(command, address, job.folder / f"profile-{page}") as browser:
                await wait_until("page", "the page did not open its stream", partial(_holds, browser, port))
                await asyncio.sleep(settle_s)
                if not _holds(browser, port):
                    raise BenchError("page", f"the page {page} has closed its stream")
                found[page] = await _window(tree, seconds)
        await asyncio.sleep(settle_s)
        found["none, after"] = await _window(tree, seconds)
        if process.poll() is not None:
            raise BenchError("page", f"the mirror ended by itself with {process.returncode}")
    return found


async def _copy(job: Job) -> None:
    partitions = job.backlog.partitions
    async with AIOKafkaProducer(bootstrap_servers=job.source) as producer:
        for partition in range(partitions):
            await producer.send_and_wait(_TOPIC, b"x" * 100, partition=partition)
    with KafkaPeek(job.target) as peek:
        await wait_until(
            "page", "the records did not arrive", lambda: all(peek.end_offsets(job.target_topic, partitions))
        )


async def _window(tree: ProcessTree, seconds: float) -> dict[str, float]:
    """Measure the CPU of each role, in percent of a core."""
    tree.discover()
    before, began_at = tree.sample(), time.monotonic()
    while time.monotonic() - began_at < seconds:
        await asyncio.sleep(DISCOVER_S)
        tree.discover()
    after, wall_s = tree.sample(), time.monotonic() - began_at
    found: dict[str, float] = {}
    for key in after.cpu_s:
        role = role_of(tree.command(key))
        found[role] = found.get(role, 0.0) + 100 * after.since(before, frozenset({key})) / wall_s
    return {role: round(percent, 2) for role, percent in found.items()}


@contextmanager
def _opened(command: str, address: str, profile: Path) -> Iterator[psutil.Process]:
    """Hold a page open in a browser of its own, which is killed at the end."""
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    words = (command, *_FLAGS, *sandbox, f"--user-data-dir={profile}", address)
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True)
    try:
        yield psutil.Process(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _holds(browser: psutil.Process, port: int) -> bool:
    """Whether a process of the browser holds a connection to the port."""
    processes = [browser, *browser.children(recursive=True)]
    return any(
        one.status == psutil.CONN_ESTABLISHED and one.raddr and one.raddr.port == port
        for process in processes
        for one in process.net_connections("tcp")
    )
