"""The log files of a running Ray that a mirror removes, and when it checks."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from actors.cli.running.housekeeping import PRUNE_S, Housekeeping
from actors.ray.ray_logs import KEPT_FILES, prune_ended
from tests.unit.actors.fakes import Clock

NOBODY = 2**22 + 1
"""Above Linux's greatest process id."""
OF_A_WORKER = (
    "python-core-worker-0a1b_{pid}.log",
    "worker-0a1b-ffffffff-{pid}.out",
    "worker-0a1b-ffffffff-{pid}.err",
    "events/event_CORE_WORKER_{pid}.log",
    "export_events/event_EXPORT_TASK_{pid}.log",
)
OF_RAY = ("gcs_server.out", "raylet.err", "monitor.log", "raylet.out.1", "debug_state.txt", "events/event_GCS.log")


def make(logs: Path, names: tuple[str, ...], pid: int, at: int) -> set[Path]:
    made = {logs / name.format(pid=pid) for name in names}
    for path in made:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        os.utime(path, (at, at))
    return made


def files(logs: Path) -> set[Path]:
    return {path for path in logs.rglob("*") if path.is_file()}


def test_the_oldest_files_of_ended_workers_go(tmp_path: Path) -> None:
    kept = make(tmp_path, OF_RAY, 0, 1) | make(tmp_path, OF_A_WORKER, os.getpid(), 1)
    make(tmp_path, OF_A_WORKER, NOBODY, 2)
    make(tmp_path, ("worker-0a1b-ffffffff-{pid}.err.1",), NOBODY, 2)
    kept |= make(tmp_path, OF_A_WORKER, NOBODY + 1, 3)
    prune_ended(tmp_path, kept_files=len(OF_A_WORKER))
    assert files(tmp_path) == kept


def test_few_files_stay(tmp_path: Path) -> None:
    made = make(tmp_path, OF_A_WORKER, NOBODY, 2)
    prune_ended(tmp_path)
    assert files(tmp_path) == made
    prune_ended(tmp_path / "gone")


def test_a_mirror_looks_now_and_then(tmp_path: Path) -> None:
    clock = Clock()
    keeping = Housekeeping(None, tmp_path, clock.now_s)
    for number in range(KEPT_FILES // len(OF_A_WORKER) + 1):
        make(tmp_path, OF_A_WORKER, NOBODY + number, number)
    keeping.run_due()
    assert len(files(tmp_path)) == KEPT_FILES + len(OF_A_WORKER)
    clock.seconds += PRUNE_S
    keeping.run_due()
    assert len(files(tmp_path)) == KEPT_FILES
    Housekeeping(None, None).run_due()


def test_a_failure_is_said_once_and_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Full:
        def rotate_if_full(self) -> None:
            raise OSError(errno.EMFILE, "too many open files")

    full: Any = Full()
    keeping = Housekeeping(full, None)
    keeping.run_due()
    keeping.run_due()
    assert capsys.readouterr().err.count("old logs cannot be removed") == 1
