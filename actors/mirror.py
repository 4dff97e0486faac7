"""A mirror seen from the command line's process: started or joined, asked, told, and waited for."""

import time
from typing import Any

from actors.connect import RayConnection
from actors.messages import MirrorSpec
from actors.session import PREFIX, MirrorPlace, NoMirror, SeveralMirrors
from actors.states import Command
from actors.status import MirrorStatus, decode_status
from engine.errors import MirrorError

CALL_TIMEOUT_S = 15.0
POLL_S = 0.2


class MirrorLost(MirrorError):
    """The supervisor does not answer."""

    exit_code = 1  # it ran, and did not end well: not bad input

    def __init__(self, namespace: str, cause: str) -> None:
        super().__init__(namespace, cause)
        self.namespace, self.cause = namespace, cause

    def __str__(self) -> str:
        return f"mirror {self.namespace}: the supervisor does not answer ({self.cause})"


class OtherMirrorRuns(MirrorError):
    """The namespace already has a mirror, started from another configuration or by another version."""

    def __init__(self, namespace: str, ours: str, theirs: str) -> None:
        super().__init__(namespace, ours, theirs)
        self.namespace, self.ours, self.theirs = namespace, ours, theirs

    def __str__(self) -> str:
        return (
            f"mirror {self.namespace} already runs with {self.theirs}, this would be {self.ours};"
            " end it first: raymirror stop"
        )


class Mirror:
    """A handle on a mirror's supervisor."""

    def __init__(self, connection: RayConnection, handle: Any, namespace: str) -> None:
        self.connection, self.namespace = connection, namespace
        self._handle = handle

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        """Ask how everything is. Raises MirrorLost."""
        return decode_status(self._get(self._handle.status.remote(lanes)))

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> MirrorStatus:
        """Say what is wanted. Raises UnknownFlow, UnknownTopic, IllegalCommand, MirrorLost."""
        return decode_status(self._get(self._handle.command.remote(command.value, flow, topics)))

    def drain(self) -> None:
        """Ask for an end in order; the desired state stays."""
        self._get(self._handle.drain.remote())

    def wait_stopped(self, timeout_s: float) -> bool:
        """Wait until every copier is gone; False when it took too long. Raises MirrorLost."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.status().phase == "stopped":
                return True
            time.sleep(POLL_S)
        return False

    def kill(self) -> None:
        """End the supervisor; its copiers must be gone."""
        self.connection.ray.kill(self._handle)

    def _get(self, ref: Any) -> Any:
        from ray.exceptions import RayError, RayTaskError

        try:
            return self.connection.ray.get(ref, timeout=CALL_TIMEOUT_S)
        except RayTaskError as error:
            if isinstance(error.cause, MirrorError):
                raise error.cause from None
            raise MirrorLost(self.namespace, f"{type(error.cause).__name__}: {error.cause}") from error
        except RayError as error:
            raise MirrorLost(self.namespace, type(error).__name__) from error


def start(connection: RayConnection, spec: MirrorSpec) -> Mirror:
    """Start a mirror's supervisor, or join the one of the same version and configuration. Raises OtherMirrorRuns."""
    from actors.fleet import start_supervisor
    from actors.shell import SupervisorShell

    mirror = Mirror(connection, start_supervisor(SupervisorShell, spec), spec.namespace)
    status = mirror.status()
    theirs = f"version {status.version}, configuration {status.config_digest[:12]}"
    ours = f"version {spec.version}, configuration {spec.config.digest[:12]}"
    if theirs != ours:
        raise OtherMirrorRuns(spec.namespace, ours, theirs)
    return mirror


def join(connection: RayConnection, place: MirrorPlace) -> Mirror:
    """Find the supervisor of a running mirror. Raises NoMirror, SeveralMirrors."""
    from actors.fleet import SUPERVISOR

    ray = connection.ray
    names = sorted(
        actor["namespace"]
        for actor in ray.util.list_named_actors(all_namespaces=True)
        if actor["name"] == SUPERVISOR and actor["namespace"].startswith(PREFIX)
    )
    if place.namespace:
        names = [name for name in names if name == place.namespace]
    if not names:
        raise NoMirror(f"the Ray cluster at {place.address} has none")
    if len(names) > 1:
        raise SeveralMirrors(tuple(name.removeprefix(PREFIX) for name in names))
    return Mirror(connection, ray.get_actor(SUPERVISOR, namespace=names[0]), names[0])
