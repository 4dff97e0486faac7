"""Faults that hit only some lanes: a positions partition without a leader, a broker that only the mirror cannot reach.

Each fault writes into `scene.hit` which lanes it hits; all other lanes are healthy and must make progress.
"""

import time
from collections.abc import Callable

from bench.errors import BenchError
from bench.recovery.breaks import break_runs
from bench.recovery.fronted import FrontedCluster
from bench.recovery.leading import Led, Place, elect, led, reassign
from bench.recovery.scene import Cause, Scene
from deploy.local.cluster import EmbeddedCluster
from engine.core.position.position_keys import PositionKeys
from engine.wire.murmur2 import partition_for_key
from policies.model import TopicPartition

HEALTHY_S = 2.0
"""Seconds that a lane may make no progress although the fault does not hit it."""
LEADERLESS_S = 60.0
UNREACHABLE_S = 30.0
ONE_IN = 4
"""Every fourth lane has its position in a partition without a leader."""
_AFTERMATH_S = 5.0
"""Seconds after a broker comes back that still belong to the fault."""
_ARRANGED_S = 60.0
_SETTLED_S = 5.0
_SOURCE = "source"
POSITIONS = f"mm2-offsets.{_SOURCE}.internal"
_POSITION, _RECORDS = "position", "records"


# --- a positions partition without a leader ---------------------------------------------------------------------------


def leave_positions_without_leader(scene: Scene) -> Cause:
    """Stop the only replica of some positions partitions for a minute; that broker leads nothing else.

    In this minute the source's offsets break once a second in every partition, so that every lane needs its position.
    """
    target, alone = scene.stage.target, scene.stage.target.brokers[2]
    chosen = _chosen(scene)
    scene.kept["led"] = _arrange(scene, alone.node_id, chosen)
    scene.wait_balanced()
    scene.hit = {lane: (_POSITION,) if place in chosen else () for lane, place in _positions(scene).items()}
    scene.stay(_SETTLED_S)
    began = time.monotonic()
    alone.stop()
    scene.until(lambda: _without_leader(target) == chosen, "the positions have no leader", _ARRANGED_S)
    broken = break_runs(scene, LEADERLESS_S)
    target.restart(alone)
    scene.until(lambda: not _without_leader(target), "the positions have a leader again", _ARRANGED_S)
    ended = time.monotonic()
    scene.notes.append(f"{len(chosen)} positions partitions had no leader, the source's offsets broke {broken} times")
    scene.stay(_AFTERMATH_S)
    return Cause(began=began, ended=ended)


def lead_as_before(scene: Scene) -> None:
    """Restore the replicas and leaders that every partition had before the fault."""
    target, before = scene.stage.target, scene.kept.pop("led")
    scene.stage.wait_in_sync(target)
    _move(scene, {place: one.replicas for place, one in before.items()})
    scene.stage.set_config(target, POSITIONS, "min.insync.replicas=2")


def _chosen(scene: Scene) -> set[Place]:
    """Choose the positions partitions of every fourth lane; other lanes may have theirs there too."""
    places = _positions(scene)
    return {place for lane, place in places.items() if lane % ONE_IN == 0}


def _arrange(scene: Scene, alone: int, chosen: set[Place]) -> dict[Place, Led]:
    """Move the chosen partitions to one broker that leads nothing else; return the old state of what was changed."""
    target = scene.stage.target
    scene.stage.set_config(target, POSITIONS, "min.insync.replicas=1")  # one in-sync replica must be enough
    before = {place: one for place, one in led(target).items() if place in chosen or one.replicas[0] == alone}
    _move(
        scene,
        {place: (alone,) if place in chosen else (*one.replicas[1:], one.replicas[0]) for place, one in before.items()},
    )
    return before


def _move(scene: Scene, wanted: dict[Place, tuple[int, ...]]) -> None:
    target = scene.stage.target

    def given() -> bool:
        now = led(target)
        return all(now[place].replicas == ids for place, ids in wanted.items())

    def led_so() -> bool:
        now = led(target)
        return all(now[place] == Led(ids[0], ids) for place, ids in wanted.items())

    reassign(target, wanted, scene.stage.folder)
    scene.until(given, "partitions have their new replicas", _ARRANGED_S)
    scene.stage.wait_in_sync(target)  # a replica that has not read everything cannot be elected
    now = led(target)
    if others := [place for place, ids in wanted.items() if now[place].leader != ids[0]]:
        elect(target, "PREFERRED", others, scene.stage.folder)
    scene.until(led_so, "partitions have their new leaders", _ARRANGED_S)


def _without_leader(cluster: EmbeddedCluster) -> set[Place]:
    return {place for place, one in led(cluster).items() if one.leader < 0}


# --- a broker that only the mirror cannot reach -----------------------------------------------------------------------


def _unreachable(side: str) -> Callable[[Scene], Cause]:
    def act(scene: Scene) -> Cause:
        cluster = scene.stage.source if side == _SOURCE else scene.stage.target
        if not isinstance(cluster, FrontedCluster):
            raise BenchError("stage", "this fault needs proxies")  # a bug of the table
        topic, alone = (scene.topic if side == _SOURCE else scene.target_topic), cluster.brokers[1].node_id
        scene.wait_balanced()
        before = led(cluster, topic)
        began = time.monotonic()
        cluster.fronts.silence(1)
        try:
            scene.stay(UNREACHABLE_S)
        finally:
            after = led(cluster, topic)
            cluster.fronts.mend()
        ended = time.monotonic()
        # A lane with only its position there is healthy: without breaks or moves of sets no lane needs its position.
        scene.hit = {
            lane: (_RECORDS,) if alone in (one.leader, after[topic, lane].leader) else ()
            for (_, lane), one in before.items()
        }
        if moved := sum(one.leader != after[place].leader for place, one in before.items()):
            scene.notes.append(f"{moved} leaders moved on the {cluster.name} during the fault: its brokers noticed it")
        scene.stay(_AFTERMATH_S)
        return Cause(began=began, ended=ended)

    return act


unreachable_target = _unreachable("target")
"""For half a minute nothing passes between the mirror and one target broker; brokers and load notice nothing."""
unreachable_source = _unreachable(_SOURCE)


def _positions(scene: Scene) -> dict[int, Place]:
    """Return the positions partition of each lane."""
    count, keys = len(led(scene.stage.target, POSITIONS)), PositionKeys(_SOURCE)
    return {
        lane: (POSITIONS, partition_for_key(keys.encode(TopicPartition(scene.topic, lane)), count))
        for lane in range(scene.partitions)
    }
