"""`trips`: over and back again and again under load, by commands; what both logs and a group have in the end."""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.admin import create_topic
from bench.errors import BenchError
from bench.pair import cluster_pair
from bench.parts import Parts, report
from bench.story.desk import Desk
from bench.story.judging import (
    LogFault,
    ReadFault,
    is_delta,
    joined,
    judge_log,
    judge_reading,
    read_again,
)
from bench.story.scene import TOPIC, Scene, Size, Stay
from bench.story.trip import A, B, Travel, Trip

_TRIPS, _FAILOVERS, _QUICK_TRIPS = 10, 3, 2
_DWELL_S, _QUICK_DWELL_S = 10.0, 3.0


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found at the end. `again`: readings again of each stay; `faults`: what must not be, in sentences."""

    a: LogFault
    b: LogFault
    reading: ReadFault
    again: tuple[int, ...]
    faults: tuple[str, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--trips", type=int, help=f"round trips (default {_TRIPS}, quick {_QUICK_TRIPS})")
    parser.add_argument("--failovers", type=int, help=f"how many of them lose A (default {_FAILOVERS}, quick 1)")
    parser.add_argument("--per-s", type=int, default=Size().per_s, help="records a second (default %(default)s)")
    parser.add_argument("--partitions", type=int, default=Size().partitions, help="default %(default)s")
    parser.add_argument("--dwell", type=float, help=f"seconds on each side (default {_DWELL_S:g})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a trip did not come to its end, or something is not exact.

    Raises BenchError, ClusterError.
    """
    trips = args.trips or (_QUICK_TRIPS if args.quick else _TRIPS)
    failovers = args.failovers if args.failovers is not None else (1 if args.quick else _FAILOVERS)
    if not 0 <= failovers <= trips:
        raise BenchError("trips", f"{failovers} of {trips} trips cannot lose A")
    size = Size(partitions=args.partitions, per_s=args.per_s)
    dwell_s = args.dwell if args.dwell is not None else (_QUICK_DWELL_S if args.quick else _DWELL_S)
    parts, done = Parts(), list[Trip]()
    with cluster_pair() as (source, target, folder):
        asyncio.run(create_topic(source.bootstrap_servers, TOPIC, size.partitions))
        scene, desk = Scene(folder, {A: source, B: target}, size), Desk(folder)
        try:
            travel = Travel(scene, desk, dwell_s)
            travel.start()
            _travel(travel, kinds(trips, failovers), parts, done)
            verdict = parts.measure("verdict", lambda: _finish(scene, desk, done)) if not parts.unmeasured else None
        finally:
            scene.close()
            desk.close()
    _print(done, verdict)
    found = report(
        "trips",
        args,
        parts,
        trips=[msgspec.to_builtins(one) for one in done],
        verdict=msgspec.to_builtins(verdict),
        size=msgspec.to_builtins(size),
        typed=[msgspec.to_builtins(one) for one in desk.typed],
    )
    return {**found, "failed": bool(parts.unmeasured) or verdict is None or bool(verdict.faults)}


def kinds(trips: int, failovers: int) -> list[bool]:
    """Return for each trip whether A is lost in it: spread evenly, the first one never if others are left."""
    return [(at + 1) * failovers // trips > at * failovers // trips for at in range(trips)]


def _travel(travel: Travel, losses: Sequence[bool], parts: Parts, done: list[Trip]) -> None:
    for number, is_lost in enumerate(losses, 1):
        name = f"trip {number} by {'failover' if is_lost else 'switchover'}"
        one = parts.measure(name, travel.by_failover if is_lost else travel.by_switchover)
        if one is None:
            return  # nobody knows which cluster serves now
        done.append(one)
        print(f"{name}: {_text(one)}", flush=True)


def _text(trip: Trip) -> str:
    times = ", ".join(f"{name} {steps['all']:.1f} s" for name, steps in trip.seconds.items())
    away = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in trip.away_s.items())
    text = f"{times}; producers stood still {away}"
    if trip.delta is not None:
        text += (
            f"; only A had {trip.delta.diverged}, {trip.delta.records} went back in {trip.delta.written_bytes:,} bytes"
            f" (difference {trip.delta.difference_bytes:,})"
        )
    return text


def _finish(scene: Scene, desk: Desk, trips: Sequence[Trip]) -> Verdict:
    """End the applications, let the last mirror catch up, and judge everything."""
    scene.end_load()
    scene.let_group_finish()
    desk.until(lambda status: status["flows"][0]["lag_records"] == 0, "all is copied")
    desk.stop("raymirror stop")
    here, there = scene.read_log(A).numbers, scene.read_log(B).numbers
    reading = judge_reading(joined([stay.numbers for stay in scene.stays]), scene.stints)
    return verdict_of(
        judge_log(here, scene.stints), judge_log(there, scene.stints), reading, again_by_stay(scene.stays), trips
    )


def again_by_stay(stays: Sequence[Stay]) -> tuple[int, ...]:
    """Return for each stay how many of its readings an earlier one, or itself, has had."""
    return tuple(read_again(joined([one.numbers for one in stays[:at]]), stay.numbers) for at, stay in enumerate(stays))


def verdict_of(a: LogFault, b: LogFault, reading: ReadFault, again: Sequence[int], trips: Sequence[Trip]) -> Verdict:
    """Judge: both logs whole, A in order of all stints, on B only reported records late, the group exact.

    The group stays on A first, then in every trip on B and on A. It may read records again only on B behind a failover,
    and that must have said so: by not calling the group equal, or because they are records that only A had.
    """
    deltas = [one.delta for one in trips if one.delta is not None]
    reported = sum(one.counts.diverged for one in deltas)
    faults = [f"the log of {name} is not whole" for name, log in (("A", a), ("B", b)) if not log.is_whole]
    faults += [] if reading.is_whole else ["the group missed records, or read them out of order"]
    faults += [f"{a.late} records of A are behind later ones"] if a.late else []
    faults += [f"{b.late} records of B are behind later ones, reported {reported}"] if b.late > reported else []
    for number, trip in enumerate(trips, 1):
        over, back = again[2 * number - 1], again[2 * number]
        told = trip.delta.diverged if trip.delta is not None else 0
        if over > told and (trip.delta is None or trip.group_called_equal):
            faults.append(f"trip {number}: the group read {over} records again on B, reported {told}")
        if back:
            faults.append(f"trip {number}: the group read {back} records again on A")
        if trip.delta is not None and not is_delta(trip.delta.written_bytes, trip.delta.difference_bytes):
            wrote, wanted = trip.delta.written_bytes, trip.delta.difference_bytes
            faults.append(f"trip {number}: {wrote} bytes were written to A, the difference is {wanted}")
        if trip.delta is not None and trip.delta.diverged != trip.delta.counts.diverged:
            counted, found = trip.delta.counts.diverged, trip.delta.diverged
            faults.append(f"trip {number}: the report says that only A had {counted} records, the logs say {found}")
    if again and again[0]:
        faults.append(f"the group read {again[0]} records again before the first trip")
    return Verdict(a=a, b=b, reading=reading, again=tuple(again), faults=tuple(faults))


def _print(trips: Sequence[Trip], verdict: Verdict | None) -> None:
    table = Table(title="trips: seconds")
    for title in ("trip", "by", "command", "all", "steps"):
        table.add_column(title)
    for number, trip in enumerate(trips, 1):
        for name, steps in trip.seconds.items():
            each = ", ".join(f"{step} {seconds:.1f}" for step, seconds in steps.items() if step != "all")
            table.add_row(str(number), trip.kind, name, f"{steps['all']:.1f}", each)
    Console(width=200).print(table)
    if verdict is not None:
        print(f"A: {verdict.a}\nB: {verdict.b}\ngroup: {verdict.reading}, again by stay {verdict.again}")
        for fault in verdict.faults:
            print(f"FAULT: {fault}")
