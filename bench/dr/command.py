"""`dr`: switchover, failover, failback and drill, each killed at every step, judged by stock clients on both sides."""

import argparse
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.dr.clients import client_processes
from bench.dr.kills import Kill, kill_of, seeds_of
from bench.dr.operations import Operation, cells
from bench.dr.rounds import Round, Row
from bench.dr.world import World
from bench.errors import BenchError
from bench.figures import machine
from bench.recovery.stage import Stage, StageKind
from deploy.local.errors import ClusterError

BROKERS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--cell", nargs="+", metavar="CELL", default=list(cells()), help=f"of {', '.join(cells())}")
    parser.add_argument("--seeds", default="", metavar="LIST", help="as 0-9,40 (default 0-99, quick 0)")
    parser.add_argument("--no-kills", action="store_true", help="kill nothing: the bench itself is tried")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="a line for each seed; seeds in it are not played again"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave configurations, output and notes here")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a seed has a fault or no verdict. Raises BenchError."""
    every = cells()
    if unknown := [cell for cell in args.cell if cell not in every]:
        raise BenchError("bench", f"no cell {unknown[0]!r}; there are {', '.join(every)}")
    try:
        seeds = list(seeds_of(args.seeds or ("0" if args.quick else "0-99")))
    except ValueError:
        raise BenchError("bench", f"--seeds {args.seeds} is no list of numbers such as 0-9,40") from None
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rmb-") as name:
        folder = args.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        book = RowBook(args.rows)
        with Theatre(folder) as theatre:
            for cell in sorted(args.cell, key=lambda name: sharing(every[name])):
                play_cell(theatre, cell, every[cell], seeds, book, kills=not args.no_kills)
    print_table(book.rows)
    return {
        "bench": "dr",
        "cells": summary(book.rows),
        "rows": [msgspec.to_builtins(row) | {"clean": row.is_clean} for row in book.rows],
        "unmeasured": book.unmeasured,
        "failed": bool(book.unmeasured) or not all(row.is_clean for row in book.rows),
        "wall_s": round(time.monotonic() - began),
        "quick": args.quick,
        "machine": machine(),
    }


def sharing(parts: tuple[Operation, str, str]) -> tuple[bool, str]:
    """Order cells so that those which can share a world come one after the other; a start of Ray takes long."""
    operation, policy, _ = parts
    return operation.once, policy


class RowBook:
    """The seeds that were played, also by earlier runs with the same file."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self.rows = [msgspec.json.decode(line, type=Row) for line in lines]
        self.unmeasured: list[dict[str, Any]] = []

    def has(self, cell: str, seed: int) -> bool:
        """Whether a seed was played."""
        return any(row.cell == cell and row.seed == seed for row in self.rows)

    def add(self, row: Row) -> None:
        """Keep a row."""
        self.rows.append(row)
        if self._file is not None:
            with self._file.open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")


class Theatre(contextlib.ExitStack):
    """The clusters and client processes of a run, and the world of the present cell."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._stage: Stage | None = None
        self._worlds = 0
        self._left: list[str] = []
        self.world: World | None = None
        self._clients: contextlib.ExitStack = contextlib.ExitStack()
        self.clients = self._clients.enter_context(client_processes(folder))
        self.callback(self._drop)

    def start_again(self) -> None:
        """End everything: after a seed without a verdict, clients may still write and read."""
        self._drop()
        self._clients = contextlib.ExitStack()
        self.clients = self._clients.enter_context(client_processes(self.folder))

    def _drop(self) -> None:
        self.drop_stage()
        self._clients.close()

    def stage(self) -> Stage:
        """Return clusters of which every broker runs."""
        if self._stage is not None and not self._stage.is_whole():
            self.drop_stage()
        if self._stage is None:
            kind = StageKind(source_brokers=BROKERS, target_brokers=BROKERS, proxied=True)
            self._stage = Stage(kind, self.folder / f"clusters-{time.time_ns()}")
        return self._stage

    def world_of(self, policy: str, *, fresh: bool) -> World:
        """Give the world of the last round if it fits, or make one with names of its own."""
        if self.world is not None and self.world.policy == policy and not fresh:
            return self.world
        self.drop_world()
        stage = self.stage()
        while self._left:
            stage.clean(f"{self._left.pop()}-")
        self._worlds += 1
        tag = f"w{self._worlds}"
        self.world = World(stage, self.folder / tag, tag, policy)
        self.world.make()
        return self.world

    def drop_world(self) -> None:
        """End its mirror; its topics go when the next world is made."""
        if self.world is not None:
            self.world.end_mirror()
            self._left.append(self.world.tag)
        self.world = None

    def drop_stage(self) -> None:
        """End the clusters, and the world on them."""
        self.drop_world()
        if self._stage is not None:
            self._stage.close()
        self._stage = None
        self._left.clear()


def play_cell(
    theatre: Theatre, cell: str, parts: tuple[Operation, str, str], seeds: Iterable[int], book: RowBook, *, kills: bool
) -> None:
    """Play the seeds of a cell; after a fault the next round gets a world of its own, so that it inherits nothing."""
    operation, policy, load = parts
    for seed in seeds:
        if book.has(cell, seed):
            continue
        kill = kill_of(cell, seed, operation.moments, operation.victims) if kills else None
        try:
            world = theatre.world_of(policy, fresh=operation.once)
            row = Round(cell, operation, load, seed, kill, world, theatre.clients).play()
        except (BenchError, ClusterError, OSError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"[:1500]
            print(f"{cell} {seed}: no verdict: {_kill_text(kill)}: {why}", flush=True)
            book.unmeasured.append({"cell": cell, "seed": seed, "kill": _kill_text(kill), "why": why})
            theatre.start_again()
            continue
        book.add(row)
        print(f"{cell} {seed}: {_text(row)}", flush=True)
        if operation.once or not row.is_clean:
            theatre.drop_world()


def _kill_text(kill: Kill | None) -> str:
    return "nothing killed" if kill is None else f"{kill.victim.value} {kill.delay_s:g} s into {kill.moment.name}"


def _text(row: Row) -> str:
    kill = f"{row.victim} {row.delay_s:g} s into {row.moment}" + (f" (not killed: {row.killed})" if row.killed else "")
    repeated = sum(one.repeated for one in row.groups.values())
    faults = [str(one) for one in (row.here, row.there) if not one.is_clean]
    faults += [
        f"{kind}: {one}" for kind, one in row.groups.items() if not one.is_clean(may_repeat=row.may_repeat[kind])
    ]
    said = "; ".join([*(f"FAILED: {one}" for one in [*faults, *row.failures]), *row.notes])
    times = f"{row.operation_s:.0f} of {row.took_s:.0f} s, {len(row.attempts)} commands"
    return f"{kill}; {row.records:,} records, {row.excused} excused, {repeated} read again; {times}; {said or 'clean'}"


def summary(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Sum up each cell: seeds, kills that hit, faults."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        cell = found.setdefault(row.cell, Counter())
        sides = (row.here, row.there)
        cell["seeds"] += 1
        cell["kills"] += not row.killed
        cell["clean"] += row.is_clean
        cell["records"] += row.records
        cell["excused"] += row.excused
        for name in ("lost", "doubled", "reordered", "foreign", "misplaced"):
            cell[name] += sum(getattr(one, name) for one in sides)
        for name in ("skipped", "repeated"):
            cell[name] += sum(getattr(one, name) for one in row.groups.values())
    return {name: dict(cell) for name, cell in found.items()}


def print_table(rows: Iterable[Row]) -> None:
    """Print a line for each cell."""
    table = Table(title="dr: seeds by cell; faults of both sides, and of the groups")
    columns = ("seeds", "kills", "clean", "records", "excused", "lost", "doubled", "reordered", "skipped", "repeated")
    table.add_column("cell")
    for title in columns:
        table.add_column(title, justify="right")
    for name, cell in summary(rows).items():
        table.add_row(name, *(f"{cell.get(column, 0):,}" for column in columns))
    Console(width=None).print(table)
