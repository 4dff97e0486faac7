"""`history`: size of the stored lag history of many partitions over days, and seconds of the commands that read it."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

from actors.observability.instants import clock_text
from bench.errors import BenchError
from bench.figures import machine
from bench.history.rows import HOUR_MS
from bench.history.stores import Layout, Stored, read_stored, storage_uri, store
from bench.start import forget_files

_LANES, _QUICK_LANES, _DAYS, _QUICK_DAYS = 10_000, 1_000, 7.0, 0.25
_POLL_S = 0.05
_MOST_S, _MOST_MIB = 900, 6 * 1024
_WORST = "SELECT flow, topic, max(lag_ms_max) AS worst_ms FROM lag GROUP BY ALL ORDER BY worst_ms DESC LIMIT 10"
_ROOT = Path(__file__).parents[2]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--lanes", type=int, help=f"number of partitions (default {_LANES:,}, quick {_QUICK_LANES:,})")
    parser.add_argument("--days", type=float, help=f"days of history (default {_DAYS:g}, quick {_QUICK_DAYS:g})")
    parser.add_argument(
        "--old",
        type=Path,
        metavar="CHECKOUT",
        help="a checkout from before the tables (b5783c2c): the same rows in its layout, read by its commands too",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep what is stored in this folder; a later run only reads it"
    )
    parser.add_argument("--only-store", action="store_true", help="end after storing (with --keep)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Store the history, run the commands, and return the JSON object. Raises BenchError."""
    if args.only_store and args.keep is None:
        raise BenchError("history", "--only-store needs --keep FOLDER, else nothing is left of what it stores")
    with _folder(args.keep) as folder:
        stored = read_stored(folder) or _store(folder, args)
        if args.old and "commits" not in stored.sizes:
            raise BenchError("history", f"{folder} has nothing in the layout before the tables; store it with --old")
        commands = {} if args.only_store else _all_timed(stored, folder, args.old)
    return {
        "bench": "history",
        "stored": msgspec.to_builtins(stored),
        "commands": commands,
        "quick": args.quick,
        "load": os.getloadavg()[0],
        "machine": machine(),
    }


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as made:
        yield Path(made)


def _store(folder: Path, args: argparse.Namespace) -> Stored:
    lanes = args.lanes or (_QUICK_LANES if args.quick else _LANES)
    hours = round((args.days or (_QUICK_DAYS if args.quick else _DAYS)) * 24)
    if any(folder.iterdir()):
        raise BenchError("history", f"{folder} is not empty, and has no finished history; give another --keep FOLDER")
    return store(folder, lanes, hours, commits=args.old is not None)


def commands(stored: Stored) -> dict[str, tuple[list[str], tuple[Layout, ...]]]:
    """Return the command lines, by what a person asks for, and the layouts whose version has the command.

    Times are instants, so that a history that was stored earlier is read in full.
    """
    hour, day = (clock_text(max(stored.begin_ms, stored.end_ms - hours * HOUR_MS)) for hours in (1, 24))
    both: tuple[Layout, ...] = ("table", "commits")
    return {
        "tables": (["tables"], ("table",)),
        "lag of an hour": (["lag", "--history", "--since", hour], both),
        "lag of a day": (["lag", "--history", "--since", day], both),
        "report of all": (["report", "--since", clock_text(stored.begin_ms), "-o", "report.html"], both),
        "worst of each topic, by SQL": (["sql", _WORST], ("table",)),
    }


def _all_timed(stored: Stored, folder: Path, old: Path | None) -> dict[str, dict[str, dict[str, Any]]]:
    """Run every command on the stores that have it, one after the other; each begins with nothing in the page cache."""
    code: dict[Layout, Path] = {"table": _ROOT}
    if old is not None:
        code["commits"] = old.absolute()
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, (words, layouts) in commands(stored).items():
        for layout in (one for one in layouts if one in code):
            os.sync()  # a page that is not on disk yet would stay in the page cache
            forget_files([folder])
            figures = _timed(name, [*words, "--storage", storage_uri(folder, layout)], code[layout])
            print(f"{name}, {layout}: {figures}", flush=True)
            found.setdefault(name, {})[layout] = figures
    return found


def _timed(name: str, words: list[str], code: Path) -> dict[str, Any]:
    """Run one command of a checkout: its seconds, its CPU seconds, the most memory in MiB, and bytes of its output."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as folder:
        output = Path(folder) / "output"
        with output.open("wb") as stream:
            ran = psutil.Popen(
                [sys.executable, "-m", "actors", *words],
                stdout=stream,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(code)},
            )
            found = watched(ran, began_s)
        if ran.returncode and "stopped" not in found:
            raise BenchError(name, f"exit code {ran.returncode}: {output.read_text(errors='replace')[-500:]}")
        return found | {"output_bytes": sum(file.stat().st_size for file in Path(folder).iterdir())}


def watched(
    ran: psutil.Popen, began_s: float, *, most_s: float = _MOST_S, most_mib: float = _MOST_MIB
) -> dict[str, Any]:
    """Wait for a command; end it if it takes more time or memory than anybody has for it."""
    peak_mib = cpu_s = 0.0
    stopped = ""
    while ran.poll() is None:
        try:
            peak_mib = max(peak_mib, ran.memory_info().rss / 2**20)
            cpu_s = sum(ran.cpu_times()[:2])
        except psutil.NoSuchProcess:
            break
        if peak_mib > most_mib:
            stopped = f"it had more than {most_mib:,.0f} MiB"
        elif time.monotonic() - began_s > most_s:
            stopped = f"it had not ended after {most_s:,.0f} s"
        if stopped:
            ran.kill()
            break
        time.sleep(_POLL_S)
    ran.wait()
    found = {
        "wall_s": round(time.monotonic() - began_s, 2),
        "cpu_s": round(cpu_s, 2),
        "rss_mib": round(peak_mib, 1),
    }
    return found | ({"stopped": stopped} if stopped else {})
