"""`story`: over by plan and back again, with raymirror's commands and with what MM2's users are told to do."""

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.admin import create_topic
from bench.errors import BenchError
from bench.pair import cluster_pair
from bench.parts import Parts, chosen, report
from bench.story.backlog import write
from bench.story.desk import Desk
from bench.story.judging import Stint, joined, judge_log, judge_reading, read_again
from bench.story.scene import TOPIC, Scene, Size
from bench.story.scripts import Mm2Script, Moved, RaymirrorScript, Script
from bench.story.told import Chapter, Told, moved_since, totals
from bench.story.trip import A, B

SCRIPTS: dict[str, Callable[[Scene, Desk], Script]] = {"raymirror": RaymirrorScript, "mm2": Mm2Script}
_RECORDS, _QUICK_RECORDS = 1_000_000, 50_000
_DWELL_S, _QUICK_DWELL_S = 30.0, 5.0
_SHOWN = {
    "steps": "things done",
    "minutes": "minutes",
    "still_s": "seconds without a producer",
    "again": "records read again",
    "copied_back_mib": "MiB copied to A",
    "missed": "records missed",
    "lost": "records lost",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(SCRIPTS), help="comma-separated (default %(default)s)")
    parser.add_argument("--records", type=int, help=f"records before the move (default {_RECORDS:,})")
    parser.add_argument("--per-s", type=int, default=Size().per_s, help="records a second (default %(default)s)")
    parser.add_argument("--dwell", type=float, help=f"seconds on each side (default {_DWELL_S:g})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a system has no figures. Raises BenchError, ClusterError."""
    systems = chosen("story", "system", args.systems, SCRIPTS)
    records = args.records or (_QUICK_RECORDS if args.quick else _RECORDS)
    dwell_s = args.dwell if args.dwell is not None else (_QUICK_DWELL_S if args.quick else _DWELL_S)
    parts, found, size = Parts(), dict[str, Told](), Size(per_s=args.per_s)
    for system in systems:
        told = parts.measure(system, partial(_tell, system, records, size, dwell_s))
        if told is not None:
            found[system] = told
    _print(found)
    return report(
        "story",
        args,
        parts,
        systems={name: {**totals(told), **msgspec.to_builtins(told)} for name, told in found.items()},
        records=records,
        size=msgspec.to_builtins(size),
        dwell_s=dwell_s,
    )


def _tell(system: str, records: int, size: Size, dwell_s: float) -> Told:
    with cluster_pair() as (source, target, folder):
        asyncio.run(create_topic(source.bootstrap_servers, TOPIC, size.partitions))
        scene, desk = Scene(folder, {A: source, B: target}, size), Desk(folder)
        script = SCRIPTS[system](scene, desk)
        try:
            told = Telling(scene, desk, script, dwell_s).tell(records)
        finally:
            scene.close()
            desk.close()
    if not told.is_whole:
        raise BenchError(system, f"no figures: {told.log}, {told.reading}")
    return told


class Telling:
    """The story of one system on its own clusters."""

    def __init__(self, scene: Scene, desk: Desk, script: Script, dwell_s: float) -> None:
        self._scene, self._desk, self._script, self._dwell_s = scene, desk, script, dwell_s

    def tell(self, records: int) -> Told:
        """Fill, mirror, go over and back; judge. Raises BenchError, ClusterError."""
        scene = self._scene
        self._fill(records)
        scene.start_group(A)
        scene.start_load(A)
        self._script.start()
        self._dwell()
        over = self._chapter("over", self._script.over)
        self._dwell()
        back = self._chapter("back", self._script.back)
        self._dwell()
        scene.end_load()
        scene.let_group_finish()
        self._script.end()
        reading = judge_reading(joined([stay.numbers for stay in scene.stays]), scene.stints)
        return Told(
            chapters=tuple(self._with_again(number, one) for number, one in enumerate((over, back), 1)),
            reading=reading,
            log=judge_log(scene.read_log(A).numbers, scene.stints),
        )

    def _fill(self, records: int) -> None:
        """Write what both clusters have before the move: a stint of its own, in whole rounds over the partitions."""
        partitions = self._scene.size.partitions
        each = records // partitions
        write(self._scene.address(A), [(TOPIC, at) for at in range(partitions)], each * partitions)
        ends = dict.fromkeys(range(partitions), each)
        self._scene.stints.append(Stint(first=0, acknowledged=ends, offered=ends))

    def _dwell(self) -> None:
        """Let the applications run, and wait until the group is near the end."""
        scene, give_up_s = self._scene, time.monotonic() + 600.0
        time.sleep(self._dwell_s)
        while scene.group_lag(scene.serving) > scene.size.per_s:
            if time.monotonic() > give_up_s:
                raise BenchError("group", "it does not come near the end")
            time.sleep(1.0)

    def _chapter(self, name: str, move: Callable[[], Moved]) -> Chapter:
        first, began_s = len(self._desk.typed), time.monotonic()
        moved = move()
        took_s = time.monotonic() - began_s
        return Chapter(
            name=name,
            minutes=round(took_s / 60, 2),
            still_s=round(moved.still_s, 1),
            copied_bytes=moved.copied_bytes,
            again=0,
            done=moved_since(self._desk.typed, first),
        )

    def _with_again(self, number: int, chapter: Chapter) -> Chapter:
        stays = self._scene.stays
        again = read_again(joined([one.numbers for one in stays[:number]]), stays[number].numbers)
        return msgspec.structs.replace(chapter, again=again)


def rows(found: Mapping[str, Told]) -> list[tuple[str, ...]]:
    """Return a row for each figure: its title, and its value of each system."""
    figures = {name: totals(told) for name, told in found.items()}
    return [(title, *(f"{of[name]:,g}" for of in figures.values())) for name, title in _SHOWN.items()]


def _print(found: Mapping[str, Told]) -> None:
    table = Table(title="story: over by plan and back")
    for title in ("", *found):
        table.add_column(title)
    for row in rows(found):
        table.add_row(*row)
    Console(width=120).print(table)
    for system, told in found.items():
        for chapter in told.chapters:
            print(f"{system}, {chapter.name}: {chapter.minutes} minutes, read again {chapter.again}")
            for done in chapter.done:
                print(f"  {done.line}" + (f" (x{done.times})" if done.times > 1 else "") + f": {done.seconds} s")
