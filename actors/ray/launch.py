"""From a configuration file to a running mirror: Ray, supervisor, state file, and the way back. Main thread only."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from actors.config import config_ref
from actors.local import session
from actors.model.messages import MirrorSpec
from actors.model.needs import memory_of
from actors.observability.view import View
from actors.ray.connect import RayConnection, attach, start_local
from actors.ray.mirror import FAILED_S, Mirror, patiently, start
from actors.spark.java import JAVA_RESOURCE, put_on_path
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.settings import MirrorConfig

DRAIN_S = 20.0
SPARE_CPUS = 3
"""Logical ones, of a local Ray: for a copier that replaces another, and two that a suspect set has for itself."""


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is launched, and where: an empty address means a Ray of our own."""

    spec: MirrorSpec
    address: str
    copiers: int
    memory: int
    """Bytes that all copiers and Spark's executors may ask for together; 0: what Ray finds free will do."""
    spark_cpus: int = 0
    """Of Spark's executors together; 0: no Spark."""
    flows: tuple[str, ...]


def code_version() -> str:
    """Give the installed version; a clone that is not installed has none."""
    try:
        return version("raymirror")
    except PackageNotFoundError:
        return "0+clone"


def usual_name(config: MirrorConfig) -> str:
    """Name the mirror of a configuration where nobody gives it a name: by its flows."""
    return "_".join(f"{flow.name.source}-{flow.name.target}" for flow in config.flows)


def plan_launch(
    path: Path,
    config: MirrorConfig,
    *,
    address: str | None,
    name: str | None = None,
    detached: bool = False,
    unchecked: tuple[str, ...] = (),
) -> LaunchPlan:
    """Decide what to launch: address given, else RAY_ADDRESS (which every Ray job has), else local. Raises OSError.

    `unchecked`: flows that could not be checked, because clusters are away.
    """
    namespace = session.namespace_of(name or usual_name(config))
    executors, heap = (config.spark.executors if config.spark.on else 0), config.spark.memory_bytes
    return LaunchPlan(
        spec=MirrorSpec(
            config=config_ref.refer(path),
            namespace=namespace,
            version=code_version(),
            deployment_id=config.deployment_id or session.deployment_id(os.environ),
            drain_s=DRAIN_S,
            instance_id=uuid.uuid4().hex,
            dead_instance=session.dead_instance(namespace, os.environ),
            started_ms=wall_ms(),
            detached=detached,
            unchecked=unchecked,
        ),
        address=address or os.environ.get("RAY_ADDRESS", ""),
        copiers=sum(flow.most_copiers for flow in config.flows),
        memory=sum(memory_of(flow) * (flow.most_copiers + SPARE_CPUS) for flow in config.flows) + executors * heap,
        spark_cpus=executors * config.spark.cores,
        flows=tuple(str(flow.name) for flow in config.flows),
    )


def connect(plan: LaunchPlan, folder: Path | None = None) -> RayConnection:
    """Reach the Ray the plan names, or start one with a CPU and memory for each copier and some to spare.

    Raises RayUnreachable, OtherRelease, RayNotStarted.
    """
    if plan.address:
        return attach(plan.address, local=False)
    resources = {JAVA_RESOURCE: 1.0} if plan.spark_cpus and put_on_path() else {}
    return start_local(plan.copiers + SPARE_CPUS + plan.spark_cpus, plan.memory, folder, resources)


@contextmanager
def launched(connection: RayConnection, plan: LaunchPlan, view: View | None = None) -> Iterator[Mirror]:
    """Start or join the mirror and leave its state file. A mirror that has stopped is ended here, one that goes on is
    left alone, on a Ray that goes on too.

    Raises FlowTaken, MirrorLost, and what the supervisor raised while it started.
    """
    mirror, done = start(connection, plan.spec, plan.flows)
    if done != "started" and view is not None:
        view.say(f"mirror {mirror.namespace}: {done}")
    status = patiently(mirror.status, FAILED_S)
    pid = os.getpid() if connection.local else 0  # on a cluster it outlives this process
    session.write(
        session.StateFile(
            address=connection.address,
            namespace=plan.spec.namespace,
            pid=pid,
            pid_start=session.process_start(pid) or 0 if pid else 0,
            version=plan.spec.version,
            config_path=plan.spec.config.path,
            config_digest=plan.spec.config.digest,
            local=connection.local,
            instance_id=status.instance_id,  # of a mirror that was joined, its own
            socket=status.socket,
            pid_space=session.pid_space(),
        ),
        os.environ,
    )
    try:
        yield mirror
    finally:
        if _has_stopped(mirror) or connection.local:
            session.remove(plan.spec.namespace, pid, os.environ)
            mirror.kill()


def _has_stopped(mirror: Mirror) -> bool:
    try:
        return mirror.status().phase == "stopped"
    except MirrorError:
        return False
