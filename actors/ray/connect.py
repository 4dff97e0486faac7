"""Starts a local Ray or connects to a running one, for the command line's process. Ray is not imported before this.

`ray.init` belongs to the main thread, which must live as long as Ray. Ray reads its environment while it is imported,
so the settings are made first. A local Ray uses token authentication on both sides, because Ray listens on all
interfaces and an open one runs anyone's code. The token is in the user's home, so another shell of the same user can
connect and no other user can.
"""

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from actors.local.ending import DeferredEnd, ends_deferred, hangup_held
from actors.local.session import process_start
from actors.logging.crashes import ROTATION
from actors.ray.lean_ray import StartStopped, lean_start, stoppable_start
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError

OBJECT_STORE_BYTES = 100_000_000  # no record passes through it; Ray's minimum is 75 MiB
SHORT_PATH = 40  # Ray's unix sockets add some 65 characters to its temp folder, and the kernel allows 107
PROBE_TIMEOUT_S = 1.0
STOPPING = "the start is being stopped: Ray, which is just starting, is ended first"
LEAVING = "the command ends as soon as Ray, which it is connecting to, has answered; a second Ctrl-C ends it at once"
SESSION_PREFIX = "ray-"
OWNER = "raymirror-owner"
STARTS = 2
"""How often the start of a local Ray is tried: Ray gives its own parts 30 s, and a busy machine may need longer. The
second try starts all parts of Ray, in case one that was left out (`lean_ray.py`) is needed after all.
"""
UNWATCHED = {
    "RAY_event_stats": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_metrics_report_interval_ms": "600000",
    "RAY_task_events_report_interval_ms": "0",
}
"""A local Ray has no dashboard, so the metrics of its processes would never be read."""
ROTATED = {ROTATION: str(4 * 1024 * 1024), "RAY_ROTATION_BACKUP_COUNT": "2"}
"""Log files of Ray's own processes: without these, 512 MiB each and five older ones (Ray 2.60, `LOGGING_ROTATE_BYTES`),
and what workers print is not bounded at all.
"""
UNMINDED = {"RAY_memory_monitor_refresh_ms": "0"}
"""When a machine's memory is nearly full, Ray's monitor kills actors, even if another process filled it: it was seen to
kill supervisor and metadata actor, of 70 MiB each. A mirror's memory is bounded, so killing its actors does not help.
"""


class RayUnreachable(MirrorError):
    """No Ray cluster answers at an address."""

    exit_code = 1  # it ran, and did not end well: not bad input

    def __init__(self, address: str, cause: str) -> None:
        super().__init__(address, cause)
        self.address, self.cause = address, cause

    def __str__(self) -> str:
        return f"no Ray cluster answers at {self.address} ({self.cause}); give its GCS address as --address HOST:PORT"


class RayNotStarted(MirrorError):
    """A local Ray did not come up."""

    exit_code = 1

    def __init__(self, cause: str, folder: str) -> None:
        super().__init__(cause, folder)
        self.cause, self.folder = cause, folder

    def __str__(self) -> str:
        return f"a local Ray did not start: {self.cause}; its logs are in {self.folder}; is the machine overloaded?"


class OtherRelease(MirrorError):
    """The Ray cluster runs another release of Ray or another minor version of Python than this process."""

    def __init__(self, address: str, theirs: str, ours: str) -> None:
        super().__init__(address, theirs, ours)
        self.address, self.theirs, self.ours = address, theirs, ours

    def __str__(self) -> str:
        return (
            f"the Ray cluster at {self.address} runs {self.theirs}, this process {self.ours}; both must be the same:"
            " run raymirror from the image or environment that the cluster was started with"
        )


class NodeStays(MirrorError):
    """Ray refuses to take a node out of service."""

    def __init__(self, node: str, cause: str) -> None:
        super().__init__(node, cause)
        self.node, self.cause = node, cause

    def __str__(self) -> str:
        return f"Ray does not take node {self.node} out of service ({self.cause}); node ids are in: ray list nodes"


class RayConnection:
    """An open connection to Ray. `local` means that this process owns the Ray cluster and ends it."""

    def __init__(self, ray: Any, address: str, temp: Path | None) -> None:
        self.ray, self.address, self._temp = ray, address, temp

    @property
    def local(self) -> bool:
        """Whether the Ray cluster ends with this process."""
        return self._temp is not None

    @property
    def logs(self) -> Path | None:
        """The log folder of a local Ray."""
        return self._temp / "session_latest" / "logs" if self._temp else None

    def this_node(self) -> str:
        return str(self.ray.get_runtime_context().get_node_id())

    def announce_end(self, node: str, within_s: float) -> None:
        """Announce to Ray that a node will end, so that Ray starts nothing there any more. Raises NodeStays."""
        from ray.core.generated import autoscaler_pb2

        reasons: Any = autoscaler_pb2  # generated, without types
        reason = reasons.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
        deadline_ms = wall_ms() + int(within_s * 1000)
        try:
            gcs = self.ray._raylet.GcsClient(address=self.ray.get_runtime_context().gcs_address)
            accepted, why = gcs.drain_node(node, reason, "raymirror drain", deadline_ms)
        except (ValueError, RuntimeError) as error:
            raise NodeStays(node, str(error)) from error
        if not accepted:
            raise NodeStays(node, why)

    def close(self, *, keep_logs: bool = False) -> None:
        """Disconnect; end a local Ray and remove its folder."""
        self.ray.shutdown()
        if self._temp is not None and not keep_logs:
            shutil.rmtree(self._temp, ignore_errors=True)


def start_local(
    cpus: int, memory: int = 0, folder: Path | None = None, resources: Mapping[str, float] = {}
) -> RayConnection:
    """Start a local Ray in `folder` (if its path is short). `cpus`: logical CPUs, whatever the cores. `memory`: bytes
    of logical memory on top of the machine's, for actors that request it (0: what Ray finds free). `resources`: further
    resources that its one node declares.
    """
    for name, value in {**UNWATCHED, **UNMINDED, **ROTATED}.items():
        os.environ.setdefault(name, value)
    with ends_deferred(STOPPING) as end:
        return _start_local(cpus, memory, folder, resources, end)


def _start_local(
    cpus: int, memory: int, folder: Path | None, resources: Mapping[str, float], end: DeferredEnd
) -> RayConnection:
    """Start a local Ray. Raises RayNotStarted, StartStopped."""
    ray = import_ray(token=True)
    if end.is_asked_for:
        raise StartStopped()
    base = str(folder) if folder is not None else tempfile.gettempdir()
    home = Path(base if len(base) + 13 <= SHORT_PATH else "/tmp")
    remove_old_sessions(home)
    temp = Path(tempfile.mkdtemp(prefix=SESSION_PREFIX, dir=home))
    mark_session(temp)
    connection = RayConnection(ray, "", temp)
    try:
        with hangup_held():
            _init(ray, temp, cpus, memory, resources, end)
        if end.is_asked_for:
            raise StartStopped()
        connection.address = ray.get_runtime_context().gcs_address
    except BaseException as error:  # leave no process and no folder behind
        connection.close(keep_logs=isinstance(error, RayNotStarted))
        raise
    return connection


def _init(ray: Any, temp: Path, cpus: int, memory: int, resources: Mapping[str, float], end: DeferredEnd) -> None:
    for attempt in range(1, STARTS + 1):
        try:
            with stoppable_start(end), lean_start() if attempt == 1 else nullcontext():
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    resources=dict(resources) or None,
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE_BYTES,
                    log_to_driver=False,
                    logging_level="ERROR",
                    _temp_dir=str(temp),
                    _memory=memory + _physical_bytes() if memory else None,
                )
            return
        except StartStopped:
            raise
        except Exception as error:  # Ray raises a plain one
            if end.is_asked_for or "timed out during startup" not in str(error) or attempt == STARTS:
                raise RayNotStarted(str(error).partition("\n")[0], str(temp)) from error
            ray.shutdown()


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def mark_session(temp: Path) -> None:
    """Note the process that owns this Ray folder, so that a later start can see when it is no longer needed."""
    pid = os.getpid()
    (temp / OWNER).write_text(f"{pid} {process_start(pid) or 0}\n")


def remove_old_sessions(home: Path) -> None:
    """Remove this user's Ray folders whose process is gone, except the newest: its logs may be of interest."""
    dead = [temp for temp in home.glob(f"{SESSION_PREFIX}*") if _is_left_behind(temp / OWNER)]
    for temp in sorted(dead, key=lambda temp: temp.stat().st_mtime)[:-1]:
        shutil.rmtree(temp, ignore_errors=True)


def _is_left_behind(owner: Path) -> bool:
    try:
        if owner.stat().st_uid != os.getuid():
            return False
        pid, start = owner.read_text().split()
        return process_start(int(pid)) != int(start)
    except (OSError, ValueError):
        return False  # no folder of raymirror, half written, or just removed by its owner


def attach(address: str, *, local: bool) -> RayConnection:
    """Connect to a running Ray; `local`: `start_local` started it. Raises RayUnreachable within about 2 s."""
    _probe(address)
    ray = import_ray(token=local)
    try:
        with ends_deferred(LEAVING, leave_at_second=True) as end, stoppable_start(end):
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        refuse_other_release(address, str(error))
        raise RayUnreachable(address, str(error).partition("\n")[0]) from error
    return RayConnection(ray, address, None)


def refuse_other_release(address: str, message: str) -> None:
    """Raise OtherRelease if Ray's own message says that versions differ; it names both, over several lines."""
    if "Version mismatch" in message:
        theirs, ours = (f"Ray {ray}, Python {python}" for ray, python in _RELEASES.findall(message))
        raise OtherRelease(address, theirs, ours)


_RELEASES = re.compile(r"Ray: (\S+)\s+Python: (\S+)")


def _probe(address: str) -> None:
    """Try the port first: Ray itself tries for a long time. Raises RayUnreachable."""
    if "://" in address:
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise RayUnreachable(address, "not HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT_S).close()
    except OSError as error:
        raise RayUnreachable(address, str(error)) from error


def import_ray(*, token: bool) -> Any:
    """Import Ray, set up for raymirror's processes; `token`: its own Ray, which asks for one."""
    if token:
        os.environ["RAY_AUTH_MODE"] = "token"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray starts workers at nice 15: on a busy machine they would get too little CPU, and leases would run out
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning about devices
    import ray
    import ray._private.worker

    _tell_beside_answers(ray._private.worker)
    return ray


def _tell_beside_answers(worker: Any) -> None:
    """Let Ray print its own messages, e.g. that a node is gone, on standard error: a command's answer is on the other.

    `log_to_driver=False` holds back what workers print, but not these (Ray's `listen_error_messages`).
    """
    tell = worker.print_to_stdstream
    if not isinstance(tell, partial):
        worker.print_to_stdstream = partial(_tell_on_standard_error, tell)


def _tell_on_standard_error(tell: Callable[..., None], data: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
    tell({**data, "is_err": True}, *args, **kwargs)
