"""Faults of brokers and of the network in front of them."""

import signal
import time
from collections.abc import Callable

from bench.errors import BenchError
from bench.recovery.fronted import FrontedCluster, Fronts
from bench.recovery.scene import Cause, Scene
from deploy.local.broker import Broker
from deploy.local.cluster import EmbeddedCluster

AWAY_S = 8.0
"""Seconds: the session of a killed broker ends in this time, so that others lead its partitions."""
CUT_S = 10.0
STALL_S = 15.0


def kill_one_target(scene: Scene) -> Cause:
    """SIGKILL one of three target brokers, start it again eight seconds later, wait until all replicas are in sync."""
    return _kill(scene, scene.stage.target, scene.stage.target.brokers[1:2])


def kill_all_target(scene: Scene) -> Cause:
    """SIGKILL all target brokers at once, start them again eight seconds later."""
    return _kill(scene, scene.stage.target, scene.stage.target.brokers)


def kill_source(scene: Scene) -> Cause:
    """SIGKILL the one source broker, start it again eight seconds later."""
    return _kill(scene, scene.stage.source, scene.stage.source.brokers)


def _kill(scene: Scene, cluster: EmbeddedCluster, brokers: list[Broker]) -> Cause:
    began = time.monotonic()
    for broker in brokers:
        broker.kill()
    scene.stay(AWAY_S)
    for broker in brokers:
        broker.launch(cluster.heap_mib)
    for broker in brokers:
        broker.wait_ready(alive=len(cluster.brokers))
    scene.stage.wait_in_sync(cluster)
    return Cause(began=began, ended=time.monotonic())


def freeze_broker(scene: Scene) -> Cause:
    """SIGSTOP one of three target brokers for ten seconds."""
    broker, began = scene.stage.target.brokers[1], time.monotonic()
    with_signal(broker, signal.SIGSTOP)
    try:
        scene.stay(CUT_S)
    finally:
        with_signal(broker, signal.SIGCONT)
    ended = time.monotonic()
    scene.stage.wait_in_sync(scene.stage.target)
    return Cause(began=began, ended=ended)


def with_signal(broker: Broker, number: signal.Signals) -> None:
    """Send a broker's process a signal. Raises BenchError if it does not run."""
    if broker.pid is None:
        raise BenchError("stage", f"broker {broker.node_id} does not run")
    import os

    os.kill(broker.pid, number)


def roll(scene: Scene) -> Cause:
    """Stop and start every broker of both sides in order, one at a time, each time waiting for all replicas."""
    began = time.monotonic()
    for cluster in (scene.stage.target, scene.stage.source):
        for broker in cluster.brokers:
            broker.stop()
            cluster.restart(broker)
            scene.stage.wait_in_sync(cluster)
    return Cause(began=began, ended=time.monotonic())


def _network(side: str, seconds: float, do: Callable[[Fronts], None]) -> Callable[[Scene], Cause]:
    def act(scene: Scene) -> Cause:
        cluster = scene.stage.source if side == "source" else scene.stage.target
        if not isinstance(cluster, FrontedCluster):
            raise BenchError("stage", "this fault needs proxies")  # a bug of the table
        began = time.monotonic()
        do(cluster.fronts)
        try:
            scene.stay(seconds)
        finally:
            cluster.fronts.mend()
        return Cause(began=began, ended=time.monotonic())

    return act


cut_target = _network("target", CUT_S, Fronts.cut)
"""Aborts every connection of the mirror to the target, and refuses new ones, for ten seconds."""
cut_source = _network("source", CUT_S, Fronts.cut)
stall_target = _network("target", STALL_S, Fronts.stall)
"""Requests reach the target and no answer comes back for fifteen seconds; then all answers come."""
stall_source = _network("source", STALL_S, Fronts.stall)
