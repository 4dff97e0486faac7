"""The mirror as the command line's process uses it: starts or joins it, sends requests, waits for its end."""

import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from actors.config.difference import ConfigDifference
from actors.local.session import ENDING_PHASES, PREFIX, MirrorPlace, NoMirror, SeveralMirrors, short_name
from actors.local_socket.client import LocalMirror, reach
from actors.model.events import FailoverOutcome
from actors.model.messages import ConfigRef, MirrorSpec
from actors.model.requests import CALL_TIMEOUT_S, ENDED, AnsweringMirror, AnyRequest, AskStatus
from actors.model.requests import MirrorLost as MirrorLost
from actors.model.status import MirrorStatus, decode_status
from actors.ray.connect import RayConnection
from engine.base.errors import MirrorError
from engine.base.redaction import redacted
from engine.jobs.runtime.runner import JobLine

RELOAD_S = 60.0
"""Seconds that a reload may take: Spark may have to end in order."""
START_S = 60.0
"""Seconds that a supervisor may take to start: on a busy machine its process needs long."""
OTHERS_S = 5.0
"""Seconds to wait for other mirrors of the Ray cluster to say whether they copy a flow."""
FAILED_S = 15.0
"""Seconds to retry when a supervisor fails to answer: Ray restarts a failed one."""
POLL_S = 0.2
SOCKET_S = 2.0
"""Seconds to wait for an answer over the socket; after that, the status is requested through Ray."""
NAME_FREE_S = 15.0

_T = TypeVar("_T")


class FlowTaken(MirrorError):
    """Another mirror on the same Ray cluster copies one of the flows."""

    def __init__(self, flow: str, namespace: str) -> None:
        super().__init__(flow, namespace)
        self.flow, self.namespace = flow, namespace

    def __str__(self) -> str:
        name = short_name(self.namespace)
        return (
            f"flow {self.flow} is copied by mirror {name} on this Ray cluster already;"
            f" to change that mirror, run with --name {name}; to end it: raymirror stop --mirror {name}"
        )


class Mirror(AnsweringMirror):
    """A mirror by its supervisor's Ray handle; `follow` makes this process a follower, with an id of its own."""

    def __init__(self, connection: RayConnection, handle: Any, namespace: str) -> None:
        self.connection, self.namespace = connection, namespace
        self._handle = handle
        self._follower = uuid.uuid4().hex
        self._local: LocalMirror | None = None
        self._tried = ""
        """The path of the socket that was tried last."""

    def send(self, request: AnyRequest, timeout_s: float = CALL_TIMEOUT_S) -> bytes | None:
        """Send a request through Ray. Raises MirrorLost, and the supervisor's own errors."""
        found: bytes | None = self._get(self._begin(request), timeout_s)
        return found

    def _begin(self, request: AnyRequest) -> Any:
        return getattr(self._handle, request.method).remote(*request.arguments)

    def begin_status(self) -> Any:
        """Ask for the status without waiting for it; pass the result to `finish_status`."""
        return self._begin(AskStatus())

    def finish_status(self, asked: Any, timeout_s: float) -> MirrorStatus:
        """Wait for the answer to `begin_status`. Raises as `status` does."""
        return decode_status(self._get(asked, timeout_s))

    def follow(self) -> MirrorStatus:
        """Ask for the status, and count as a follower of the mirror. Raises MirrorLost.

        It is asked once a second for as long as the mirror runs, so the supervisor's socket is used if it is on this
        machine: a call through Ray costs several times as much CPU. Ray has the last word about a silent supervisor.
        """
        request = AskStatus(follower=self._follower)
        if self._local is not None:
            try:
                return decode_status(self._local.send(request, SOCKET_S) or b"")
            except MirrorError:
                self._forget_socket()
        status = decode_status(self.send(request) or b"")
        if status.socket != self._tried:
            self._tried = status.socket
            place = MirrorPlace(
                address="", namespace=self.namespace, instance_id=status.instance_id, socket=status.socket
            )
            self._local = reach(place)
        return status

    def _forget_socket(self) -> None:
        if self._local is not None:
            self._local.close()
        self._local, self._tried = None, ""

    def compare(self, ref: ConfigRef) -> ConfigDifference:
        """Compare another configuration. Raises CannotReload, ConfigMissing, ConfigError, MirrorLost."""
        data = self._get(self._handle.compare.remote(msgspec.msgpack.encode(ref)))
        return msgspec.msgpack.decode(data, type=ConfigDifference)

    def reload(self, ref: ConfigRef, running: str) -> None:
        """Replace the configuration with the sha256 `running` by another one.

        Raises CannotReload, ReloadBusy: nothing was changed; ReloadFailed, MirrorLost: it is not known which one runs.
        """
        self._get(self._handle.reload.remote(msgspec.msgpack.encode(ref), running), RELOAD_S)

    def fail_over(self, flow: str, outcome: FailoverOutcome) -> None:
        """Stop one flow for good and report the outcome of its failover. Raises UnknownFlow, MirrorLost."""
        self._get(self._handle.fail_over.remote(flow, msgspec.msgpack.encode(outcome)))

    def clear_node(self, node: str) -> int:
        """Replace the copiers on a node by others elsewhere; return how many are still there. Raises MirrorLost."""
        return int(self._get(self._handle.clear_node.remote(node)))

    def submit_job(self, job: str, options: bytes) -> str:
        """Submit a Spark job (`options`: msgpack); return its id. Raises SparkOff, UnknownJob, MirrorLost."""
        return str(self._get(self._handle.submit_job.remote(job, options)))

    def job(self, job_id: str) -> JobLine:
        """Return the status line of a Spark job. Raises UnknownJobId, MirrorLost."""
        return msgspec.msgpack.decode(self._get(self._handle.job.remote(job_id)), type=JobLine)

    def job_report(self, job_id: str) -> bytes | None:
        """Return the report of a Spark job, None until it has one. Raises UnknownJobId, MirrorLost."""
        found: bytes | None = self._get(self._handle.job_report.remote(job_id))
        return found

    def cancel_job(self, job_id: str) -> None:
        """Cancel a Spark job. Raises UnknownJobId, MirrorLost."""
        self._get(self._handle.cancel_job.remote(job_id))

    def drain(self) -> None:
        """Ask for an end in order; the desired state stays."""
        self._get(self._handle.drain.remote())

    def leave(self) -> bool:
        """Stop following; return whether the mirror drains: if it has no other follower and is not detached."""
        return bool(self._get(self._handle.leave.remote(self._follower)))

    def wait_stopped(self, timeout_s: float) -> bool:
        """Wait until every copier is gone; False when it took too long. Raises MirrorLost."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.status().phase == "stopped":
                return True
            time.sleep(POLL_S)
        return False

    def retire(self) -> None:
        """End the supervisor and leave its copiers to the next one."""
        with contextlib.suppress(MirrorError):  # it is killed all the same: copiers follow the highest term
            self._get(self._handle.hand_over.remote())
        self.kill()

    def kill(self) -> None:
        self.connection.ray.kill(self._handle)

    def end_all(self) -> None:
        """End every process of the mirror, the supervisor first; positions are durable, nothing is given back."""
        from actors.calls import found_actors
        from actors.ray.fleet import SUPERVISOR

        for _, handle in sorted(found_actors(self.namespace), key=lambda one: one[0] != SUPERVISOR):
            self.connection.ray.kill(handle)

    def find_again(self) -> None:
        """Use the supervisor that has the name now: a changed configuration starts a new one. Raises MirrorLost."""
        self._forget_socket()
        from actors.ray.fleet import SUPERVISOR

        try:
            self._handle = self.connection.ray.get_actor(SUPERVISOR, namespace=self.namespace)
        except ValueError as error:
            raise MirrorLost(self.namespace, ENDED) from error

    def is_gone(self) -> bool:
        """Whether no supervisor has the name any more: it was ended on purpose (Ray restarts one that has failed)."""
        try:
            self.find_again()
        except MirrorLost:
            return True
        return False

    def _get(self, ref: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        from ray.exceptions import ActorDiedError, RayError, RayTaskError

        try:
            return self.connection.ray.get(ref, timeout=timeout_s)
        except RayTaskError as error:
            if isinstance(error.cause, MirrorError):
                raise error.cause from None
            raise MirrorLost(self.namespace, f"{type(error.cause).__name__}: {redacted(str(error.cause))}") from error
        except ActorDiedError as error:  # Ray restarts a supervisor unless it was killed on purpose
            raise MirrorLost(self.namespace, ENDED) from error
        except RayError as error:
            raise MirrorLost(self.namespace, type(error).__name__) from error


def running(connection: RayConnection) -> dict[str, Mirror]:
    """Find the mirrors of a Ray cluster, by namespace; a mirror that ends during the search is left out."""
    from actors.calls import find_actor
    from actors.ray.fleet import SUPERVISOR

    named = connection.ray.util.list_named_actors(all_namespaces=True)
    spaces = sorted(
        actor["namespace"] for actor in named if actor["name"] == SUPERVISOR and actor["namespace"].startswith(PREFIX)
    )
    handles = {space: find_actor(SUPERVISOR, space) for space in spaces}
    return {space: Mirror(connection, handle, space) for space, handle in handles.items() if handle is not None}


def patiently(ask: Callable[[], _T], within_s: float) -> _T:
    """Ask a supervisor until it answers, because Ray restarts a failed one. Raises the last error after `within_s`."""
    give_up_at = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except MirrorError:
            if time.monotonic() > give_up_at:
                raise
        time.sleep(POLL_S)


def start(connection: RayConnection, spec: MirrorSpec, flows: tuple[str, ...]) -> tuple[Mirror, str]:
    """Start a mirror's supervisor, or join the running one; return it and what was done.

    A supervisor of the same version and configuration is joined. Any other, and one that has failed, is replaced: the
    new one takes over its copiers and replaces only copiers whose settings or code have changed. Raises FlowTaken,
    MirrorLost, and the supervisor's own error at its start, after killing it.
    """
    from actors.ray.fleet import start_supervisor
    from actors.ray.supervisor_actor import SupervisorActor

    mirrors = running(connection)
    known = mirrors.pop(spec.namespace, None)
    refuse_taken(connection, mirrors, flows)
    done = "started"
    if known is not None:
        try:
            status = patiently(known.status, FAILED_S)
        except MirrorError as failure:
            known.kill()
            done = f"took over from a supervisor that had failed ({failure})"
        else:
            if (status.version, status.config_digest) == (
                spec.version,
                spec.config.digest,
            ) and status.phase not in ENDING_PHASES:
                return known, "joined"
            spec, done = _end_former(known, status, spec)
        _wait_name_free(connection, spec.namespace)
    mirror = Mirror(connection, start_supervisor(SupervisorActor, spec), spec.namespace)
    try:
        mirror.status(timeout_s=START_S)
    except MirrorError:
        mirror.kill()
        raise
    return mirror, done


def _end_former(known: Mirror, status: MirrorStatus, spec: MirrorSpec) -> tuple[MirrorSpec, str]:
    """End the supervisor of the namespace; return the next one's specification, and what was done."""
    if status.phase in ENDING_PHASES:
        with contextlib.suppress(MirrorError):  # the next one finds what it left
            known.wait_stopped(spec.drain_s)
        known.kill()
        return spec, "started"
    known.retire()
    done = f"took over from version {status.version}, configuration {status.config_digest[:12]}"
    return msgspec.structs.replace(spec, instance_id=status.instance_id), done  # it stays the same mirror


def _wait_name_free(connection: RayConnection, namespace: str) -> None:
    """Wait until Ray has forgotten a killed supervisor: until then its name leads to it. Raises MirrorLost."""
    deadline = time.monotonic() + NAME_FREE_S
    while namespace in running(connection):
        if time.monotonic() > deadline:
            raise MirrorLost(namespace, f"its previous supervisor has not ended within {NAME_FREE_S:.0f} s")
        time.sleep(POLL_S)


def refuse_taken(connection: RayConnection, others: dict[str, Mirror], flows: tuple[str, ...]) -> None:
    """Refuse flows that another mirror of this Ray cluster copies. Raises FlowTaken.

    A mirror that does not answer is no reason to refuse: if it copies the flow, the flow's state topic shows it.
    """
    asked = {namespace: other.begin_status() for namespace, other in others.items()}
    if asked:
        connection.ray.wait(list(asked.values()), num_returns=len(asked), timeout=OTHERS_S)
    for namespace, ref in asked.items():
        try:
            status = others[namespace].finish_status(ref, timeout_s=0.1)
        except (MirrorError, msgspec.DecodeError):
            continue
        taken = next((flow.flow for flow in status.flows if flow.flow in flows and status.phase != "stopped"), None)
        if taken is not None:
            raise FlowTaken(taken, namespace)


def join(connection: RayConnection, place: MirrorPlace) -> Mirror:
    """Find the supervisor of a running mirror. Raises NoMirror, SeveralMirrors."""
    mirrors = running(connection)
    if place.namespace:
        mirrors = {name: mirror for name, mirror in mirrors.items() if name == place.namespace}
    if not mirrors:
        raise NoMirror(f"the Ray cluster at {place.address} has none")
    if len(mirrors) > 1:
        raise SeveralMirrors(tuple(short_name(name) for name in mirrors))
    return next(iter(mirrors.values()))
