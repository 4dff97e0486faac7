"""Starts everything: a topic, the mirror, the load; waits until records flow to every partition of the copy."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from bench.recovery.ends import ClusterEnds
from bench.recovery.far.backlog import fill
from bench.recovery.far.settings import MESSAGE_BYTES, Far
from bench.recovery.group_judging import checkpoints_end, group_properties, movers_spec
from bench.recovery.helper import Helper
from bench.recovery.load import LoadSpec
from bench.recovery.mirror import MirrorRun, write_config
from bench.recovery.scene import Scene
from bench.recovery.stage import Stage
from tests.harness.ray_cluster import RayCluster

FLOWING_S = 300.0
ABREAST_S = 180.0
"""Seconds: a machine that starts six brokers and a Ray cluster has little CPU for the first copying."""
_ABREAST_LOAD_S, _ABREAST_POLL_S = 1.0, 0.2
"""Seconds of load that a partition may be behind, and seconds between two checks."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run: records per second, consumer groups that move on the source, seconds of calm before the
    fault, and after its cause is over.
    """

    partitions: int = 40
    per_s: int = 5000
    groups: int = 0
    before_s: float = 8.0
    after_s: float = 12.0
    far: Far | None = None
    """The distance of the mirror, and the backlog that it copies."""


@contextlib.contextmanager
def opened(
    stage: Stage,
    size: Size,
    folder: Path,
    topic: str,
    *,
    ray: Callable[[Path], AbstractContextManager[RayCluster]] | None,
    properties: Mapping[str, str],
    more_topics: tuple[str, ...] = (),
    prepare: Callable[[Scene], None],
) -> Iterator[Scene]:
    """Start mirror, load and groups; end all. The load runs, the copy may not have begun. Raises BenchError."""
    first = begin_topic(stage, size, topic)
    config = folder / "mm2.properties"
    addresses = stage.mirror_address(stage.source), stage.mirror_address(stage.target)
    given = {**(group_properties(topic) if size.groups else {}), **properties}
    write_config(config, *addresses, ",".join([topic, *(topic + ending for ending in more_topics)]), given)
    spec = LoadSpec(
        bootstrap=stage.source.bootstrap_servers,
        topic=topic,
        partitions=size.partitions,
        per_s=size.per_s,
        first=first,
    )
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(ray(folder / "ray")) if ray is not None else None
        mirror = MirrorRun(config, folder, env=cluster.env if cluster is not None else None)
        notes: list[str] = []
        stack.callback(lambda: None if mirror.end() else notes.append("`run` did not end in order"))
        load = stack.enter_context(Helper("bench.recovery.load", spec, folder / "load.log"))
        scene = Scene(stage, mirror, load, topic, size.partitions, cluster)
        scene.notes = notes
        prepare(scene)
        if size.groups:
            scene.checkpoints_from = checkpoints_end(stage.target)
            movers = movers_spec(scene, size.groups)
            scene.movers = stack.enter_context(Helper("bench.recovery.movers", movers, folder / "movers.log"))
        load.hear(FLOWING_S)
        if scene.movers is not None:
            scene.movers.hear(FLOWING_S)
        yield scene


def begin_topic(stage: Stage, size: Size, topic: str) -> int:
    """Create the topic of a run, with its backlog; return how many records each partition has. Raises BenchError."""
    if size.far is None:
        stage.create(topic, size.partitions)
        return 0
    stage.create(topic, size.partitions, {"max.message.bytes": str(MESSAGE_BYTES)})
    return fill(stage.source, topic, size.partitions, size.far.backlog)


def wait_flowing(scene: Scene) -> float:
    """Wait until every partition has records at the target (a takeover's marker is one offset); return the time."""
    with contextlib.closing(ClusterEnds(scene.stage.target.bootstrap_servers)) as ends:
        scene.until(
            lambda: min(ends.read(scene.target_topic, scene.partitions)) > 2, "records flow everywhere", FLOWING_S
        )
    return time.monotonic()


def wait_abreast(scene: Scene, size: Size) -> float:
    """Wait until every partition's copy is less than a second of load behind; return when that was.

    A mirror that still catches up serves its partitions in turns, which would look like an effect of the fault. If it
    has not caught up after three minutes, a note says so.
    """
    most = max(size.per_s / size.partitions * _ABREAST_LOAD_S, 2.0)
    give_up_at = time.monotonic() + ABREAST_S
    with (
        contextlib.closing(ClusterEnds(scene.stage.source.bootstrap_servers)) as source,
        contextlib.closing(ClusterEnds(scene.stage.target.bootstrap_servers)) as target,
    ):
        while True:
            ends = source.read(scene.topic, size.partitions)
            copied = target.read(scene.target_topic, size.partitions)
            behind = max(end - there for end, there in zip(ends, copied, strict=True))
            if behind <= most:
                return time.monotonic()
            if time.monotonic() > give_up_at:
                scene.notes.append(f"a partition was {behind:,} records behind at the start of the run")
                return time.monotonic()
            scene.stay(_ABREAST_POLL_S)
