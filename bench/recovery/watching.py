"""The watch of a run: started beside it, and what it saw turned into progress and standstills of each lane."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.recovery.gaps import Feed, growth, longest_wait
from bench.recovery.helper import Helper
from bench.recovery.opening import FLOWING_S
from bench.recovery.reader import Copy
from bench.recovery.scene import Scene
from bench.recovery.watch import Side, WatchSpec, read_seen

Feeds = dict[int, Feed]
"""By partition."""


class LaneWait(msgspec.Struct, frozen=True, kw_only=True):
    """How long one lane had something to copy and made no progress, and which of its partitions the fault hit."""

    partition: int
    hit: tuple[str, ...]
    wait_s: float


def watched(scene: Scene, partitions: int, folder: Path) -> Helper:
    """Watch the ends of both topics; `partitions` may be more than there are yet."""
    spec = WatchSpec(
        source=Side(bootstrap=scene.stage.source.bootstrap_servers, topic=scene.topic),
        target=Side(bootstrap=scene.stage.target.bootstrap_servers, topic=scene.target_topic),
        partitions=partitions,
        file=str(folder / "seen.msgpack"),
    )
    helper = Helper("bench.recovery.watch", spec, folder / "watch.log")
    helper.hear(FLOWING_S)
    return helper


def end_watch(watch: Helper, source: Copy, target: Copy) -> Feeds:
    """End a watch; give the progress of every partition that was read."""
    watch.end_input()
    seen = read_seen(Path(watch.hear(FLOWING_S)["file"]))
    return {
        partition: Feed(
            source=growth(samples, source.offsets[partition].tolist()),
            target=growth(seen.target[partition], target.offsets[partition].tolist()),
        )
        for partition, samples in seen.source.items()
        if partition in source.offsets
    }


class Healthy(msgspec.Struct, frozen=True, kw_only=True):
    """How the lanes fared that a fault did not hit: how many, and the longest time that one of them stood still.

    `waits` has those that were hit too. Seconds.
    """

    lanes: int
    most_s: float
    waits: list[LaneWait]

    def __str__(self) -> str:
        """Say it with the lane that stood longest."""
        if not self.lanes:
            return "NO HEALTHY LANE"
        longest = max((one for one in self.waits if not one.hit), key=lambda one: one.wait_s)
        count = f"{self.lanes} of {len(self.waits)} lanes healthy"
        return f"{count}, of these partition {longest.partition} stood longest, {self.most_s:.2f} s"


def judge_healthy(
    feeds: Feeds, hit: Mapping[int, tuple[str, ...]] | None, since: float, until: float
) -> Healthy | None:
    """Measure every lane between two instants; None of a fault that does not say whom it hits."""
    if hit is None:
        return None
    waits = [
        LaneWait(partition=lane, hit=how, wait_s=round(longest_wait([feeds[lane]], since, until), 3))
        for lane, how in sorted(hit.items())
    ]
    healthy = [one.wait_s for one in waits if not one.hit]
    return Healthy(lanes=len(healthy), most_s=max(healthy, default=0.0), waits=waits)
