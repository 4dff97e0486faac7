"""Keep Kafka's and Spark's jars in the user's cache: fetched once, checked against the sums of `jar_list`.

<cache>/raymirror/jars-<digest>/          complete: renamed into place when every sum was right
<cache>/raymirror/s3-jars-<digest>/       the same for the jars of `raymirror setup s3`
<cache>/raymirror/jars-<digest>.part/     being fetched; jars in it with the right sum are not fetched again
<cache>/raymirror/jars.lock               held while fetching
"""

import fcntl
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.local import ivy
from deploy.local.errors import ClusterError
from deploy.local.jar_list import Jar, listed_jars, lists_digest, wrong_jars

DOWNLOAD_MIB, S3_DOWNLOAD_MIB = 60, 6
Say = Callable[[str], None]


def say_aloud(line: str) -> None:
    """Write a line of progress to stderr, apart from a command's output."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@functools.cache
def kafka_classpath() -> str:
    """Class path of a broker, its tools and MirrorMaker 2; fetches missing jars."""
    folder = ensure_jars(say_aloud)
    return os.pathsep.join(str(folder / jar.path) for jar in listed_jars("kafka"))


@functools.cache
def spark_jar_paths() -> tuple[Path, ...]:
    """Paths of the jars for `spark.jars`; fetches missing jars."""
    folder = ensure_jars(say_aloud)
    return tuple(folder / jar.path for jar in listed_jars("spark"))


def cache_folder() -> Path:
    """The user's cache folder of raymirror, or the one that RAYMIRROR_CACHE names: an image has its own."""
    named = os.environ.get("RAYMIRROR_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raymirror"


def ensure_jars(say: Say, cache: Path | None = None) -> Path:
    """Folder with every listed jar, checked; raises ClusterError if one cannot be fetched."""
    jars = listed_jars("kafka") + listed_jars("spark")
    return ensure_in(cache or cache_folder(), f"jars-{lists_digest()}", jars, say)


def s3_jar_paths(cache: Path | None = None) -> tuple[Path, ...]:
    """Paths of the jars for `s3a:`; empty if one is missing or wrong, because only `ensure_s3_jars` fetches them."""
    folder, jars = _s3_folder(cache), listed_jars("s3")
    return () if wrong_jars(jars, folder) else tuple(folder / jar.path for jar in jars)


def ensure_s3_jars(say: Say, cache: Path | None = None) -> Path:
    """Folder with the jars for `s3a:`, checked; raises ClusterError if one cannot be fetched."""
    return ensure_in(cache or cache_folder(), _s3_folder(cache).name, listed_jars("s3"), say, S3_DOWNLOAD_MIB)


def _s3_folder(cache: Path | None) -> Path:
    return (cache or cache_folder()) / f"s3-jars-{lists_digest('s3')}"


def ensure_in(cache: Path, name: str, jars: Sequence[Jar], say: Say, mib: int = DOWNLOAD_MIB) -> Path:
    """Folder `name` of the cache with all of these jars, checked; raises ClusterError if one cannot be fetched."""
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    if not wrong_jars(jars, folder):
        return folder
    with locked(cache / "jars.lock", lambda: say("another process is fetching the jars; waiting for it")):
        if wrong_jars(jars, folder):
            _fetch_into(folder, jars, say, mib)
    return folder


def _fetch_into(folder: Path, jars: Sequence[Jar], say: Say, mib: int) -> None:
    part = folder.with_name(folder.name + ".part")
    if folder.exists():
        # A file of it was lost or changed: keep the right ones.
        folder.rename(part)
    part.mkdir(exist_ok=True)
    wrong = wrong_jars(jars, part)
    say(f"fetching {len(wrong)} of {len(jars)} jars (all: {mib} MiB) into {folder}")
    ivy.retrieve(wrong, part, say)
    if wrong := wrong_jars(jars, part):
        names = ", ".join(str(jar.path) for jar in wrong[:3])
        raise ClusterError(
            "jars from the repository are not the ones listed",
            f"{len(wrong)} with other sha256 sums than deploy/local lists, e.g. {names}; does a proxy alter them?",
        )
    part.rename(folder)


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[bool]:
    """Hold a lock file of the cache. If another process holds it: wait, after a call of `waiting`; without `waiting`
    do not wait, and yield False.
    """
    with path.open("w") as file:
        is_held = True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_held = waiting is not None
            if waiting is not None:
                waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
        yield is_held
