"""Pause of a partition whose set moves: 8 busy lanes from one copier to another, three-broker target.

`python -m bench.micro.moves [--moves 20] [--per-s 2000]`. Two copiers in one process move sets as the supervisor orders
it: one releases the set, then the other gets it at a higher epoch. Replication factor 3, two in-sync replicas. Pauses
are measured from outside by the high watermarks (every 50 ms), without markers of barriers; both sides are compared at
the end.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.figures import machine
from bench.recovery.compare import compare_all
from bench.recovery.gaps import Feed, growth, longest_pause, usual_pause
from bench.recovery.helper import Helper
from bench.recovery.load import LoadSpec
from bench.recovery.reader import Copy, ReadSpec, read_copy
from bench.recovery.stage import Stage, StageKind
from bench.recovery.watch import Seen, Side, WatchSpec, read_seen
from engine.core.lane.states import State
from engine.flow.replication.copier import FlowCopier
from policies.model import PartitionSet
from tests.harness.mirror import Mirror, Run

PARTITIONS = 8
TOPIC = "moves"
_BETWEEN_S = 1.5
_CALM_S = 5.0
_READY_S, _END_S = 60.0, 300.0


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One move: when it was requested (monotonic), seconds until the release and until all lanes had their owner."""

    asked: float
    released_s: float
    owned_s: float


async def _moves(mirror: Mirror, runs: tuple[Run, Run], count: int) -> list[Move]:
    found = []
    for number in range(count):
        await asyncio.sleep(_BETWEEN_S)
        giver, taker = (runs[(number + turn) % 2].copier for turn in (0, 1))
        mirror.epoch += 1
        group = PartitionSet(set_id=f"{mirror.flow}/000", flow=mirror.flow, epoch=mirror.epoch, lanes=mirror.lanes)
        asked = time.monotonic()
        await giver.release(group.set_id)
        released = time.monotonic()
        taker.assign(group)
        await _until_owned(runs[(number + 1) % 2], taker)
        move = Move(asked=asked, released_s=released - asked, owned_s=time.monotonic() - asked)
        print(move, flush=True)
        found.append(move)
    await asyncio.sleep(_BETWEEN_S)
    return found


async def _until_owned(run: Run, copier: FlowCopier) -> None:
    def owned() -> bool:
        lanes = copier.progress().lanes
        return len(lanes) == PARTITIONS and all(lane.state == State.COPYING.value for lane in lanes)

    await run.until(owned, "every lane has its owner", _READY_S)


async def _until_copied(runs: tuple[Run, Run], sent: int) -> None:
    """Wait until every record of the source is acknowledged, whichever copier copied it."""

    def copied() -> bool:
        places = [lane.source_next for run in runs for lane in run.copier.progress().lanes]
        return sum(places) == sent

    await runs[0].until(copied, f"{sent} records are copied", _END_S)


@contextlib.asynccontextmanager
async def _copiers(mirror: Mirror) -> AsyncIterator[tuple[Run, Run]]:
    """Two copiers, the first with all lanes."""
    async with mirror.run() as first:
        lanes, mirror.lanes = mirror.lanes, ()
        async with mirror.run() as second:
            mirror.lanes = lanes
            await _until_owned(first, first.copier)
            yield first, second


@contextlib.contextmanager
def _helpers(stage: Stage, target_topic: str, folder: Path, per_s: int) -> Iterator[tuple[Helper, Helper]]:
    load = LoadSpec(bootstrap=stage.source.bootstrap_servers, topic=TOPIC, partitions=PARTITIONS, per_s=per_s)
    watch = WatchSpec(
        source=Side(bootstrap=stage.source.bootstrap_servers, topic=TOPIC),
        target=Side(bootstrap=stage.target.bootstrap_servers, topic=target_topic),
        partitions=PARTITIONS,
        file=str(folder / "seen.msgpack"),
    )
    with (
        Helper("bench.recovery.load", load, folder / "load.log") as loading,
        Helper("bench.recovery.watch", watch, folder / "watch.log") as watching,
    ):
        yield loading, watching


async def _run(stage: Stage, folder: Path, moves: int, per_s: int) -> tuple[float, list[Move], float]:
    mirror = Mirror(stage.source, stage.target, "moved", positions_partitions=25)
    await mirror.open()
    target_topic = await mirror.topic(TOPIC, PARTITIONS, on_target={"min.insync.replicas": "2"})
    with _helpers(stage, target_topic, folder, per_s) as (load, watch):
        await asyncio.to_thread(load.hear, _READY_S)
        await asyncio.to_thread(watch.hear, _READY_S)
        async with _copiers(mirror) as runs:
            await asyncio.sleep(_CALM_S)
            calm_from = time.monotonic() - _CALM_S + 1.0
            found = await _moves(mirror, runs, moves)
            until = time.monotonic()
            load.say("end")
            sent = (await asyncio.to_thread(load.hear, _END_S))["sent"]
            await _until_copied(runs, sum(sent.values()))
        watch.end_input()
        await asyncio.to_thread(watch.hear, _END_S)
    return calm_from, found, until


def _read(stage: Stage, topic: str, side: str, folder: Path) -> Copy:
    servers = (stage.source if side == "source" else stage.target).bootstrap_servers
    file = folder / f"{side}.npz"
    spec = ReadSpec(bootstrap=servers, topic=topic, partitions=PARTITIONS, file=str(file))
    with Helper("bench.recovery.reader", spec, folder / f"{side}.log") as reader:
        reader.hear(_END_S)
    return read_copy(file)


def _pauses(seen: Seen, source: Copy, target: Copy, times: list[float]) -> tuple[float, list[float]]:
    """The usual pause in the calm (`times[0]` to `times[1]`), and the longest pause of a lane around each move."""
    feeds = [
        Feed(
            source=growth(seen.source[one], source.offsets[one].tolist()),
            target=growth(seen.target[one], target.offsets[one].tolist()),
        )
        for one in range(PARTITIONS)
    ]
    usual = usual_pause(feeds, times[0], times[1])
    return usual, [longest_pause(feeds, since, until) for since, until in itertools.pairwise(times[1:])]


def main() -> None:
    """Measure and print; the last line is one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--per-s", type=int, default=2000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmm-") as name:
        folder = Path(name)
        with contextlib.closing(Stage(StageKind(), folder / "clusters")) as stage:
            calm_from, moves, until = uvloop.run(_run(stage, folder, args.moves, args.per_s))
            source, target = (
                _read(stage, topic, side, folder) for topic, side in ((TOPIC, "source"), (f"moved.{TOPIC}", "target"))
            )
        seen = read_seen(folder / "seen.msgpack")
    usual, pauses = _pauses(seen, source, target, [calm_from, *(move.asked for move in moves), until])
    difference = compare_all(source.numbers, target.numbers)
    print(json.dumps(_report(moves, usual, pauses, msgspec.structs.asdict(difference))))


def _report(moves: list[Move], usual: float, pauses: list[float], difference: dict[str, Any]) -> dict[str, Any]:
    stages = {
        "released_s": [move.released_s for move in moves],
        "owned_s": [move.owned_s for move in moves],
        "pause_s": pauses,
    }
    return {
        "bench": "moves",
        "moves": len(moves),
        "lanes": PARTITIONS,
        "usual_pause_s": round(usual, 3),
        **{f"{name[:-2]}_median_s": round(statistics.median(values), 3) for name, values in stages.items()},
        **{f"{name[:-2]}_max_s": round(max(values), 3) for name, values in stages.items()},
        **difference,
        "load": round(os.getloadavg()[0], 1),
        "machine": machine(),
    }


if __name__ == "__main__":
    main()
