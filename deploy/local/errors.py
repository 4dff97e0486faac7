"""The error of an embedded cluster: what happened, the cause, the log file; and how a log is searched for the cause."""

import os
import re
from pathlib import Path

TAIL_BYTES = 256 * 1024
TELLING = re.compile(
    r"\b(?:ERROR|FATAL|SEVERE|Exception|[A-Za-z]+Exception|[A-Za-z]*Error)\b|No space left|UNRESOLVED|FAILED"
)
# A stack trace names its root last, and the root is what the reader wants.
ROOT = re.compile(r"^Caused by: ")


class ClusterError(Exception):
    """An embedded cluster cannot do what was asked: `what` happened, its `cause`, and the log file that shows it."""

    def __init__(self, what: str, cause: str, log_file: Path | None = None) -> None:
        super().__init__(what, cause, log_file)
        self.what = what
        self.cause = cause
        self.log_file = log_file

    def __str__(self) -> str:
        where = f" (log: {self.log_file})" if self.log_file is not None else ""
        return f"{self.what}: {self.cause}{where}"


def last_telling_line(log_file: Path) -> str | None:
    """The last root cause in the log, else its last error, else its last line; None if it has none."""
    if not log_file.exists():
        return None
    lines = [line for line in _tail(log_file).splitlines() if line.strip()]
    for pattern in (ROOT, TELLING):
        for line in reversed(lines):
            if pattern.search(line) and not line.lstrip().startswith("at "):
                return line.strip()
    return lines[-1].strip() if lines else None


def _tail(log_file: Path) -> str:
    with log_file.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        return file.read().decode("utf-8", errors="replace")
