"""Reads and follows a mirror's logs from any shell on its machine: the files of all processes, merged by time."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from actors.local import session
from actors.logging.logs import SUFFIX, log_folder

LEVELS: Final = ("debug", "info", "warning", "error", "critical")


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line, as actors/logging/logs.py writes it."""

    time: str
    level: str
    role: str
    text: str
    flow: str = ""
    set: str = ""
    epoch: int = -1
    event: str = ""
    logger: str = ""
    error: str = ""
    repeated: int = 0
    left_out: int = 0


class LineFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects lines; `since` in the time format of the lines."""

    flow: str | None = None
    level: str = "info"
    since: str = ""

    def accepts(self, line: LogLine) -> bool:
        level = LEVELS.index(line.level) if line.level in LEVELS else len(LEVELS)
        return (
            self.flow in (None, line.flow)
            and level >= LEVELS.index(self.level)
            and line.time >= self.since  # ISO 8601 in UTC sorts as text
        )


class LogReader:
    """Reads the files of one folder; each `read` returns the lines since the last one, in order of time.

    A file is identified by its inode, so a rotated file is read to its end and no line is read twice.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[tuple[int, int], int] = {}

    def read(self) -> list[LogLine]:
        lines: list[LogLine] = []
        before, self._read = self._read, {}
        for path in sorted(self._folder.glob(f"*{SUFFIX}*")):
            try:
                with path.open("rb") as file:
                    lines += self._new_lines(file.fileno(), before)
            except FileNotFoundError:
                continue  # rotated or pruned just now
        return sorted(lines, key=lambda line: line.time)

    def _new_lines(self, descriptor: int, before: Mapping[tuple[int, int], int]) -> Iterable[LogLine]:
        stat = os.fstat(descriptor)
        key = stat.st_dev, stat.st_ino
        at = before.get(key, 0)
        if stat.st_size < at:
            at = 0  # the inode now belongs to another file
        data = os.pread(descriptor, stat.st_size - at, at)
        whole = data[: data.rfind(b"\n") + 1]  # the last line may still be being written
        self._read[key] = at + len(whole)
        return (line for text in whole.splitlines() if (line := _decoded(text)) is not None)


def _decoded(text: bytes) -> LogLine | None:
    try:
        return msgspec.json.decode(text, type=LogLine)
    except msgspec.DecodeError:
        return None  # written by another version, or not by raymirror


class FoundLogs(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of a mirror's logs; `note` names the mirror if no name was given and no mirror runs."""

    folder: Path
    note: str = ""


def find_logs(name: str | None, env: Mapping[str, str]) -> FoundLogs:
    """Find the logs of a mirror: the named one, the one that runs, or the one that logged last. It need not run.

    Raises NoMirror; SeveralMirrors if several run.
    """
    top = log_folder("", env)
    known = {path.name for path in top.glob("*") if path.is_dir()}
    if name is not None:
        known &= {name, session.namespace_of(name)}
    if not known:
        raise session.NoMirror(f"no logs in {top}")
    if name is not None:
        return FoundLogs(folder=top / known.pop())
    running = {state.namespace for state in session.living(env)} & known
    if len(running) > 1:
        raise session.SeveralMirrors(tuple(session.short_name(one) for one in sorted(running)))
    if running:
        return FoundLogs(folder=top / running.pop())
    latest = max(sorted(known), key=lambda one: _last_logged_ns(top / one))
    note = _none_runs(session.short_name(latest), sorted(map(session.short_name, known)))
    return FoundLogs(folder=top / latest, note=note)


def _none_runs(shown: str, known: list[str]) -> str:
    if len(known) == 1:
        return f"no mirror runs here; these are the logs of mirror {shown}"
    return (
        f"no mirror runs here, and several mirrors have logs here: {', '.join(known)}; these are of mirror {shown},"
        " which logged last; choose another with --mirror NAME"
    )


def _last_logged_ns(folder: Path) -> int:
    times = []
    for path in folder.glob(f"*{SUFFIX}*"):
        with contextlib.suppress(FileNotFoundError):  # rotated or pruned just now
            times.append(path.stat().st_mtime_ns)
    return max(times, default=0)


def line_text(line: LogLine) -> str:
    where = " ".join(part for part in (line.role, line.flow if line.flow not in line.set else "", line.set) if part)
    count = f" ({line.repeated} times more)" if line.repeated else ""
    if line.left_out:
        count = f" (and {line.left_out} more like this)"
    who = f"{line.logger}: " if line.logger else ""
    error = f"\n{line.error}" if line.error else ""
    return f"{line.time} {line.level:<7} {where}: {who}{line.text}{count}{error}"
