"""What processes would take on a machine of their own: PSS is less where others have the same files in memory.

A file page counts once, however many have it: of each mapping the largest part that one process has of it in memory.
Pages of two processes that differ there are counted once too little, so it is a little less than the truth.
"""

import re
from collections.abc import Iterable
from pathlib import Path

_HEAD = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ (?P<offset>\S+) (?P<device>\S+) (?P<inode>\d+)")
_KIB = 1024

Mapping = tuple[str, str, str]
"""Device, inode and offset of a file."""


def alone_bytes(pids: Iterable[int], proc: Path = Path("/proc")) -> int:
    """Give the memory of these processes as if no other had any of their files in memory; ended ones have none."""
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
    """Give anonymous bytes, and those of each mapping of a file."""
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
