"""Memory that processes would take alone on a machine. PSS is less if other processes have the same files in memory.

A file page counts once, however many processes have it: of each mapping the largest part that one process has in
memory. If two processes have different pages of a mapping, some are not counted, so the result is a little too low.
"""

import re
from collections.abc import Iterable
from pathlib import Path

_HEAD = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ (?P<offset>\S+) (?P<device>\S+) (?P<inode>\d+)")
_KIB = 1024

Mapping = tuple[str, str, str]
"""Device, inode and offset of a file."""


def alone_bytes(pids: Iterable[int], proc: Path = Path("/proc")) -> int:
    """Return the memory of these processes as if no other had their files in memory; ended ones have none."""
    anonymous = 0
    files: dict[Mapping, int] = {}
    for pid in pids:
        try:
            lines = (proc / str(pid) / "smaps").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        own, shared = _of_process(lines)
        anonymous += own
        for mapping, size in shared.items():
            files[mapping] = max(files.get(mapping, 0), size)
    return anonymous + sum(files.values())


def _of_process(lines: Iterable[str]) -> tuple[int, dict[Mapping, int]]:
    """Return anonymous bytes, and the bytes of each mapping of a file."""
    anonymous, files, mapping = 0, dict[Mapping, int](), ("", "0", "")
    for line in lines:
        if (head := _HEAD.match(line)) is not None:
            mapping = (head["device"], head["inode"], head["offset"])
        elif line.startswith("Rss:"):
            size = int(line.split()[1]) * _KIB
            if mapping[1] == "0":
                anonymous += size
            else:
                files[mapping] = files.get(mapping, 0) + size
        elif line.startswith("Anonymous:") and mapping[1] != "0":  # a page of a file that was written to
            size = int(line.split()[1]) * _KIB
            anonymous += size
            files[mapping] -= size
    return anonymous, files
