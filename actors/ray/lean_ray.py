"""Starts a Ray of our own without the processes that a mirror never asks anything.

Ray (2.60) starts seven processes beside the workers. Three of them a mirror needs: `gcs_server`, `raylet`, and the
agent of runtime environments, which the raylet asks and without which it ends. Of the others

    dashboard agent   is one that the raylet ends with: `idle_agent.py` takes its place
    dashboard         is left out: there is none (`include_dashboard=False`), but its process starts for usage reports
    monitor           is left out: it asks a cloud for nodes, and a Ray of our own has one node, for ever
    log_monitor       is left out: it carries workers' output to drivers, and ours say `log_to_driver=False`

`ray.init` has arguments for none of this, so what it calls is replaced while it runs, in this process alone: nothing
of a Ray that others started is changed. Where a release of Ray lacks one of these functions that part starts as ever,
and a start that fails is tried again with all that Ray has (`connect.py`): that costs memory, and nothing else.
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
"""What `start_api_server` gives: the dashboard's address, and its process."""
_AGENT = "dashboard_agent"
"""`ray_constants.PROCESS_TYPE_DASHBOARD_AGENT`."""


class StartStopped(MirrorError):
    """A signal came while Ray was being started or joined."""

    exit_code = 130

    def __str__(self) -> str:
        return "the start was stopped"


@contextmanager
def stoppable_start(end: DeferredEnd) -> Iterator[None]:
    """Have a `ray.init` inside this block end with StartStopped where its end was asked for before its driver connects.

    The driver is native code: from there on `ray.init` is not left before it returns. Until then it only starts
    processes, which `ray.shutdown` ends. Ray sets a handler of SIGTERM that raises SystemExit in the middle of it: it
    is left out, so that this process's own handler stays.
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
    """Have a `ray.init` inside this block start fewer processes. `ray` must have been imported."""
    import ray._private.parameter
    import ray._private.services as services

    with ExitStack() as restored:
        _replace(restored, ray._private.parameter, "RayParams", _without_monitors)
        _replace(restored, services, "start_api_server", lambda _: _no_dashboard)
        _replace(restored, services, "_build_python_executable_command_memory_profileable", _with_idle_agent)
        yield


def _replace(restored: ExitStack, module: Any, name: str, made_of: Callable[[Any], Any]) -> None:
    """Put what `made_of` makes of a module's attribute in its place until `restored` closes; leave a missing one."""
    found = getattr(module, name, None)
    if found is not None:
        setattr(module, name, made_of(found))
        restored.callback(setattr, module, name, found)


def _without_monitors(params: Any) -> Any:
    return partial(params, no_monitor=True, include_log_monitor=False)


def _no_dashboard(*_args: object, **_kwargs: object) -> tuple[str, None]:
    return _NO_PROCESS


def _with_idle_agent(build: Any) -> Any:
    """Give a function that begins the command lines of Ray's Python processes: Ray's own arguments follow."""

    def begin(component: str, *args: Any, **kwargs: Any) -> Any:
        if component == _AGENT:
            return [sys.executable, "-I", "-S", str(Path(idle_agent.__file__))]
        return build(component, *args, **kwargs)

    return begin
