"""Cost of the search for offset map blocks deleted by retention: `python -m bench.micro.blocks`.

A copier of two lanes has its own broker. One partition of the map topic holds its blocks and 30,000 full blocks of
other lanes, one a batch, zstd, as 40 lanes would leave them. Half of the copy is deleted, then the hourly search of a
copier runs. The bench prints the longest callback of the copier's loop during the search, by the clock and by its own
CPU time, the longest garbage collection, and the highest resident memory above the value before; and the callbacks of
a calm second, in which other processes of the machine show too.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import machine
from bench.micro.callbacks import Callbacks
from deploy.local.cluster import EmbeddedCluster
from engine.base.collecting import spare_what_lasts
from engine.core.offset_map import map_runs
from engine.core.offset_map.map_blocks import block_key, encode_block
from engine.core.offset_map.map_runs import MapBlock, MapRun
from policies.model import TopicPartition
from tests.harness.admin import delete_records
from tests.harness.load import numbered, producer
from tests.harness.mirror import Mirror

_RUNS, _OWN_RUNS_A_BLOCK = 128, 4
_LANES, _TRANSACTIONS, _CALM_S = 40, 120, 1.0


def _memory(field: str) -> float:
    """Return a field of this process's memory in MiB: VmRSS now, VmHWM at its highest."""
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(f"{field}:")]
    return int(line.split()[1]) / 1024


def _reset_peak() -> None:
    """Reset VmHWM to the memory that is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


async def _foreign(cluster: EmbeddedCluster, topic: str, partition: int, blocks: int, source: str) -> None:
    """Append full blocks of other lanes, each as a batch of its own."""
    chance = random.Random(3)
    async with producer(cluster, compression_type="zstd", max_batch_size=1 << 20) as client:
        sent = []
        for number in range(blocks):
            offset, runs = number // _LANES * 2000, []
            for _ in range(_RUNS):
                count = chance.randrange(1, 9)
                runs.append(MapRun(offset, offset + 1, count))
                offset += count + chance.randrange(1, 3)
            lane = TopicPartition("other", number % _LANES)
            batch = client.create_batch()
            key = block_key(source, lane, number // _LANES)
            batch.append(key=key, value=encode_block(MapBlock(number // _LANES, 1, tuple(runs))), timestamp=None)
            sent.append(await client.send_batch(batch, topic, partition=partition))
            if len(sent) >= 500:
                await asyncio.gather(*sent)
                sent.clear()
        await asyncio.gather(*sent)


async def _run(cluster: EmbeddedCluster, blocks: int) -> dict[str, Any]:
    map_runs.RUNS_PER_BLOCK = _OWN_RUNS_A_BLOCK
    mirror = Mirror(cluster, cluster, "blocks", positions_partitions=1)
    await mirror.open()
    copied = await mirror.topic("busy", 2)
    for partition in range(2):
        async with producer(cluster, transactional_id=f"busy-{partition}") as client:
            for number in range(_TRANSACTIONS):
                async with client.transaction():
                    for one in numbered(2, first=2 * number):
                        await client.send("busy", one.value, key=one.key, partition=partition)
    await _foreign(cluster, mirror.map_topic, 0, blocks, mirror.flow.source)
    spare_what_lasts()  # as a copier's process does
    async with mirror.run() as run:
        await run.until_copied()
        drivers = list(run.copier.drivers.values())
        await run.until(lambda: not any(one.blocks.due or one.blocks.writing for one in drivers), "blocks are durable")
        heads = [one.lane.map.blocks for one in drivers if one.lane.map is not None]
        half = {one.name.target.partition: one.lane.target_next // 2 for one in drivers}
        await delete_records(cluster, copied, half)
        calm = Callbacks()
        with calm.watched():
            await asyncio.sleep(_CALM_S)
        before = _memory("VmRSS")
        _reset_peak()
        look, began_s, began_cpu_s = Callbacks(), time.monotonic(), time.process_time()
        with look.watched():
            await run.copier._map_retention.clean()
        took_s, took_cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
        peak = _memory("VmHWM")
        removed = [one.lane.map.start.first and one.lane.map.start.target > 0 for one in drivers if one.lane.map]
        assert all(removed), "the maps of all lanes begin later"
    return {
        "foreign_blocks": blocks,
        "own_blocks": heads,
        "look_s": round(took_s, 2),
        "look_cpu_s": round(took_cpu_s, 2),
        "look": look.report(),
        "calm": calm.report(),
        "memory_before_mib": round(before, 1),
        "memory_peak_above_mib": round(peak - before, 1),
    }


def main() -> None:
    """Measure and print; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=30_000)
    blocks = parser.parse_args().blocks
    with (
        tempfile.TemporaryDirectory(prefix="rmb-") as folder,
        EmbeddedCluster("blocks", Path(folder) / "cluster") as cluster,
    ):
        found = asyncio.run(_run(cluster, blocks))
    print(json.dumps({"bench": "micro.blocks", **found, "load": round(os.getloadavg()[0], 1), "machine": machine()}))


if __name__ == "__main__":
    main()
