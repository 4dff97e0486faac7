"""Calls actors with a time limit, and describes their failures in one line."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from actors.control.ports import ActorUnreachable
from engine.base.redaction import redacted

CALL_TIMEOUT_S = 5.0
# Ray reports how an actor died only as text.
_IN_INIT = "raised in its creation task"
_PROCESS_DIED = "worker process has died"


def actor_class(shell: type, **options: Any) -> Any:
    """Make a Ray actor of a class."""
    decorate: Any = ray.remote  # its overloads do not know concurrency groups
    return decorate(**options)(shell) if options else decorate(shell)


def start_detached(actor: Any, spec: msgspec.Struct, *, name: str, namespace: str, **options: Any) -> Any:
    """Start a named actor that outlives its creator. By default it needs no CPU and is not restarted."""
    usual = {"lifetime": "detached", "num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
    return actor.options(name=name, namespace=namespace, **usual | options).remote(msgspec.msgpack.encode(spec))


def found_actors(namespace: str) -> list[tuple[str, Any]]:
    """List the named actors of a namespace, in order of names; actors that end during the call are left out."""
    named = ray.util.list_named_actors(all_namespaces=True)
    names = sorted(actor["name"] for actor in named if actor["namespace"] == namespace)
    found = ((name, find_actor(name, namespace)) for name in names)
    return [(name, actor) for name, actor in found if actor is not None]


def find_actor(name: str, namespace: str) -> Any | None:
    """Return the named actor; None if it has ended since it was listed."""
    try:
        return ray.get_actor(name, namespace=namespace)
    except ValueError:
        return None


async def bounded(actor: str, name: str, ref: Awaitable[Any], timeout_s: float = CALL_TIMEOUT_S) -> Any:
    """Await an actor call for a bounded time. Raises ActorUnreachable."""
    try:
        async with asyncio.timeout(timeout_s):
            return await ref
    except (TimeoutError, GetTimeoutError):
        raise ActorUnreachable(actor, name, f"no answer in {timeout_s:.0f} s") from None
    except RayError as error:
        raise ActorUnreachable(actor, name, explain(error)) from error


def explain(error: RayError) -> str:
    """Describe in one line why an actor died, without secrets in texts of libraries."""
    if isinstance(error, RayTaskError):
        cause = error.cause
        ours = type(cause).__module__.startswith(("engine", "actors"))
        return str(cause) if ours else f"{type(cause).__name__}: {redacted(str(cause))}"
    if _IN_INIT in str(error):
        return "it could not start: " + redacted(str(error).rstrip().rpartition("\n")[2].strip())
    return f"{type(error).__name__}: its {'process' if process_ended(error) else 'node'} ended"


def process_ended(error: RayError) -> bool:
    """Whether a process is known to have ended; on a node that Ray has given up, processes may still run."""
    text = str(error)
    return isinstance(error, RayTaskError) or _IN_INIT in text or _PROCESS_DIED in text
