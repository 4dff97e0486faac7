"""The watch of a run: started in parallel with it; its samples give progress and waits of each lane."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.recovery.control import TOPIC
from bench.recovery.gaps import Feed, Wait, growth, longest_silence, longest_wait, silence_across, wait_length
from bench.recovery.helper import Helper
from bench.recovery.opening import FLOWING_S
from bench.recovery.reader import Copy
from bench.recovery.scene import Scene
from bench.recovery.watch import Side, WatchSpec, read_seen

Feeds = dict[int, Feed]
"""By partition."""


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The samples of a watch: the progress of every partition, when each broker answered, by its address, and when
    each partition of the control grew.
    """

    feeds: Feeds
    answers: dict[str, list[float]] = {}
    control: list[list[float]] = []


class LaneWait(msgspec.Struct, frozen=True, kw_only=True):
    """How long one lane had something to copy and made no progress, and which of its partitions the fault hit.

    `begin_s` is when this wait began, in seconds after the fault.
    """

    partition: int
    hit: tuple[str, ...]
    wait_s: float
    begin_s: float


def watched(scene: Scene, partitions: int, folder: Path, *, controlled: bool = False) -> Helper:
    """Watch the ends of both topics, and of the control; `partitions` may be more than exist yet."""
    spec = WatchSpec(
        source=Side(bootstrap=scene.stage.source.bootstrap_servers, topic=scene.topic),
        target=Side(bootstrap=scene.stage.target.bootstrap_servers, topic=scene.target_topic),
        partitions=partitions,
        control=Side(bootstrap=scene.stage.target.bootstrap_servers, topic=TOPIC) if controlled else None,
        file=str(folder / "seen.msgpack"),
    )
    helper = Helper("bench.recovery.watch", spec, folder / "watch.log")
    helper.hear(FLOWING_S)
    return helper


def end_watch(watch: Helper, source: Copy, target: Copy) -> Watched:
    """End a watch; return its samples of every partition that was read."""
    watch.end_input()
    seen = read_seen(Path(watch.hear(FLOWING_S)["file"]))
    feeds = {
        partition: Feed(
            source=growth(samples, source.offsets[partition].tolist()),
            target=growth(seen.target[partition], target.offsets[partition].tolist()),
        )
        for partition, samples in seen.source.items()
        if partition in source.offsets
    }
    control = [[at for at, _ in growth(samples)] for samples in seen.control.values() if samples]
    return Watched(feeds=feeds, answers=seen.answers, control=control)


class Healthy(msgspec.Struct, frozen=True, kw_only=True):
    """The lanes that a fault did not hit: how many, and the longest time without progress of one of them.

    `waits` has the hit lanes too. `broker_s` is how long, during that wait, even the quickest broker gave the watch no
    answer: the part of the machine. `control_s` is how long at that time records of a plain producer to the same
    brokers made no progress in some partition; -1 without such a producer. Seconds.
    """

    lanes: int
    most_s: float
    broker_s: float
    control_s: float
    waits: list[LaneWait]

    def __str__(self) -> str:
        """Return a line with the lane that waited longest."""
        if not self.lanes:
            return "NO HEALTHY LANE"
        longest = max((one for one in self.waits if not one.hit), key=lambda one: one.wait_s)
        count = f"{self.lanes} of {len(self.waits)} lanes healthy"
        control = f"; a plain producer's records waited {self.control_s:.2f} s" if self.control_s >= 0 else ""
        return (
            f"{count}, of these partition {longest.partition} waited longest, {longest.wait_s:.2f} s, from"
            f" {longest.begin_s:.1f} s after the fault; brokers took {self.broker_s:.2f} s for an answer then"
            f"{control}"
        )


def judge_healthy(
    seen: Watched, hit: Mapping[int, tuple[str, ...]] | None, since: float, until: float
) -> Healthy | None:
    """Measure every lane between two instants; None for a fault that does not say which lanes it hits."""
    if hit is None:
        return None
    waits = {lane: longest_wait([seen.feeds[lane]], since, until) for lane in sorted(hit)}
    longest = max((waits[lane] for lane, how in hit.items() if not how), default=Wait(), key=wait_length)
    silences = [
        longest_silence(instants, longest.begin, longest.begin + longest.length) for instants in seen.answers.values()
    ]
    stood = [silence_across(one, longest.begin, longest.begin + longest.length) for one in seen.control]
    return Healthy(
        lanes=sum(not how for how in hit.values()),
        most_s=round(longest.length, 3),
        broker_s=round(min(silences, default=0.0), 3),
        control_s=round(max(stood, default=-1.0), 3),
        waits=[
            LaneWait(partition=lane, hit=hit[lane], wait_s=round(wait.length, 3), begin_s=round(wait.begin - since, 3))
            for lane, wait in waits.items()
        ],
    )
