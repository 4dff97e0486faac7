"""Command lines of Kafka's Java programs."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from deploy.local.class_archive import reading_flags
from deploy.local.errors import ClusterError, last_telling_line
from deploy.local.jars import kafka_classpath
from deploy.local.java import find_java

# For programs that end in seconds: no optimising compiler, no collector threads.
QUICK_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# As kafka-run-class.sh starts servers.
SERVER_FLAGS = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")


def java_command(
    main_class: str,
    *args: str,
    heap_mib: int,
    flags: Sequence[str] = (),
    log_configuration: Path | None = None,
    classpath: str = "",
) -> list[str]:
    """The command line of one of Kafka's programs; `classpath`: the jars of another release.

    Raises ClusterError without Java or jars.
    """
    log_flags = [f"-Dlog4j2.configurationFile={log_configuration}"] if log_configuration is not None else []
    # log4j2 without any configuration prints errors only, which suits tools.
    command = [str(find_java()), f"-Xmx{heap_mib}m", *flags, "-Djava.awt.headless=true", *log_flags]
    return [*command, "-cp", classpath or kafka_classpath(), main_class, *args]


def run_tool(main_class: str, *args: str, timeout_s: float = 120.0, heap_mib: int = 512) -> str:
    """Run one of Kafka's programs to its end and return its output; raises ClusterError if it fails."""
    command = java_command(main_class, *args, heap_mib=heap_mib, flags=(*QUICK_FLAGS, *reading_flags()))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(main_class, f"not done within {timeout_s:.0f} s") from None
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise ClusterError(f"{main_class} ended with exit code {done.returncode}", output)
    return done.stdout


def start_tool(
    main_class: str,
    *args: str,
    log_file: Path,
    heap_mib: int = 512,
    flags: Sequence[str] = (),
    log_configuration: Path | None = None,
    classpath: str = "",
) -> subprocess.Popen[bytes]:
    """Start one of Kafka's programs, with its output in the log file; the caller must end it."""
    archived = () if classpath else reading_flags()
    command = java_command(
        main_class,
        *args,
        heap_mib=heap_mib,
        flags=(*flags, *archived),
        log_configuration=log_configuration,
        classpath=classpath,
    )
    with log_file.open("ab") as log:
        return subprocess.Popen(
            # A session of its own: Ctrl-C reaches only this process, which then stops the program in order.
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def require_success(process: subprocess.Popen[bytes], what: str, log_file: Path) -> None:
    """Raise ClusterError with the log's telling line if the ended process failed."""
    if process.returncode != 0:
        cause = last_telling_line(log_file) or "its log is empty"
        raise ClusterError(f"{what} ended with exit code {process.returncode}", cause, log_file)
