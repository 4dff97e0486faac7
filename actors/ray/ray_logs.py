"""Removes log files of Ray workers that have ended: Ray (2.60) keeps them all for as long as its session lives."""

import contextlib
import os
import re
from pathlib import Path
from typing import Final

KEPT_FILES: Final = 200
"""Newest files of ended workers that are kept: a worker leaves five, so those of the last 40."""
_OF_PROCESS: Final = re.compile(r"[-_](\d+)\.(?:log|out|err)(?:\.\d+)?$")
"""Ray's names of worker files: worker-ID-JOB-PID.err, python-core-worker-ID_PID.log, event_CORE_WORKER_PID.log."""


def prune_ended(logs: Path, kept_files: int = KEPT_FILES) -> None:
    """Remove files of ended processes below `logs`, except the newest `kept_files`."""
    ended: list[tuple[float, Path]] = []
    for path in logs.rglob("*"):
        named = _OF_PROCESS.search(path.name)
        if named is None or os.path.exists(f"/proc/{named[1]}"):
            continue
        with contextlib.suppress(FileNotFoundError):  # Ray moves files too
            ended.append((path.lstat().st_mtime, path))
    for _, path in sorted(ended, reverse=True)[kept_files:]:
        path.unlink(missing_ok=True)
