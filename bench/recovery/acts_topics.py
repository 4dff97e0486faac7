"""Faults of topics: partitions added, leaders moved, a topic deleted, an election that loses records."""

import asyncio
import signal
import time
from typing import Any

from bench.admin import create_topic, topic_names
from bench.errors import BenchError
from bench.recovery.acts_brokers import with_signal
from bench.recovery.ends import ClusterEnds
from bench.recovery.leading import assign, elect, led
from bench.recovery.scene import Cause, Scene
from bench.recovery.stage import describe
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST
from engine.base.clock import wall_ms

ADDED = 4
DOOMED = "-doomed"
DOOMED_PARTITIONS = 2
DOOMED_RECORDS = 1000
LAG_S = 4.0
_RECREATED_S = 15.0


def add_partitions(scene: Scene) -> Cause:
    """Add four partitions to the source topic; the load writes to them as soon as they exist."""
    began = time.monotonic()
    scene.stage.grow(scene.topic, scene.partitions + ADDED)
    scene.load.say(f"partitions {scene.partitions + ADDED}")
    return Cause(began=began, ended=time.monotonic())


def count_added(scene: Scene) -> None:
    """Count the new partitions from now on."""
    scene.partitions += ADDED


def move_leaders(scene: Scene) -> Cause:
    """Make another replica the leader of every partition of the topic, on the source and on the target."""
    began = time.monotonic()
    for cluster, topic in ((scene.stage.source, scene.topic), (scene.stage.target, scene.target_topic)):
        before = led(cluster, topic)
        assign(cluster, {at: (*one.replicas[1:], one.replicas[0]) for at, one in before.items()}, scene.stage.folder)
        moved = sum(before[at].leader != one.leader for at, one in led(cluster, topic).items())
        scene.notes.append(f"{moved} of {len(before)} leaders moved on the {cluster.name}")
    return Cause(began=began, ended=time.monotonic())


# --- a deleted topic -----------------------------------------------------------------------------------------------


def prepare_doomed(scene: Scene) -> None:
    """Create a second topic of the flow and write records to it."""
    topic = scene.topic + DOOMED
    asyncio.run(create_topic(scene.stage.source.bootstrap_servers, topic, DOOMED_PARTITIONS))
    scene.stage.source.tool(
        *("org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--num-records", str(DOOMED_RECORDS)),
        *("--record-size", "100", "--throughput", "-1"),
        *("--bootstrap-server", scene.stage.source.bootstrap_servers),
    )


def delete_topic(scene: Scene) -> Cause:
    """Delete a topic of the source that was copied completely; the load's own topic continues."""
    topic, copy = scene.topic + DOOMED, scene.target_topic + DOOMED
    target = scene.stage.target.bootstrap_servers
    scene.until(
        lambda: sum(_ends(target, copy, DOOMED_PARTITIONS)) >= DOOMED_RECORDS, "the second topic is copied", 90.0
    )
    scene.kept["ends"] = _ends(target, copy, DOOMED_PARTITIONS)
    began = time.monotonic()
    scene.kept["deleted_ms"] = wall_ms()
    scene.stage.delete(topic)
    ended = time.monotonic()
    scene.stay(_RECREATED_S)  # time in which the mirror could wrongly create it again
    return Cause(began=began, ended=ended)


def check_deleted(scene: Scene) -> None:
    """Fail unless the source has no such topic, the copy is as it was, and an event names the topic."""
    topic, copy = scene.topic + DOOMED, scene.target_topic + DOOMED
    if topic in asyncio.run(topic_names(scene.stage.source.bootstrap_servers)):
        scene.failures.append("the deleted topic exists again on the source")
    now = _ends(scene.stage.target.bootstrap_servers, copy, DOOMED_PARTITIONS)
    if now != scene.kept["ends"]:
        scene.failures.append(f"the copy of the deleted topic ends at {now}, it ended at {scene.kept['ends']}")
    since_ms = scene.kept["deleted_ms"]
    told = [event["text"] for event in scene.mirror.events_since(since_ms) if topic in event["text"]]
    scene.notes += [f"event: {text}" for text in told[:1]]
    if not told:
        scene.failures.append("no event says that the topic was deleted")


# --- an election that loses records --------------------------------------------------------------------------------


def elect_unclean(scene: Scene) -> Cause:
    """Freeze a follower so that it falls behind, kill its leader, elect the follower: records are lost.

    Replication factor 2, one in-sync replica is enough. Broker 3 is frozen; broker 2 takes records alone and is killed;
    broker 3 comes back and is elected uncleanly; then broker 2 comes back and cuts its log.
    """
    target, topic = scene.stage.target, scene.target_topic
    leader, follower = target.brokers[1], target.brokers[2]
    pair = {leader.node_id, follower.node_id}
    scene.stage.set_config(target, topic, "min.insync.replicas=1")
    began = time.monotonic()
    with_signal(follower, signal.SIGSTOP)
    try:
        shared = _until_alone(scene, pair, leader.node_id)
        scene.stay(LAG_S)
        before = _ends(f"{HOST}:{leader.port}", topic, scene.partitions)
        leader.kill()
    finally:
        with_signal(follower, signal.SIGCONT)
    scene.until(lambda: bool(_leaderless(target, topic)), "partitions have no leader", 60.0)
    _elect_until(scene, follower.node_id, shared)
    after = _ends(f"{HOST}:{follower.port}", topic, scene.partitions)
    lost = sum(max(0, before[at] - after[at]) for at in shared)
    scene.notes.append(f"{len(shared)} partitions elected uncleanly, at least {lost} acknowledged records cut off")
    target.restart(leader)
    scene.stage.wait_in_sync(target)
    return Cause(began=began, ended=time.monotonic())


def _ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    ends = ClusterEnds(bootstrap)
    try:
        return ends.read(topic, partitions)
    finally:
        ends.close()


def _partitions(cluster: EmbeddedCluster, topic: str) -> list[dict[str, Any]]:
    (described,) = asyncio.run(describe(cluster, topic))
    return list(described["partitions"])


def _until_alone(scene: Scene, pair: set[int], leader: int) -> list[int]:
    """Wait until only the leader is in sync in every partition of the pair; return these partitions."""
    shared: list[int] = []

    def alone() -> bool:
        found = [one for one in _partitions(scene.stage.target, scene.target_topic) if set(one["replicas"]) == pair]
        shared[:] = [one["partition"] for one in found]
        return all(one["isr"] == [leader] for one in found)

    scene.until(alone, "the frozen broker is out of sync", 60.0)
    if not shared:
        raise BenchError("stage", f"no partition of {scene.target_topic} has the replicas {sorted(pair)}")
    return shared


def _leaderless(cluster: EmbeddedCluster, topic: str) -> list[int]:
    return [at for (_, at), one in led(cluster, topic).items() if one.leader < 0]


def _elect_until(scene: Scene, leader: int, partitions: list[int]) -> None:
    target, topic = scene.stage.target, scene.target_topic
    elect(target, "UNCLEAN", [(topic, at) for at in partitions], scene.stage.folder)
    now = led(target, topic)
    if any(now[topic, at].leader != leader for at in partitions):
        raise BenchError("stage", f"not led by broker {leader} after the election: {now}")
