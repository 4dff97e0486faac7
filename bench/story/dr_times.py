"""`dr-times`: the time of each step of a switchover, a failover and a failback, by partitions, groups and records."""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.admin import create_topic
from bench.errors import BenchError
from bench.parts import Parts, report
from bench.story.backlog import Cell, cells_of, commit, commits_of, write
from bench.story.desk import Desk
from bench.story.reports import failback_counts, failover_steps, operation_steps, projected_s
from bench.story.scene import Scene, Size, write_properties
from bench.story.trip import SETTINGS, STORED_S, A, B
from deploy.local.cluster import EmbeddedCluster, running_clusters

_RECORDS = 2_000_000
_WANTED = 200_000_000
_BY_RECORDS = 10_000
"""New records of a partition from which on a copy takes as long as its records, not as the start of its partitions."""
_SMALL = "x200000x20000"
_CELLS = f"8x50,100x50{_SMALL},1000x50{_SMALL},100x500{_SMALL},100x5000{_SMALL}"
_QUICK_CELLS = "8x5x20000x2000"
_HEAP_MIB = 2048
_BACK_S, _REFUSED = 180.0, 2
COPYING_STEPS = {"failback": ("new-copy",)}
"""Steps whose time grows with the records; all others depend on partitions, groups, or what is not copied yet."""

Seconds = Mapping[str, Mapping[str, float]]


class CellTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds by operation and step; `at_wanted`: those of steps that copy, for 200 million new records.

    It is empty where few records came for each partition.
    """

    cell: Cell
    seconds: dict[str, dict[str, float]]
    copied: int
    bytes_to_source: int
    bytes_of_full_copy: int
    at_wanted: dict[str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument(
        "--cells",
        help=f"PARTITIONSxGROUPS[xRECORDSxNEW], comma-separated (default {_CELLS}; records and new ones: {_RECORDS:,})",
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a cell has no times. Raises BenchError, ClusterError."""
    cells = cells_of(args.cells or (_QUICK_CELLS if args.quick else _CELLS), _RECORDS, _RECORDS)
    parts, found = Parts(), list[CellTimes]()
    for cell in cells:
        one = parts.measure(str(cell), partial(_measure, cell))
        if one is not None:
            found.append(one)
            _print(found)
    return report("dr-times", args, parts, cells=[msgspec.to_builtins(one) for one in found])


def _measure(cell: Cell) -> CellTimes:
    with tempfile.TemporaryDirectory(prefix="rmb-") as name:
        folder = Path(name)
        clusters = {alias: EmbeddedCluster(alias, folder / alias, heap_mib=_HEAP_MIB) for alias in (A, B)}
        with running_clusters(*clusters.values()):
            scene, desk = Scene(folder, clusters, Size()), Desk(folder)
            try:
                return Timed(cell, scene, desk).run()
            finally:
                desk.close()


class Timed:
    """One cell on its own clusters: over from A to B, then B is lost, and gets what A got meanwhile."""

    def __init__(self, cell: Cell, scene: Scene, desk: Desk) -> None:
        self._cell, self._scene, self._desk = cell, scene, desk
        more = {**SETTINGS, "raymirror.dr.fence.command": str(scene.fence_command)}
        self._there = write_properties(desk.folder / "ab.properties", {**scene.settings(A, B), **more})
        self._back = write_properties(desk.folder / "ba.properties", {**scene.settings(B, A), **more})

    def run(self) -> CellTimes:
        """Fill, and do each operation once. Raises BenchError, ClusterError."""
        cell, scene, desk = self._cell, self._scene, self._desk
        for topic, partitions in cell.topics.items():
            asyncio.run(create_topic(scene.address(A), topic, partitions))
        write(scene.address(A), cell.places, cell.records)
        commit(scene.address(A), commits_of(cell))
        print(f"{cell}: filled", flush=True)
        self._mirror(self._there)
        _, switched = desk.raymirror("dr", "switchover", f"{A}->{B}", "--config", str(self._there), "--yes")
        desk.wait_ended()
        self._mirror(self._back)
        self._copy_one_each()
        desk.kill()
        (broker,) = scene.clusters[B].brokers
        broker.kill()
        _, failed = desk.raymirror("failover", f"{B}->{A}", "--config", str(self._back), codes=(0, 4))
        write(scene.address(A), cell.places, cell.new)
        scene.clusters[B].restart(broker)
        returned = self._fail_back()
        counts = failback_counts(returned)
        seconds = {
            "switchover": operation_steps(switched),
            "failover": failover_steps(failed),
            "failback": operation_steps(returned["operation"]),
        }
        return CellTimes(
            cell=cell,
            seconds=seconds,
            copied=counts.new,
            bytes_to_source=counts.bytes_to_source,
            bytes_of_full_copy=counts.bytes_of_full_copy,
            at_wanted=at_wanted(seconds, counts.new) if counts.new >= _BY_RECORDS * cell.partitions else {},
        )

    def _fail_back(self) -> dict[str, Any]:
        """Fail back; a broker that has just come back with thousands of partitions does not know them all at once."""
        words, give_up_at = (
            ("dr", "failback", f"{B}->{A}", "--config", str(self._back), "--yes"),
            time.monotonic() + _BACK_S,
        )
        while True:
            code, returned = self._desk.raymirror(*words, codes=(0, 2, 4))
            if code != _REFUSED:
                return returned
            if time.monotonic() > give_up_at:
                raise BenchError("raymirror", f"no failback within {_BACK_S:.0f} s of the cluster's return")
            time.sleep(1.0)

    def _copy_one_each(self) -> None:
        """Let a record of each partition go from B to A: a failback needs the epoch that was copied last."""
        places = self._cell.places
        write(self._scene.address(B), places, len(places))
        self._desk.until(lambda status: status["flows"][0]["records"] >= len(places), "one record each is copied")
        time.sleep(STORED_S)

    def _mirror(self, config: Path) -> None:
        """Start a mirror, and wait until every partition is copied to its end."""
        self._desk.start_mirror(config)
        self._desk.until(self._is_copied, f"{config.name}: everything is copied")

    def _is_copied(self, status: Mapping[str, Any]) -> bool:
        flow = status["flows"][0]
        there = flow["lanes"] == self._cell.partitions and flow["unknown_lanes"] == 0
        return bool(there and flow["lag_records"] == 0)


def at_wanted(seconds: Seconds, copied: int, wanted: int = _WANTED) -> dict[str, float]:
    """Return the seconds of the steps that copy, for so many records, as `OPERATION STEP`."""
    return {
        f"{operation} {step}": round(projected_s(seconds[operation][step], copied, wanted), 1)
        for operation, steps in COPYING_STEPS.items()
        for step in steps
        if step in seconds.get(operation, {})
    }


def rows(found: Sequence[CellTimes]) -> list[tuple[str, ...]]:
    """Return a row for each step: operation, step, seconds in each cell (empty if it was not there)."""
    names = dict.fromkeys(
        (operation, step) for one in found for operation in one.seconds for step in one.seconds[operation]
    )
    return [
        (operation, step, *(_cell(one.seconds.get(operation, {}).get(step)) for one in found))
        for operation, step in names
    ]


def _cell(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _print(found: Sequence[CellTimes]) -> None:
    table = Table(title="dr-times: seconds of each step, by partitions x groups")
    for title in ("operation", "step"):
        table.add_column(title)
    for one in found:
        table.add_column(f"{one.cell.partitions}x{one.cell.groups}", justify="right")
    for row in rows(found):
        table.add_row(*row)
    Console(width=160).print(table)
    for one in (one for one in found if one.at_wanted):
        wanted = ", ".join(f"{name} {seconds:,.0f} s" for name, seconds in one.at_wanted.items())
        print(f"{one.cell}: for {_WANTED:,} new records, by arithmetic: {wanted}", flush=True)
