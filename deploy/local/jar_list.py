"""The lists of pinned jars: `sha256  organisation/name/revision/name-revision.jar`, one a line.

`kafka-jars.sha256`: all that a 4.3.1 broker, its tools and MirrorMaker 2 need at run time (resolved once from
kafka_2.13, kafka-tools, connect-runtime and connect-mirror, plus the log4j binding of slf4j, without which a broker
logs nothing). `spark-jars.sha256`: Spark's Kafka source and sink. `s3-jars.sha256`: Spark's way to buckets, which only
mirrors with such a storage need. `sha256sum -c` reads these files in the cache folder.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

USUAL = ("kafka", "spark")
"""The lists that everybody needs; their jars are in one folder."""
LISTS = {name: Path(__file__).with_name(f"{name}-jars.sha256") for name in (*USUAL, "s3")}


@dataclass(frozen=True, kw_only=True)
class Jar:
    """One pinned artifact of Maven Central."""

    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def path(self) -> Path:
        """Its path below the cache folder."""
        return Path(self.organisation, self.name, self.revision, f"{self.name}-{self.revision}.jar")


def decode_jars(text: str) -> list[Jar]:
    """Jars of a list; raises ValueError naming the line whose file name does not follow from its folders."""
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        sha256, _, path = line.partition("  ")
        parts = path.split("/")
        if len(parts) != 4 or len(sha256) != 64:
            raise ValueError(f"line {number}: expected `sha256  organisation/name/revision/file`, found {line!r}")
        jar = Jar(organisation=parts[0], name=parts[1], revision=parts[2], sha256=sha256)
        if jar.path != Path(path):
            raise ValueError(f"line {number}: the file should be called {jar.path.name}, not {parts[3]}")
        jars.append(jar)
    return jars


def listed_jars(list_name: str) -> list[Jar]:
    """The jars of the list `kafka`, `spark` or `s3`."""
    return decode_jars(LISTS[list_name].read_text())


def lists_digest(*names: str) -> str:
    """Short digest of some lists (none: the usual ones): changed lists get their own cache folder."""
    return hashlib.sha256(b"".join(LISTS[name].read_bytes() for name in names or USUAL)).hexdigest()[:12]


def wrong_jars(jars: Iterable[Jar], folder: Path) -> list[Jar]:
    """The jars that are missing from the folder or do not have the listed sha256 sum."""
    return [jar for jar in jars if not _is_right(jar, folder / jar.path)]


def _is_right(jar: Jar, path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
