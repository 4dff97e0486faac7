"""Starts a mirror from a configuration file: Ray, supervisor, state file; and ends it. Main thread only."""

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
from actors.model.needs import memory_of, sites_of
from actors.observability.view import View
from actors.ray.connect import RayConnection, attach, start_local
from actors.ray.mirror import FAILED_S, Mirror, patiently, start
from actors.spark.java import JAVA_RESOURCE, put_on_path
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.settings import MirrorConfig
from policies.placement.sites import site_resources

DRAIN_S = 20.0
SPARE_CPUS = 3
"""Spare logical CPUs of a local Ray: one for a copier that replaces another, two for isolation workers."""


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is launched, and where: an empty address means a local Ray of this process."""

    spec: MirrorSpec
    address: str
    copiers: int
    memory: int
    """Bytes that all copiers and Spark's executors may request together; 0: what Ray finds free is enough."""
    spark_cpus: int = 0
    """CPUs of all Spark executors together; 0: no Spark."""
    sites: tuple[str, ...] = ()
    """Sites where copiers must run: the one node of a local Ray is in all of them."""
    flows: tuple[str, ...]


def code_version() -> str:
    """Return the installed version; `0+clone` for a clone that is not installed."""
    try:
        return version("raymirror")
    except PackageNotFoundError:
        return "0+clone"


def usual_name(config: MirrorConfig) -> str:
    """Return the default name of a configuration's mirror: its flows."""
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

    `unchecked`: flows that have to be checked later: a cluster is unreachable, or a right is missing.
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
        sites=sites_of(config),
        flows=tuple(str(flow.name) for flow in config.flows),
    )


def connect(plan: LaunchPlan, folder: Path | None = None) -> RayConnection:
    """Connect to the Ray that the plan names, or start one with CPU and memory for each copier and some to spare.

    Raises RayUnreachable, OtherRelease, RayNotStarted.
    """
    if plan.address:
        return attach(plan.address, local=False)
    resources = {JAVA_RESOURCE: 1.0} if plan.spark_cpus and put_on_path() else {}
    resources |= site_resources(*plan.sites)
    return start_local(plan.copiers + SPARE_CPUS + plan.spark_cpus, plan.memory, folder, resources)


@contextmanager
def launched(connection: RayConnection, plan: LaunchPlan, view: View | None = None) -> Iterator[Mirror]:
    """Start or join the mirror and write its state file. At the end, kill the supervisor of a mirror that has stopped;
    leave a mirror that still runs alone if its Ray is not local.

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
            instance_id=status.instance_id,  # a joined mirror keeps its own id
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
