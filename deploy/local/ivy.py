"""Fetch jars from Maven Central through the Ivy that PySpark brings.

Six processes in parallel, each with a part of the list and an Ivy folder of its own (two in one folder would wait for
each other's locks). Every artifact is listed, so POM files are not read: 98 jars take 8 s instead of 90 s. A settings
file of the user (RAYMIRROR_IVY_SETTINGS, else ~/.ivy2/ivysettings.xml) and proxies from the environment are used.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from deploy.local.errors import ClusterError, last_telling_line
from deploy.local.jar_list import Jar
from deploy.local.java import find_java, truststore_flags

PROCESSES = 6
DEADLINE_S = 900.0
PATTERN = "[organisation]/[artifact]/[revision]/[artifact]-[revision].[ext]"
# Without a root, Ivy's m2compatible resolver uses Maven Central.
OWN_SETTINGS = """<ivysettings><settings defaultResolver="central"/><resolvers>
<ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers></ivysettings>
"""


def retrieve(jars: Sequence[Jar], folder: Path, say: Callable[[str], None]) -> None:
    """Put the jars below the folder; raises ClusterError with Ivy's last telling line."""
    parts = [part for part in (jars[start::PROCESSES] for start in range(PROCESSES)) if part]
    work = Path(tempfile.mkdtemp(prefix="ivy-", dir=folder))
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for number, part in enumerate(parts):
            running.append(_start(part, folder, work / str(number)))
        for done, (process, log_file) in enumerate(running, start=1):
            _wait(process, log_file)
            say(f"  part {done} of {len(parts)} is fetched")
    finally:
        for process, _ in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    # After a failure the folder stays, because the error names a log file in it.
    shutil.rmtree(work)


def _start(part: Sequence[Jar], folder: Path, work: Path) -> tuple[subprocess.Popen[bytes], Path]:
    work.mkdir()
    module, log_file = work / "ivy.xml", work / "log.txt"
    module.write_text(encode_module(part))
    command = [str(find_java()), "-XX:TieredStopAtLevel=1", *truststore_flags(), *proxy_flags(os.environ)]
    command += ["-jar", str(_ivy_jar()), "-settings", str(_settings(work)), "-ivy", str(module)]
    command += ["-cache", str(work / "cache"), "-retrieve", str(folder / PATTERN)]
    with log_file.open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL), log_file


def _wait(process: subprocess.Popen[bytes], log_file: Path) -> None:
    try:
        code = process.wait(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise ClusterError("fetching jars", f"not done within {DEADLINE_S:.0f} s", log_file) from None
    if code != 0:
        cause = last_telling_line(log_file) or f"Ivy ended with exit code {code}; its log is empty"
        raise ClusterError("fetching jars", cause, log_file)


def encode_module(part: Sequence[Jar]) -> str:
    """An Ivy module file that asks for exactly these jars: no dependencies, no sources, no documentation."""
    lines = [
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.revision)}"
        ' transitive="false" conf="default->master(default)"/>'
        for jar in part
    ]
    head = '<ivy-module version="2.0"><info organisation="raymirror" module="jars"/>'
    confs = '<configurations><conf name="default"/></configurations>'
    return "\n".join([head, confs, "<dependencies>", *lines, "</dependencies>", "</ivy-module>", ""])


def proxy_flags(environment: Mapping[str, str]) -> list[str]:
    """JVM flags for the proxies of the environment, which curl and pip use; a JVM does not read them itself."""
    flags = []
    for scheme in ("http", "https"):
        url = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        proxy = urlsplit(url) if url else None
        if proxy is not None and proxy.hostname:
            flags.append(f"-D{scheme}.proxyHost={proxy.hostname}")
            flags.append(f"-D{scheme}.proxyPort={proxy.port or 80}")
    exempt = environment.get("no_proxy") or environment.get("NO_PROXY")
    if flags and exempt:
        # curl writes .example.org for a domain, Java *.example.org.
        hosts = [f"*{host}" if host.startswith(".") else host for host in (part.strip() for part in exempt.split(","))]
        flags.append(f"-Dhttp.nonProxyHosts={'|'.join(host for host in hosts if host)}")
    return flags


def _settings(work: Path) -> Path:
    named = os.environ.get("RAYMIRROR_IVY_SETTINGS")
    if named:
        if not Path(named).is_file():
            raise ClusterError("fetching jars", f"RAYMIRROR_IVY_SETTINGS names {named}, which is not a file")
        return Path(named)
    usual = Path.home() / ".ivy2" / "ivysettings.xml"
    if usual.is_file():
        return usual
    own = work / "settings.xml"
    own.write_text(OWN_SETTINGS)
    return own


def _ivy_jar() -> Path:
    # Found without importing pyspark, which takes a second.
    spec = find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    for folder in folders:
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise ClusterError("fetching jars", "no ivy-*.jar in pyspark/jars; is PySpark installed?")
