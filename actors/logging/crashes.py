"""Keeps the Python stack of a Ray worker that crashes while Ray rotates the worker's output."""

import faulthandler
import os
import sys
from typing import Any

ROTATION = "RAY_ROTATION_MAX_BYTES"
_files: list[Any] = []
"""Open for the life of the process: `faulthandler` keeps only the descriptor."""


def keep_crash_stack() -> None:
    """Make a Ray worker write the stack of a crash into its own `.err` file, in Ray's folder.

    With rotation on, Ray 2.60 replaces stderr by a pipe that a thread of the same process reads, so the last output
    before a crash is lost with that thread. In any other process, this does nothing.
    """
    ray = sys.modules.get("ray")
    if ray is None or not os.environ.get(ROTATION) or not ray.is_initialized():
        return
    worker = ray._private.worker.global_worker
    path = worker.get_err_file_path() if worker.mode == ray.WORKER_MODE else ""
    if path:
        _files.append(open(path, "ab"))  # noqa: SIM115 - kept open on purpose
        faulthandler.enable(_files[-1])
