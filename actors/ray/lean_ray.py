"""Starts a local Ray without the processes that a mirror never uses.

Ray (2.60) starts seven processes besides the workers. A mirror needs three of them: `gcs_server`, `raylet`, and the
agent of runtime environments, which the raylet asks and without which it ends. The others:

    dashboard agent   the raylet ends without it: `idle_agent.py` takes its place
    dashboard         left out: it is off (`include_dashboard=False`), but its process would start for usage reports
    monitor           left out: it requests nodes from a cloud, and a local Ray always has one node
    log_monitor       left out: it sends workers' output to drivers, and raymirror's use `log_to_driver=False`

`ray.init` has no arguments for this. So functions that it calls are replaced while it runs, in this process only: a Ray
that another process started is not changed. If a release of Ray lacks one of these functions, that part starts as
usual. A start that fails is retried with all parts of Ray (`connect.py`): that costs only memory.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from actors.local.ending import DeferredEnd
from actors.ray import idle_agent
from engine.base.errors import MirrorError

_NO_PROCESS = ("", None)
"""The result of `start_api_server`: the dashboard's address, and its process."""
_AGENT = "dashboard_agent"
"""`ray_constants.PROCESS_TYPE_DASHBOARD_AGENT`."""


class StartStopped(MirrorError):
    """A signal came while Ray was being started or joined."""

    exit_code = 130

    def __str__(self) -> str:
        return "the start was stopped"


@contextmanager
def stoppable_start(end: DeferredEnd) -> Iterator[None]:
    """Make a `ray.init` inside this block raise StartStopped if its end is requested before its driver connects.

    The driver is native code: once it connects, `ray.init` must run until it returns. Until then `ray.init` only starts
    processes, which `ray.shutdown` ends. Ray would also set a SIGTERM handler that raises SystemExit in the middle of
    `ray.init`; it is left out, so that this process's own handler stays.
    """
    import ray._private.utils
    import ray._private.worker as worker

    def stopping(connect: Any) -> Any:
        def begin(*args: Any, **kwargs: Any) -> Any:
            if end.is_asked_for:
                raise StartStopped()
            return connect(*args, **kwargs)

        return begin

    with ExitStack() as restored:
        _replace(restored, worker, "connect", stopping)
        _replace(restored, ray._private.utils, "set_sigterm_handler", lambda _: _keep_handler)
        yield


def _keep_handler(_handler: object) -> None:
    pass


@contextmanager
def lean_start() -> Iterator[None]:
    """Make a `ray.init` inside this block start fewer processes. `ray` must have been imported."""
    import ray._private.parameter
    import ray._private.services as services

    with ExitStack() as restored:
        _replace(restored, ray._private.parameter, "RayParams", _without_monitors)
        _replace(restored, services, "start_api_server", lambda _: _no_dashboard)
        _replace(restored, services, "_build_python_executable_command_memory_profileable", _with_idle_agent)
        yield


def _replace(restored: ExitStack, module: Any, name: str, made_of: Callable[[Any], Any]) -> None:
    """Replace a module's attribute by `made_of(attribute)` until `restored` closes; skip a missing attribute."""
    found = getattr(module, name, None)
    if found is not None:
        setattr(module, name, made_of(found))
        restored.callback(setattr, module, name, found)


def _without_monitors(params: Any) -> Any:
    return partial(params, no_monitor=True, include_log_monitor=False)


def _no_dashboard(*_args: object, **_kwargs: object) -> tuple[str, None]:
    return _NO_PROCESS


def _with_idle_agent(build: Any) -> Any:
    """Return a function that builds the start of a Ray process's command line; Ray appends its own arguments."""

    def begin(component: str, *args: Any, **kwargs: Any) -> Any:
        if component == _AGENT:
            return [sys.executable, "-I", "-S", str(Path(idle_agent.__file__))]
        return build(component, *args, **kwargs)

    return begin
