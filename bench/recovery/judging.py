"""The end of a run: the load ends, the mirror drains its lag, a stock consumer reads both sides."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.recovery.compare import Difference, compare_all
from bench.recovery.ends import ClusterEnds
from bench.recovery.helper import Helper
from bench.recovery.reader import Copy, ReadSpec, read_copy
from bench.recovery.scene import Scene

_LOAD_END_S = 200.0
DRAIN_S = 90.0
FAR_DRAIN_S = 600.0
"""Of a backlog over a distance."""
_SETTLE_S = 2.0
_AGAIN_S = 20.0
_READ_S = 1200.0
_POLL_S = 0.2


def end_load(scene: Scene) -> int:
    """End the load; return the number of records that the source acknowledged."""
    scene.load.say("end")
    return sum(scene.load.hear(_LOAD_END_S)["sent"].values())


def wait_drained(scene: Scene, partitions: int, drain_s: float = DRAIN_S) -> None:
    """Wait until no target partition ends before its source, and no end moves; at most `drain_s` seconds."""
    source, target = (ClusterEnds(cluster.bootstrap_servers) for cluster in (scene.stage.source, scene.stage.target))
    with contextlib.closing(source), contextlib.closing(target):
        give_up_at = time.monotonic() + drain_s
        last, still_since = [0], time.monotonic()
        while (now := time.monotonic()) < give_up_at:
            wanted, ends = source.read(scene.topic, partitions), target.read(scene.target_topic, partitions)
            if ends != last:
                last, still_since = ends, now
            there = all(end >= want - scene.blanks for end, want in zip(ends, wanted, strict=True))
            if there and now - still_since > _SETTLE_S:
                return
            time.sleep(_POLL_S)
    scene.notes.append(f"not drained within {drain_s:.0f} s")


def judge(scene: Scene, partitions: int, folder: Path) -> tuple[Copy, Copy, Difference]:
    """Read both sides and compare; again a little later if records miss: until read, markers look like records."""
    with ThreadPoolExecutor() as both:  # a process for each side
        source, target = both.map(partial(_read, scene, partitions, folder), ("source", "target"))
    difference = compare_all(source.numbers, target.numbers)
    if difference.lost:
        time.sleep(_AGAIN_S)
        target = _read(scene, partitions, folder, "target")
        difference = compare_all(source.numbers, target.numbers)
    return source, target, difference


def _read(scene: Scene, partitions: int, folder: Path, name: str) -> Copy:
    cluster, topic = (scene.stage.source, scene.topic) if name == "source" else (scene.stage.target, scene.target_topic)
    file = folder / f"{name}.npz"
    spec = ReadSpec(bootstrap=cluster.bootstrap_servers, topic=topic, partitions=partitions, file=str(file))
    with Helper("bench.recovery.reader", spec, folder / f"reader-{name}.log") as reader:
        reader.hear(_READ_S)
    return read_copy(file)
