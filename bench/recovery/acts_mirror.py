"""Faults of the mirror's own processes: killed, frozen, killed with their node."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.recovery.mirror import COPIER, is_actor
from bench.recovery.scene import Cause, Scene
from tests.harness.ray_cluster import RayCluster, ray_cluster

LEASE_S = 6.0
"""Seconds, as the supervisor grants it."""
FROZEN_S = 2 * LEASE_S
_GCS_AWAY_S = 5.0


def _now(began: float) -> Cause:
    return Cause(began=began, ended=time.monotonic())


def kill_copier(scene: Scene) -> Cause:
    """SIGKILL one of the copiers."""
    copier, began = scene.copiers()[0], time.monotonic()
    copier.kill()
    return _now(began)


def freeze_copier(scene: Scene) -> Cause:
    """SIGSTOP one of the copiers for twice its lease, then SIGCONT."""
    copier, began = scene.copiers()[0], time.monotonic()
    copier.send_signal(signal.SIGSTOP)
    try:
        scene.stay(FROZEN_S)
    finally:
        if copier.is_running():
            copier.send_signal(signal.SIGCONT)
            scene.notes.append("thawed alive")
        else:
            scene.notes.append("was ended while frozen")
    return _now(began)


def kill_supervisor(scene: Scene) -> Cause:
    """SIGKILL the supervisor."""
    supervisor, began = scene.supervisor(), time.monotonic()
    supervisor.kill()
    return _now(began)


def kill_both(scene: Scene) -> Cause:
    """SIGKILL the supervisor and one of the copiers at once."""
    supervisor, copier, began = scene.supervisor(), scene.copiers()[0], time.monotonic()
    supervisor.kill()
    copier.kill()
    return _now(began)


# --- on a Ray cluster ----------------------------------------------------------------------------------------------


@contextmanager
def three_nodes(folder: Path) -> Iterator[RayCluster]:
    """A head without CPUs for copiers and two nodes that have room for both copiers each."""
    with ray_cluster(folder, (2, 2)) as cluster:
        yield cluster


def kill_driver(scene: Scene) -> Cause:
    """SIGKILL `raymirror run`, which follows the mirror; no process follows it afterwards."""
    began = time.monotonic()
    scene.mirror.process.kill()
    scene.mirror.process.wait()
    return _now(began)


def follow_again(scene: Scene) -> None:
    """Start `raymirror run` again; it joins the mirror."""
    scene.mirror.restart()


def kill_node(scene: Scene) -> Cause:
    """SIGKILL every process of a node that has copiers."""
    cluster = scene.cluster
    node = next(node for node in cluster.nodes[1:] if any(is_actor(one, COPIER) for one in node.workers()))
    count = sum(is_actor(one, COPIER) for one in node.workers())
    scene.notes.append(f"{count} of {len(scene.copiers())} copiers were on the node")
    began = time.monotonic()
    cluster.kill_node(node)
    return _now(began)


def replace_node(scene: Scene) -> None:
    """Add a node like the one that was killed."""
    scene.cluster.add_node(2)


def restart_gcs(scene: Scene) -> Cause:
    """SIGKILL the control store's process and start it again five seconds later."""
    began = time.monotonic()
    scene.cluster.kill_gcs()
    scene.stay(_GCS_AWAY_S)
    scene.cluster.restart_gcs()
    return _now(began)
