"""The executors of a session, which are actors of RayDP: adds and ends them, and moves them off nodes that are drained.

Spark's own allocation of executors is not used. It counts tasks, and those of a stream would keep every executor; and
it asks RayDP for an executor only once, also if that one dies. Ray starts an executor again that has died, but RayDP
takes back only as many as a session began with: the others fail, and are missed here.

Everything here blocks.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

from actors.spark.executor_target import steps_to

PREFIX = "raydp-executor-"
"""Of the names that RayDP gives to its executors."""
NO_LIMIT = "-Dspark.executor.instances=0"
"""For RayDP's app master, behind the setting of the session. Otherwise it starts no more executors than at first, and
counts each one that Ray has started again twice."""
_ALIVE = "ALIVE"


class FoundActor(NamedTuple):
    """An actor of Ray: its handle, the id of its node (empty before it has one), and whether it runs."""

    handle: Any
    node: str
    is_alive: bool


def executor_names() -> list[str]:
    """List the executors of this namespace that Ray knows, also those that wait for a place."""
    import ray

    return sorted(name for name in map(str, ray.util.list_named_actors()) if name.startswith(PREFIX))


def draining_nodes() -> frozenset[str]:
    """Return the ids of nodes that Ray is to take out of service."""
    import ray

    untyped: Any = ray
    return frozenset(untyped._private.state.state.get_draining_nodes())


def find_actor(name: str) -> FoundActor | None:
    """Look up a named actor of this namespace; None if it has ended."""
    import ray

    untyped: Any = ray
    try:
        handle = untyped.get_actor(name)
    except ValueError:
        return None
    info = untyped._private.state.actors(handle._actor_id.hex())
    return FoundActor(handle, info["Address"]["NodeID"], info["State"] == _ALIVE) if info else None


class Executors:
    """The executors of one session."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._missed = 0
        """How many times in a row executors were missing."""

    def running(self) -> int:
        """Count the executors that Spark knows. Raises an error of the JVM."""
        context = self._context()
        if context.isStopped():
            raise RuntimeError("its SparkContext has stopped by itself")
        return len(context.statusTracker().getExecutorInfos()) - 1  # the driver is one of them

    def resize(self, wanted: int, leaving: Collection[str]) -> bool:
        """Add missing executors, end surplus ones that run no task, and all on the nodes `leaving`.

        Return whether there was something to do. Raises errors of Ray and of the JVM.
        """
        names = executor_names()
        found = {name: find_actor(name) for name in names} if leaving else {}
        gone = [name for name, actor in found.items() if actor is not None and actor.node in leaving]
        for name in gone:
            _end(found[name])
        running = self.running()
        steps = steps_to(wanted, running=max(0, running - len(gone)), named=len(names) - len(gone))
        self._add(steps.add, running)
        if steps.end_waiting:
            _end_waiting(set(names) - set(gone), steps.end_waiting)
        if steps.end_running:
            self._end_running(steps.end_running)
        return bool(gone) or any(steps)

    def _add(self, count: int, running: int) -> None:
        """Ask RayDP for `count` more executors if they were missing the last time too: RayDP may be starting them.

        It starts what its own count lacks to a total. That count contains an executor that died before it had reported
        its start, forever: so the total grows while executors are missing.
        """
        self._missed = self._missed + 1 if count else 0
        if self._missed > 1:
            no_hosts = self._spark._jvm.PythonUtils.toScalaMap({})
            self._context().requestTotalExecutors(running + count + self._missed - 2, 0, no_hosts)

    def _end_running(self, count: int) -> None:
        """End the newest executors, but none that runs a task: a later call tries again."""
        backend = self._context().schedulerBackend()
        ids = sorted(backend.getExecutorIds().mkString(",").split(","), key=_number, reverse=True)[:count]
        # adjust the total: yes; the lost tasks count as failures: no; also if it is busy: no
        backend.killExecutors(self._spark._jvm.PythonUtils.toSeq(ids), True, False, False)

    def _context(self) -> Any:
        return self._spark.sparkContext._jsc.sc()


def _number(executor_id: str) -> int:
    return int(executor_id) if executor_id.isdigit() else -1


def _end_waiting(names: Collection[str], count: int) -> None:
    found = [actor for name in sorted(names, reverse=True) if (actor := find_actor(name)) is not None]
    for actor in [actor for actor in found if not actor.is_alive][:count]:
        _end(actor)


def _end(actor: FoundActor | None) -> None:
    import ray

    if actor is not None:
        ray.kill(actor.handle, no_restart=True)
