"""Checks what a machine lacks, before anything is installed or started.

It runs by path with the bare interpreter, before the virtual environment exists: standard library only, and no syntax
that Python 3.7 cannot parse, so that an unfit Python gets a sentence instead of a traceback.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import resource
import shutil
import sys
import tempfile

MIB = 1024 * 1024
GIB = 1024 * MIB

# Measured on a clean machine: what pip fetches and unpacks for requirements.lock, and the jars.
PACKAGES_DOWNLOAD_MIB = 570
PACKAGES_DISK_GIB = 2.0
JARS_DOWNLOAD_MIB = 60
# Two brokers, a demo's data twice, Ray's session folder.
RUN_DISK_GIB = 4
# Two broker heaps of 1 GiB at most, Ray's daemons, two copiers.
RUN_MEMORY_GIB = 3
# Ray puts its object store (100 MB) there and warns or falls back to the disk below it.
SHARED_MEMORY_MIB = 150
OPEN_FILES = 4096


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Say what this machine lacks.")
    parser.add_argument("--venv", default=".venv", help="folder of the virtual environment")
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument("--about-to-install", action="store_true")
    stage.add_argument("--about-to-run", action="store_true")
    asked = parser.parse_args(argv)
    ready = os.path.exists(os.path.join(asked.venv, ".ready"))
    missing = run_problems()
    if not asked.about_to_run:
        missing = python_problems() + ([] if ready else install_problems(asked.venv)) + missing
    for line in missing:
        sys.stderr.write(f"missing: {line}\n")
    if asked.about_to_install and not missing:
        print_download_sizes()
    elif not asked.about_to_run and not missing:
        sys.stdout.write("nothing is missing%s\n" % (": set up" if ready else "; not set up yet"))
    return 2 if missing else 0


def print_download_sizes() -> None:
    sys.stdout.write(
        f"Setting up: about {PACKAGES_DOWNLOAD_MIB} MiB of Python packages, {PACKAGES_DISK_GIB} GiB on disk; "
        f"later, once, {JARS_DOWNLOAD_MIB} MiB of Kafka and Spark jars.\n"
    )
    sys.stdout.flush()


def python_problems() -> list[str]:
    found = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    problems = []
    if sys.version_info[:2] != (3, 11) or platform.python_implementation() != "CPython":
        problems.append(f"CPython 3.11; this is {found} (or: make PYTHON=/path/to/python3.11 ...)")
    elif importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        problems.append(f"the venv and ensurepip modules of {found} (Debian: apt install python3.11-venv)")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        problems.append(f"Linux on x86_64; this is {platform.system()} on {platform.machine()}")
    return problems


def install_problems(venv: str) -> list[str]:
    return disk_problem(os.path.dirname(os.path.abspath(venv)), PACKAGES_DISK_GIB, "the Python packages")


def run_problems() -> list[str]:
    temporary = tempfile.gettempdir()
    return disk_problem(temporary, RUN_DISK_GIB, "brokers and Ray") + memory_problems() + limit_problems()


def disk_problem(folder: str, wanted_gib: float, purpose: str) -> list[str]:
    free_gib = shutil.disk_usage(folder).free / float(GIB)
    if free_gib >= wanted_gib:
        return []
    return [f"{wanted_gib:.1f} GiB of free disk in {folder} for {purpose}; it has {free_gib:.1f} GiB"]


def memory_problems() -> list[str]:
    problems = []
    free_gib = available_memory_bytes() / float(GIB)
    if free_gib < RUN_MEMORY_GIB:
        problems.append(f"{RUN_MEMORY_GIB} GiB of free memory for two brokers and Ray; there are {free_gib:.1f} GiB")
    shared_mib = shutil.disk_usage("/dev/shm").free / float(MIB) if os.path.isdir("/dev/shm") else 0.0
    if shared_mib < SHARED_MEMORY_MIB:
        problems.append(
            f"{SHARED_MEMORY_MIB} MiB of shared memory in /dev/shm for Ray; it has {shared_mib:.0f} MiB "
            "(in a container: --shm-size=1g)"
        )
    return problems


def available_memory_bytes() -> int:
    """Free memory of the machine, or of the container if that has less."""
    with open("/proc/meminfo") as meminfo:
        fields = dict(line.split(":", 1) for line in meminfo)
    machine_bytes = int(fields["MemAvailable"].split()[0]) * 1024
    limit_bytes = read_number("/sys/fs/cgroup/memory.max")
    used_bytes = read_number("/sys/fs/cgroup/memory.current")
    if limit_bytes is None or used_bytes is None:
        return machine_bytes
    return min(machine_bytes, limit_bytes - used_bytes)


def read_number(path: str) -> int | None:
    try:
        with open(path) as file:
            text = file.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def limit_problems() -> list[str]:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or hard >= OPEN_FILES:
        return []
    return [f"a limit of {OPEN_FILES} open files (ulimit -Hn); it is {hard}"]


if __name__ == "__main__":
    sys.exit(main())
