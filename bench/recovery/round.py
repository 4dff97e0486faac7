"""One run of one fault: everything up, records flowing, the fault, the end of the load, the drain, the judgement."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.recovery.compare import Difference, compare_all
from bench.recovery.ends import ClusterEnds
from bench.recovery.fault import Fault
from bench.recovery.gaps import Feed, growth, longest_pause, longest_wait, usual_pause
from bench.recovery.helper import Helper
from bench.recovery.load import LoadSpec
from bench.recovery.mirror import MirrorRun, write_config
from bench.recovery.reader import Copy, ReadSpec, read_copy
from bench.recovery.scene import Cause, Scene
from bench.recovery.stage import Stage
from bench.recovery.watch import Seen, Side, WatchSpec, read_seen

_FLOWING_S = 120.0
_DRAIN_S = 90.0
_SETTLE_S = 2.0
_LOAD_END_S = 200.0
_READ_S = 600.0
_POLL_S = 0.2


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much work a run is. Seconds of calm before the fault, and after its cause is over."""

    partitions: int = 40
    per_s: int = 5000
    before_s: float = 8.0
    after_s: float = 12.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as in the JSON. Seconds and records.

    `pause_s`: longest time without progress of any partition, around the fault. `usual_s`: the same in the calm before.
    `after_s`: longest wait of a partition that had something to copy, counted from the end of the cause, which was
    there for `cause_s`. `machine_load`: processes that ran or wanted to over the last minute, the bench's own included;
    above the number of cores, all times are longer. `failures` says in words what was wrong beside missing, doubled and
    misplaced records.
    """

    fault: str
    run: int
    pause_s: float
    lost: int
    duplicated: int
    reordered: int
    usual_s: float
    after_s: float
    cause_s: float
    bound: str
    bound_s: float
    met: bool
    records: int
    foreign: int
    machine_load: float
    notes: list[str]
    failures: list[str]

    @property
    def is_whole(self) -> bool:
        """Whether the copy is exact and nothing else was wrong; a bound that was not met is not counted here."""
        return not (self.lost or self.duplicated or self.reordered or self.failures)


def play(fault: Fault, run: int, stage: Stage, size: Size, folder: Path) -> Row:
    """Run one fault once. Raises BenchError when there is nothing to judge."""
    folder.mkdir(parents=True)
    with _scene(fault, run, stage, size, folder) as scene, _watched(fault, scene, folder) as watch:
        calm_from = _wait_flowing(scene)
        scene.stay(size.before_s)
        machine_load = os.getloadavg()[0]
        cause = fault.act(scene)
        scene.stay(size.after_s)
        sent = _end_load(scene)
        _wait_drained(fault, scene)
        source, target, difference = _judge(fault, scene, folder)
        until = time.monotonic()
        fault.check(scene)
        watch.end_input()
        seen = read_seen(Path(watch.hear(_FLOWING_S)["file"]))
    if difference.records != sent:
        scene.notes.append(f"the source has {difference.records} of {sent} acknowledged records")
    feeds = _feeds(seen, source, target)
    return _row(fault, run, scene, cause, difference, feeds, (calm_from, until), machine_load)


@contextlib.contextmanager
def _scene(fault: Fault, run: int, stage: Stage, size: Size, folder: Path) -> Iterator[Scene]:
    topic = f"{fault.id.replace('_', '-')}-{run}-{time.time_ns() // 10**9 % 10**6}"
    stage.create(topic, size.partitions)
    config = folder / "mm2.properties"
    topics = ",".join([topic, *(topic + ending for ending in fault.more_topics)])
    write_config(
        config, stage.mirror_address(stage.source), stage.mirror_address(stage.target), topics, fault.properties
    )
    spec = LoadSpec(bootstrap=stage.source.bootstrap_servers, topic=topic, partitions=size.partitions, per_s=size.per_s)
    with contextlib.ExitStack() as stack:
        ray = stack.enter_context(fault.ray(folder / "ray")) if fault.ray is not None else None
        mirror = MirrorRun(config, folder, env=ray.env if ray is not None else None)
        notes: list[str] = []
        stack.callback(lambda: None if mirror.end() else notes.append("`run` did not end in order"))
        load = stack.enter_context(Helper("bench.recovery.load", spec, folder / "load.log"))
        scene = Scene(stage, mirror, load, topic, size.partitions, ray)
        scene.notes = notes
        fault.prepare(scene)
        load.hear(_FLOWING_S)
        yield scene


def _watched(fault: Fault, scene: Scene, folder: Path) -> Helper:
    spec = WatchSpec(
        source=Side(bootstrap=scene.stage.source.bootstrap_servers, topic=scene.topic),
        target=Side(bootstrap=scene.stage.target.bootstrap_servers, topic=scene.target_topic),
        partitions=scene.partitions + fault.more_partitions,
        file=str(folder / "seen.msgpack"),
    )
    helper = Helper("bench.recovery.watch", spec, folder / "watch.log")
    helper.hear(_FLOWING_S)
    return helper


def _wait_flowing(scene: Scene) -> float:
    """Wait until every partition has records at the target (a takeover's marker is one offset); say when it was so."""
    with contextlib.closing(ClusterEnds(scene.stage.target.bootstrap_servers)) as ends:
        scene.until(
            lambda: min(ends.read(scene.target_topic, scene.partitions)) > 2, "records flow everywhere", _FLOWING_S
        )
    return time.monotonic()


def _end_load(scene: Scene) -> int:
    """End the load; give the number of records that the source acknowledged."""
    scene.load.say("end")
    return sum(scene.load.hear(_LOAD_END_S)["sent"].values())


def _wait_drained(fault: Fault, scene: Scene) -> None:
    """Wait until the target ends nowhere before the source, and no end moves; at most a minute and a half."""
    partitions = scene.partitions + fault.more_partitions
    source, target = (ClusterEnds(cluster.bootstrap_servers) for cluster in (scene.stage.source, scene.stage.target))
    with contextlib.closing(source), contextlib.closing(target):
        give_up_at = time.monotonic() + _DRAIN_S
        last, still_since = [0], time.monotonic()
        while (now := time.monotonic()) < give_up_at:
            wanted, ends = source.read(scene.topic, partitions), target.read(scene.target_topic, partitions)
            if ends != last:
                last, still_since = ends, now
            there = all(end >= want for end, want in zip(ends, wanted, strict=True))
            if there and now - still_since > _SETTLE_S:
                return
            time.sleep(_POLL_S)
    scene.notes.append(f"not drained within {_DRAIN_S:.0f} s")


def _judge(fault: Fault, scene: Scene, folder: Path) -> tuple[Copy, Copy, Difference]:
    """Read both sides and compare; where records miss, again a little later: until read, markers look like records."""
    source = _read(fault, scene, folder, "source")
    target = _read(fault, scene, folder, "target")
    difference = compare_all(source.numbers, target.numbers)
    if difference.lost:
        time.sleep(_SETTLE_S * 10)
        target = _read(fault, scene, folder, "target")
        difference = compare_all(source.numbers, target.numbers)
    return source, target, difference


def _read(fault: Fault, scene: Scene, folder: Path, name: str) -> Copy:
    cluster, topic = (scene.stage.source, scene.topic) if name == "source" else (scene.stage.target, scene.target_topic)
    spec = ReadSpec(
        bootstrap=cluster.bootstrap_servers,
        topic=topic,
        partitions=scene.partitions + fault.more_partitions,
        file=str(folder / f"{name}.npz"),
    )
    with Helper("bench.recovery.reader", spec, folder / f"reader-{name}.log") as reader:
        reader.hear(_READ_S)
    return read_copy(Path(spec.file))


def _feeds(seen: Seen, source: Copy, target: Copy) -> list[Feed]:
    return [
        Feed(
            source=growth(samples, source.offsets[partition].tolist()),
            target=growth(seen.target[partition], target.offsets[partition].tolist()),
        )
        for partition, samples in seen.source.items()
    ]


def _row(
    fault: Fault,
    run: int,
    scene: Scene,
    cause: Cause,
    difference: Difference,
    feeds: list[Feed],
    span: tuple[float, float],
    machine_load: float,
) -> Row:
    calm_from, until = span
    pause_s = longest_pause(feeds, cause.began, until)
    usual_s = usual_pause(feeds, calm_from, cause.began)
    after_s = longest_wait(feeds, cause.ended, until)
    return Row(
        fault=fault.id,
        run=run,
        pause_s=round(pause_s, 3),
        lost=difference.lost,
        duplicated=difference.duplicated,
        reordered=difference.reordered,
        usual_s=round(usual_s, 3),
        after_s=round(after_s, 3),
        cause_s=round(cause.ended - cause.began, 3),
        bound=fault.bound.value,
        bound_s=fault.bound_s,
        met=fault.is_met(pause_s, after_s, usual_s),
        records=difference.records,
        foreign=difference.foreign,
        machine_load=round(machine_load, 1),
        notes=scene.notes,
        failures=scene.failures,
    )
