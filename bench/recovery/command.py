"""`recovery`: pauses of partitions, and exactness of the copy, for every fault while records flow."""

import argparse
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Self, get_args

import msgspec
from aiokafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from bench.errors import BenchError
from bench.figures import machine
from bench.recovery.far.settings import PARTITIONS, PER_S, Far, Side
from bench.recovery.fault import Bound
from bench.recovery.mirror import COPIERS
from bench.recovery.opening import Size
from bench.recovery.round import Row, play
from bench.recovery.stage import Stage, StageKind
from bench.recovery.table import FAULTS
from deploy.local.errors import ClusterError

ROUNDS = 3
GROUPS = 10
QUICK_FAR = Far(rtt_ms=0, translated=200)
QUICK = Size(partitions=8, before_s=4.0, after_s=11.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--fault", nargs="+", metavar="ID", default=list(FAULTS), help=f"any of {', '.join(FAULTS)}")
    parser.add_argument("--groups", type=int, help=f"consumer groups that move (default {GROUPS}; 0: none)")
    parser.add_argument("--rounds", type=int, help=f"runs of each fault (default {ROUNDS}, quick 1)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="store logs and samples of every run here")
    far = parser.add_argument_group("a backlog over a distance, with full windows")
    far.add_argument("--distance", type=float, metavar="MS", help="round trip in ms between the mirror and a side")
    far.add_argument("--far", choices=get_args(Side), default="target", help="the far side (default target)")
    far.add_argument("--backlog", type=int, help="records before the mirror starts (default: as the fault needs)")
    far.add_argument("--appends", type=int, help="least median of appends in flight (default 128, source alone far: 0)")
    far.add_argument("--merged", action="store_true", help="fail a run in which no batches were merged")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a record is missing, doubled or misplaced, or a
    run could not be judged.
    """
    if unknown := [fault for fault in args.fault if fault not in FAULTS]:
        raise BenchError("bench", f"no fault {unknown[0]!r}; there are {', '.join(FAULTS)}")
    size = QUICK if args.quick else Size()
    size = msgspec.structs.replace(size, groups=GROUPS if args.groups is None else args.groups)
    far = far_of(args)
    if far is not None:
        partitions = min(size.partitions, PARTITIONS)
        size = msgspec.structs.replace(size, far=far, partitions=partitions, per_s=PER_S * partitions)
    rounds = args.rounds or (1 if args.quick else ROUNDS)
    began = time.monotonic()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # unreachable brokers are expected here
    with tempfile.TemporaryDirectory(prefix="rmb-") as name, Stages(Path(name)) as stages:
        series = Series(stages, size, args.keep or Path(name))
        for fault in args.fault:
            for number in range(1, rounds + 1):
                series.play(fault, number)
    rows = series.rows
    print_table(rows)
    return {
        "bench": "recovery",
        "systems": {"raymirror": {"faults": [msgspec.to_builtins(row) for row in rows]}},
        "ratios": {},
        "unmeasured": series.unmeasured,
        "failed": bool(series.unmeasured) or not all(row.is_whole for row in rows),
        "met": all(row.met for row in rows),
        "size": msgspec.to_builtins(size),
        "copiers": COPIERS,
        "wall_s": round(time.monotonic() - began),
        "quick": args.quick,
        "machine": machine(),
    }


def far_of(args: argparse.Namespace) -> Far | None:
    """Return the distance that the arguments ask for; None without one. Raises BenchError."""
    if args.distance is None:
        if args.backlog is not None or args.appends is not None or args.merged:
            raise BenchError("bench", "--backlog, --appends and --merged need --distance")
        return None
    if args.distance <= 0:
        raise BenchError("bench", f"a distance of {args.distance:g} ms is none")
    far = QUICK_FAR if args.quick else Far(rtt_ms=0)
    near_target = args.far == "source"  # appends next door: the window of a path that holds nothing is five requests
    return msgspec.structs.replace(
        far,
        rtt_ms=args.distance,
        side=args.far,
        backlog=far.backlog if args.backlog is None else args.backlog,
        least_appends=args.appends if args.appends is not None else (0 if near_target else far.least_appends),
        must_merge=args.merged,
    )


class Stages:
    """One pair of clusters at a time, used again while the next fault needs the same and all brokers live."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0
        self._stage: Stage | None = None

    def get(self, kind: StageKind) -> Stage:
        """Return clusters of a kind, in order."""
        if self._stage is not None and (self._stage.kind != kind or not self._stage.is_whole()):
            self.drop()
        if self._stage is None:
            self._made += 1
            self._stage = Stage(kind, self._folder / f"clusters-{self._made}")
        return self._stage

    def drop(self) -> None:
        """End the present clusters."""
        if self._stage is not None:
            self._stage.close()
        self._stage = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()


class Series:
    """Runs faults one after the other; names a run that could not be judged, with its reason, and continues."""

    def __init__(self, stages: Stages, size: Size, folder: Path) -> None:
        self._stages, self._size, self._folder = stages, size, folder
        self.rows: list[Row] = []
        self.unmeasured: list[dict[str, Any]] = []

    def play(self, name: str, number: int) -> None:
        """Run a fault once."""
        at = time.monotonic()
        try:
            kind = msgspec.structs.replace(FAULTS[name].stage, far=self._size.far)
            stage = self._stages.get(kind)
            row = play(FAULTS[name], number, stage, self._size, self._folder / f"{name}-{number}")
            stage.clean(name.replace("_", "-"))
        except (BenchError, ClusterError, KafkaError, OSError, AssertionError) as error:
            print(f"{name} {number}: no figures: {error}", flush=True)
            self.unmeasured.append({"fault": name, "run": number, "why": f"{type(error).__name__}: {error}"[:1000]})
            self._stages.drop()
            return
        self.rows.append(row)
        print(f"{name} {number}: {_summary(row)} ({time.monotonic() - at:.0f} s)", flush=True)


def _summary(row: Row) -> str:
    exact = f"lost {row.lost}, duplicated {row.duplicated}, reordered {row.reordered} of {row.records:,}"
    groups = f"{row.checkpoints_wrong} of {row.checkpoints:,} checkpoints wrong, {row.checkpoints_withdrawn} withdrawn"
    times = f"pause {row.pause_s:.2f} s (usual {row.usual_s:.2f}), after the cause {row.after_s:.2f} s"
    more = [*_healthy(row), *([str(row.far)] if row.far is not None else []), *row.notes]
    said = "; ".join([*(f"FAILED: {one}" for one in row.failures), *more])
    met = "within" if row.met else "NOT WITHIN"
    return f"{exact}; {groups}; {times}, {met} {_bound(row)}, machine load {row.machine_load:.0f}; {said}"


def _healthy(row: Row) -> list[str]:
    return [str(row.healthy)] if row.healthy is not None else []


def _bound(row: Row) -> str:
    match row.bound:
        case Bound.PAUSE.value:
            return f"{row.bound_s:g} s"
        case Bound.AFTER_CAUSE.value:
            return f"{row.bound_s:g} s after the cause"
        case _:
            return f"{row.bound_s:g} s above the usual"


def print_table(rows: list[Row]) -> None:
    """Print a line per run."""
    table = Table(title="recovery: pauses in seconds, records lost, duplicated, reordered")
    columns = (
        "pause",
        "usual",
        "cause",
        "after",
        "bound",
        "met",
        "lost",
        "dup",
        "reord",
        "records",
        "checkp",
        "wrong",
        "load",
    )
    table.add_column("fault")
    for title in ("run", *columns):
        table.add_column(title, justify="right")
    table.add_column("notes")
    for row in rows:
        table.add_row(
            *(row.fault, str(row.run), f"{row.pause_s:.2f}", f"{row.usual_s:.2f}", f"{row.cause_s:.1f}"),
            *(f"{row.after_s:.2f}", _bound(row), "yes" if row.met else "NO"),
            *(str(row.lost), str(row.duplicated), str(row.reordered), f"{row.records:,}"),
            *(f"{row.checkpoints:,}", str(row.checkpoints_wrong)),
            *(f"{row.machine_load:.0f}", "; ".join([*row.failures, *_healthy(row), *row.notes])),
        )
    Console(width=None if os.isatty(1) else 200).print(table)
