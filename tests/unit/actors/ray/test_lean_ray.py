"""raymirror's own Ray starts without unneeded parts, and Ray's functions are restored afterwards."""

import inspect
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.local.ending import DeferredEnd
from actors.ray import idle_agent
from actors.ray.lean_ray import StartStopped, lean_start, stoppable_start
from tests.harness.eventually import until_equal

NODE = "f0" * 28
BUILD = "_build_python_executable_command_memory_profileable"


def test_the_release_that_is_installed_has_what_is_replaced() -> None:
    from ray._private import parameter, ray_constants, services

    assert {"no_monitor", "include_log_monitor"} <= inspect.signature(parameter.RayParams).parameters.keys()
    assert "return dashboard_url, process_info" in inspect.getsource(services.start_api_server)
    assert next(iter(inspect.signature(getattr(services, BUILD)).parameters)) == "component"
    assert ray_constants.PROCESS_TYPE_DASHBOARD_AGENT == "dashboard_agent"


def test_the_ports_that_our_agent_notes_are_those_of_rays_agent() -> None:
    from ray import _raylet

    raylet: Any = _raylet
    names = (raylet.METRICS_AGENT_PORT_NAME, raylet.METRICS_EXPORT_PORT_NAME, raylet.DASHBOARD_AGENT_LISTEN_PORT_NAME)
    assert names == idle_agent.PORTS
    assert raylet.get_port_filename(NODE, names[0]) == f"{names[0]}_{NODE}"


def test_inside_ray_starts_neither_monitors_nor_a_dashboard_and_our_agent() -> None:
    from ray._private import parameter, services

    with lean_start():
        params: Any = parameter.RayParams(num_cpus=1)
        assert params.no_monitor
        assert params.include_log_monitor is False
        start: Any = services.start_api_server
        assert start(False, raise_on_failure=False) == ("", None)
        build: Any = getattr(services, BUILD)
        assert build("dashboard_agent", "/s") == [sys.executable, "-I", "-S", idle_agent.__file__]
        assert build("runtime_env_agent", "/s") == [sys.executable, "-u"]


def test_afterwards_ray_is_as_it_was_also_when_a_start_fails() -> None:
    from ray._private import parameter, services

    before = (parameter.RayParams, services.start_api_server, getattr(services, BUILD))
    with pytest.raises(OSError, match="no room"), lean_start():
        raise OSError("no room")
    assert (parameter.RayParams, services.start_api_server, getattr(services, BUILD)) == before


def test_a_release_without_such_a_part_starts_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import services

    monkeypatch.delattr(services, BUILD)
    with lean_start():
        start: Any = services.start_api_server
        assert start() == ("", None)
    assert not hasattr(services, BUILD)


@pytest.mark.local
async def test_our_agent_notes_that_there_are_no_ports_and_ends_with_the_raylet(tmp_path: Path) -> None:
    from ray import _raylet

    agent = [sys.executable, "-I", "-S", idle_agent.__file__, "/ray/dashboard/agent.py"]
    agent += [f"--session-dir={tmp_path}", f"--node-id={NODE}", "--head", "--stdout-filepath="]
    script = f"import subprocess, sys\nprint(subprocess.Popen({agent!r}).pid, flush=True)\nsys.stdin.read()"
    raylet = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert raylet.stdin is not None
    assert raylet.stdout is not None
    pid = int(raylet.stdout.readline())
    known: Any = _raylet
    for name in idle_agent.PORTS:
        assert known.wait_for_persisted_port(str(tmp_path), NODE, name) == -1

    async def runs() -> bool:
        return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""

    assert await runs()
    raylet.stdin.close()
    raylet.wait()
    raylet.stdout.close()
    await until_equal(runs, False)


def test_a_start_is_left_before_the_driver_connects_and_rays_handler_of_sigterm_is_left_out() -> None:
    from ray._private import utils, worker

    source = inspect.getsource(worker)
    assert "\n    connect(\n" in source  # what `init` calls, by this name
    assert "ray._private.utils.set_sigterm_handler(" in source
    connect, set_handler = worker.connect, utils.set_sigterm_handler
    before = signal.getsignal(signal.SIGTERM)
    asked = DeferredEnd()
    asked.numbers.append(signal.SIGTERM)
    with pytest.raises(StartStopped), stoppable_start(asked):  # noqa: PT012 - what is replaced, inside
        utils.set_sigterm_handler(signal.SIG_IGN)  # type: ignore[no-untyped-call]
        assert signal.getsignal(signal.SIGTERM) == before
        worker.connect(None)
    assert (worker.connect, utils.set_sigterm_handler) == (connect, set_handler)
