"""What takes long on the data loop of a copier: `python -m bench.micro.loop`.

A copier of many lanes has its own broker, both source and target, and gets records at a steady rate, with offset syncs,
positions and a snapshot every half second as in the actor. The bench times every callback of its loop (asyncio's own,
because uvloop's cannot be timed) by CPU time, so that other processes of the machine do not show: while the lanes get
their owners, and while they copy.
"""

import argparse
import asyncio
import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.figures import machine
from bench.micro.callbacks import Callbacks
from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import now_s
from engine.base.collecting import spare_what_lasts
from engine.flow.ports.options import SyncOptions
from tests.harness.admin import create_topics
from tests.harness.load import numbered, producer
from tests.harness.mirror import Mirror, Run

_TICK_S = 0.02
_SNAPSHOT_S = 0.5
_SYNCS = "mm2-offset-syncs.b.internal"


async def _feed(cluster: EmbeddedCluster, partitions: int, per_s: int) -> None:
    """Write records at a steady rate, in turn to all partitions, until cancelled."""
    number = 0
    async with producer(cluster, linger_ms=0) as client:
        while True:
            for one in numbered(int(per_s * _TICK_S), first=number, size_bytes=100):
                await client.send("busy", one.value, partition=number % partitions)
                number += 1
            await asyncio.sleep(_TICK_S)


async def _snapshots(run: Run) -> None:
    """Take snapshots as the copier actor does, until cancelled."""
    while True:
        assert (await run.copier.progress_in_turns()).lanes
        await asyncio.sleep(_SNAPSHOT_S)


async def _all_copy(run: Run) -> None:
    """Wait until every lane has its owner; a look at all of them is work of the loop, too, so it is rare."""
    while any(one.state != "copying" for one in (await run.copier.progress_in_turns()).lanes):  # noqa: ASYNC110
        await asyncio.sleep(_SNAPSHOT_S)


async def _run(cluster: EmbeddedCluster, partitions: int, per_s: int, seconds: float) -> dict[str, Any]:
    syncs = SyncOptions(topic=_SYNCS, on_source=False, lag_max=100)
    mirror = Mirror(cluster, cluster, "loop", syncs=syncs, positions_partitions=25, flush_s=seconds / 3)
    await mirror.open()
    await create_topics(cluster, {_SYNCS: 1}, configs={"cleanup.policy": "compact"})
    await mirror.topic("busy", partitions)
    spare_what_lasts()  # as a copier's process does
    starting, began_s = Callbacks(), now_s()
    watch = ExitStack()
    watch.enter_context(starting.watched())
    async with mirror.run() as run:
        await _all_copy(run)
        watch.close()
        start = {"start_s": round(now_s() - began_s, 2), **starting.report(), "by_length": starting.by_length()}
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(_feed(cluster, partitions, per_s), name="feed"),
                group.create_task(_snapshots(run)),
            ]
            await asyncio.sleep(5.0)
            callbacks = Callbacks()
            with callbacks.watched():
                await asyncio.sleep(seconds)
            for helper in helpers:
                helper.cancel()
        await run.until_copied()
        records = run.progress().records
    return {"records": records, **callbacks.report(), "by_length": callbacks.by_length(), "start": start}


def main() -> None:
    """Measure and print; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=40)
    parser.add_argument("--per-s", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="rml-") as folder,
        EmbeddedCluster("loop", Path(folder) / "cluster") as cluster,
    ):
        found = asyncio.run(_run(cluster, args.partitions, args.per_s, args.seconds))
    for what, rows in (("while lanes get their owners", found["start"]["by_length"]), ("copying", found["by_length"])):
        print(what)
        for one in rows:
            print("  ".join(f"{value!s:>12}" for field, value in one.items() if field != "name"), one["name"])
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({"bench": "micro.loop", **vars(args), **found, "load": load, "machine": machine()}))


if __name__ == "__main__":
    main()
