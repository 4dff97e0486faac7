"""Find the line of a log that says why its writer gave up."""

import os
import re
from pathlib import Path

TAIL_BYTES = 256 * 1024
TELLING = re.compile(
    r"\b(?:ERROR|FATAL|SEVERE|Exception|[A-Za-z]+Exception|[A-Za-z]*Error)\b|No space left|UNRESOLVED|FAILED"
)
# A stack trace names its root last, and the root is what the reader wants.
ROOT = re.compile(r"^Caused by: ")


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
