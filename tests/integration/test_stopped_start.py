"""Ctrl-C and SIGTERM while `run` starts its Ray: a clear exit code, and no process and no folder is left."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness.ray_temp import ray_temp_folder
from tests.harness.shell import DEADLINE_S, Shell, write_config

pytestmark = [pytest.mark.integration, pytest.mark.ray]

Point = Callable[[Path, Path], bool]
"""Whether a start has come so far, by what it printed (a file) and the folder of its Ray."""


def _said(log: Path, _temp: Path) -> bool:
    return "starting Ray" in log.read_text()


def _found(pattern: str) -> Point:
    return lambda _log, temp: any(temp.glob(f"ray-*/{pattern}"))


POINTS: dict[str, Point] = {
    "said": _said,
    "folder": _found("raymirror-owner"),
    "gcs": _found("session_*/logs/gcs_server.out"),
    "raylet": _found("session_*/logs/raylet.out"),
    "driver": _found("session_*/logs/python-core-driver-*"),
}
"""The driver is native code: an interrupt in the middle of it crashed the process when it ended."""


def stop_at(point: Point, number: signal.Signals, shell: Shell, config: Path) -> None:
    with ray_temp_folder() as temp:
        shell.env["TMPDIR"] = temp
        process = shell.start("run", str(config))
        log, deadline = shell.folder / "run.log", time.monotonic() + DEADLINE_S
        while not point(log, Path(temp)):
            assert time.monotonic() < deadline
            assert process.poll() is None, log.read_text()
            time.sleep(0.01)
        children = _children(process)
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 128 + number, log.read_text()
        assert not psutil.wait_procs(children, timeout=DEADLINE_S)[1]
        assert not list(Path(temp).glob("ray-*"))
    assert log.read_text().endswith("the start was stopped: no mirror was started\n")
    log.unlink()


def _children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    children: list[psutil.Process] = psutil.Process(process.pid).children(recursive=True)
    return children


@pytest.fixture
def config(source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path) -> Path:
    return write_config(tmp_path, source_cluster, target_cluster, "nothing-yet")


def test_an_interrupt_while_the_driver_connects_stops_the_start(config: Path, tmp_path: Path) -> None:
    stop_at(POINTS["driver"], signal.SIGINT, Shell(tmp_path), config)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("point", POINTS)
def test_a_signal_at_any_point_of_a_start_stops_it(
    point: str, number: signal.Signals, config: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        stop_at(POINTS[point], number, Shell(tmp_path), config)
