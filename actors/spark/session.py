"""Opens, checks and closes the RayDP session of a host. Everything here blocks: the host calls it in threads."""

import os
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from actors.spark.executor_target import ExecutorTarget
from actors.spark.executors import NO_LIMIT, Executors, draining_nodes, executor_names, find_actor
from actors.spark.java import JAVA_RESOURCE
from actors.spark.needs import bucket_jars, check_jars, check_storage
from actors.spark.places import ray_nodes, waiting_text
from actors.spark.sizing import Sized
from deploy.local.java import find_spark_java
from engine.base.clock import now_s
from engine.config.settings import SparkConfig
from engine.config.storage import Storage
from engine.jobs.runtime.session import JAVA_OPTIONS, SMALL_JAVA, executor_java, spark_conf, zip_code
from engine.jobs.runtime.storage_access import hadoop_conf

SHARE = "0.001"
"""Share of a resource that marks a node: small enough that any number of processes fits there."""
PING_S = 50.0
"""Timeout in seconds: Ray reports an ended process at once, so a slow answer only means an overloaded machine."""
GONE_S, GONE_POLL_S = 60.0, 0.5
_APP_MASTER, _MASTER_SUFFIX = "RAY_APP_MASTER", "_SPARK_MASTER"
"""RayDP's names of its two masters; the other one's begins with the name of the session."""
_MASTER = "spark.ray.raydp_spark_master.actor.resource."
_EXECUTOR = "spark.ray.raydp_spark_executor.actor.resource."
_MIB = 1024 * 1024


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a session. `name` is never used twice; `node`: the only node for executors, empty for any."""

    name: str
    config: SparkConfig
    storage: Storage | None = None
    node: str = ""


class Session:
    """An open RayDP session. One process has at most one."""

    def __init__(self, options: SessionOptions) -> None:
        """Start Spark. Raises ClusterError, SparkLacks, BadStorageAccess, StorageUnusable, and any error of RayDP."""
        import ray
        import raydp

        from deploy.local.jars import spark_jar_paths

        check_jars(options.config.jars)
        more_jars = bucket_jars(options.storage, options.config.jars)
        check_storage(options.storage)
        _wait_no_executors()
        # RayDP starts its JVMs by name from PATH, PySpark from JAVA_HOME: both must be the Java that was found.
        os.environ["JAVA_HOME"] = str(find_spark_java().parent.parent)
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        node: Any = ray._private.worker._global_node
        scratch = Path(node.get_session_dir_path()) / "raymirror-spark" / options.name
        jars = [*spark_jar_paths(), *more_jars, *map(Path, options.config.jars)]
        store = hadoop_conf(options.storage.uri, scratch) if options.storage is not None else {}
        self._raydp, self._options = raydp, options
        self.node = str(ray.get_runtime_context().get_node_id())
        self.spark = raydp.init_spark(
            options.name,
            num_executors=ExecutorTarget(options.config.executors, options.config.idle_s).at_first,
            executor_cores=options.config.cores,
            executor_memory=f"{options.config.memory_bytes // _MIB}m",
            fault_tolerant_mode=False,  # true would connect the driver to Ray's object store, for nothing
            configs=spark_conf(
                jars=jars, scratch=scratch, more={**placement(options.node), **java_sizes(options.config), **store}
            ),
        )
        self.spark.sparkContext.addPyFile(str(zip_code(scratch)))
        self._executors = Executors(self.spark)
        masters = (find_actor(name) for name in (_APP_MASTER, options.name + _MASTER_SUFFIX))
        self._nodes = frozenset({self.node, *(master.node for master in masters if master is not None)})

    def executors(self) -> int:
        """Count the running executors. Raises an error of the JVM or of a master if the session is broken."""
        import ray

        master = self._raydp.context._global_spark_context._spark_cluster._spark_master_handle
        # this call also asks RayDP's app master in a JVM: without both masters no executor returns, and queries hang
        ray.get(master.get_master_url.remote(), timeout=PING_S)
        return self._executors.running()

    def resize(self, wanted: int) -> Sized:
        """Bring the number of executors nearer to `wanted`, and move those on nodes that are drained.

        Raises errors of Ray and of the JVM.
        """
        draining = draining_nodes()
        if leaving := self._nodes & draining:
            return Sized(leaving=min(leaving))
        unsettled = self._executors.resize(wanted, draining)
        running, waiting = self._executors.running(), ""
        if running < wanted:
            waiting = waiting_text(self._options.config, ray_nodes(), running, wanted, self._options.node)
        return Sized(waiting=waiting, unsettled=unsettled)

    def close(self) -> None:
        self._raydp.stop_spark()


def _wait_no_executors() -> None:
    """Wait until an earlier session's executors are gone: RayDP reuses their names, and fails while a name is taken."""
    give_up_at_s = now_s() + GONE_S
    while left := executor_names():
        if now_s() > give_up_at_s:
            raise RuntimeError(f"executors of an earlier session have not ended in {GONE_S:.0f} s: {', '.join(left)}")
        threading.Event().wait(GONE_POLL_S)


def java_sizes(config: SparkConfig) -> dict[str, str]:
    """Return the options of the JVMs: driver and app master run no tasks, and a small executor stays small."""
    executor = f"{JAVA_OPTIONS} {executor_java(config.cores, config.memory_bytes)}".rstrip()
    return {
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {SMALL_JAVA}",
        "spark.ray.raydp_app_master.extraJavaOptions": f"{JAVA_OPTIONS} {SMALL_JAVA} {NO_LIMIT}",
        "spark.executor.extraJavaOptions": executor,
    }


def placement(node: str) -> dict[str, str]:
    """Return the resources that place RayDP's actors: on nodes with Java, and executors on `node` if one is named."""
    places = {f"{_EXECUTOR}node:{node}": SHARE} if node else {}
    return {
        f"{_MASTER}CPU": "0",
        f"{_MASTER}{JAVA_RESOURCE}": SHARE,
        f"{_EXECUTOR}{JAVA_RESOURCE}": SHARE,
        **places,
    }
