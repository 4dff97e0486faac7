"""Checks that the machine allows enough open files and disk, before a broker starts."""

import resource
import shutil
from pathlib import Path

from deploy.local.errors import ClusterError

# 1,000 idle partitions cost a broker 1,001 descriptors; class path, connections and Ray come on top.
OPEN_FILES_WANTED = 65536
OPEN_FILES_NEEDED = 4096
FREE_DISK_MIB = 512


def raise_open_files() -> int:
    """Raise this process's soft limit of open files, which brokers inherit; raises ClusterError if it stays too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft != resource.RLIM_INFINITY and soft < OPEN_FILES_NEEDED:
        raise ClusterError(
            "too few open files allowed for a broker",
            f"the hard limit is {hard}, {OPEN_FILES_NEEDED} are needed (ulimit -Hn)",
        )
    return soft


def require_disk(folder: Path) -> None:
    """Raise ClusterError if the disk of the folder is almost full: a broker would fail while it runs."""
    free_mib = shutil.disk_usage(folder).free // (1024 * 1024)
    if free_mib < FREE_DISK_MIB:
        raise ClusterError("the disk is full", f"{free_mib} MiB free in {folder}, a broker needs {FREE_DISK_MIB} MiB")
