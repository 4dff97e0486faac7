"""Writes the logs: JSON lines in files of the mirror on each machine, size-rotated, repeats folded, without secrets.

Every process of a mirror writes a file of its own under `$XDG_STATE_HOME/raymirror/logs/<namespace>/`; `raymirror logs`
merges them. In each actor, once, and at its end:

    logs = setup_logging(namespace, "copier-1", flow="A->B")
    log_event(event)                  # for every typed event that this process makes
    log_progress_events(progress)     # in a copier: the events of a snapshot, with set and epoch
    log_sentence("warning", "...")    # for anything else
    logs.close()

Other lines go through `logging.getLogger("raymirror")`, with `extra={"flow": ..., "set": ..., "epoch": ...}` if they
are about one. Log lines of libraries are included from WARNING on.
"""

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.local import session
from actors.logging.crashes import keep_crash_stack
from actors.logging.folding import Folded, Folding
from engine.base.clock import now_s
from engine.base.redaction import hide_in_tracebacks, redacted, remember_environment
from engine.core.events.events import Event
from engine.core.reports.progress import FlowProgress

FILE_BYTES = 2 * 1024 * 1024
OLD_FILES = 2
"""Rotated files of each process, besides the present one."""
KEPT_BYTES = 64 * 1024 * 1024
KEPT_S = 14 * 86_400.0
LOOK_S = 5.0
"""Seconds between two checks whether counts of repeats are due, while there are any."""
SUFFIX: Final = ".jsonl"
_MOST_TEXT = 4000
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_log = logging.getLogger("raymirror")


def log_folder(namespace: str, env: Mapping[str, str]) -> Path:
    return session.folder(env).parent / "logs" / namespace


def log_event(event: Event, *, set_id: str = "", epoch: int = -1) -> None:
    """Log a typed event; `set_id` and `epoch`: for events that do not have them."""
    kind = type(event).__struct_config__.tag
    extra = {
        "flow": str(event.flow),
        "set": getattr(event, "set_id", set_id),
        "epoch": epoch,
        "event": kind,
    }
    _log.log(_LEVELS[event.severity], "%s", event.text(), extra=extra)


def log_progress_events(progress: FlowProgress) -> None:
    """Log the events of a copier's snapshot; events of a lane get its set and epoch."""
    if not progress.events:
        return
    held = {lane.lane: (lane.set_id, lane.epoch) for lane in progress.lanes}
    for event in progress.events:
        set_id, epoch = held.get(getattr(event, "lane", None), ("", -1))  # type: ignore[arg-type] # None: no lane
        log_event(event, set_id=set_id, epoch=epoch)


def log_sentence(severity: str, text: str, flow: str = "") -> None:
    """Log a text that is no typed event: a failure that is retried, something about the process itself.

    Name the flow in the text: equal texts are folded into one line and a count.
    """
    _log.log(_LEVELS[severity], "%s", text, extra={"flow": flow})


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, role, flow, set, epoch, event, text, and optional fields."""

    def __init__(self, role: str, flow: str = "") -> None:
        super().__init__()
        self._role, self._flow = role, flow

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "role": self._role,
            "flow": getattr(record, "flow", "") or self._flow,
            "set": getattr(record, "set", ""),
            "epoch": getattr(record, "epoch", -1),
            "event": getattr(record, "event", ""),
            "text": redacted(record.getMessage())[:_MOST_TEXT],
        }
        if record.name != _log.name:
            line["logger"] = record.name
        if record.exc_info:
            line["error"] = redacted(self.formatException(record.exc_info))[-_MOST_TEXT:]
        for key in ("repeated", "left_out"):
            if count := getattr(record, key, 0):
                line[key] = count
        return msgspec.json.encode(line).decode()


class _Model(msgspec.Struct, frozen=True):
    """The fields that lines of one kind share."""

    name: str
    level: int
    flow: str
    event: str


class FoldingHandler(logging.Handler):
    """Folds records and passes them to another handler.

    While repeats are counted, a thread checks every `look_s` seconds whether counts are due; otherwise no thread runs.
    """

    def __init__(self, inner: logging.Handler, look_s: float = LOOK_S, clock: Callable[[], float] = now_s) -> None:
        super().__init__()
        self._inner = inner
        self._folding = Folding()
        self._models: dict[str, _Model] = {}
        self._look_s, self._clock = look_s, clock
        self._ended = threading.Event()
        self._watched = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):
            self.handleError(record)  # a pattern and arguments that do not fit
            return
        kind, now = _kind_of(record), self._clock()
        self._say(self._folding.due(now))
        if self._folding.admit(now, kind, text):
            self._inner.handle(record)
            return
        self._models.setdefault(kind, _model_of(record))
        if not self._watched and not self._ended.is_set():
            self._watched = True
            threading.Thread(target=self._keep_watch, name="log folding", daemon=True).start()

    def _keep_watch(self) -> None:
        while not self._ended.wait(self._look_s):
            self.acquire()
            try:
                self._say(self._folding.due(self._clock()))
                if not self._folding.holds_back:
                    self._watched = False
                    self._models.clear()
                    return
            finally:
                self.release()

    def _say(self, folded: Iterable[Folded]) -> None:
        for one in folded:
            model = self._models.get(one.kind, _Model("raymirror", logging.WARNING, "", ""))
            record = logging.LogRecord(model.name, model.level, "", 0, one.text, None, None)
            record.flow, record.event = model.flow, model.event
            record.repeated, record.left_out = one.repeated, one.left_out
            self._inner.handle(record)

    def close(self) -> None:
        """Write the counts, and close the file."""
        self._ended.set()
        self.acquire()
        try:
            self._say(self._folding.rest())
        finally:
            self.release()
        self._inner.close()
        super().close()


def _model_of(record: logging.LogRecord) -> _Model:
    return _Model(record.name, record.levelno, getattr(record, "flow", ""), getattr(record, "event", ""))


def _kind_of(record: logging.LogRecord) -> str:
    """Return the kind of a line, by which repeats are folded: event and flow, or logger and message pattern."""
    event = getattr(record, "event", "")
    return f"{event} {getattr(record, 'flow', '')}" if event else f"{record.name} {record.msg}"[:200]


class _PrivateFile(RotatingFileHandler):
    """A rotating file that only its owner may read."""

    def _open(self) -> Any:
        def private(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        return open(self.baseFilename, self.mode, encoding=self.encoding, opener=private)


class Logs:
    """The open log of this process."""

    def __init__(self, handler: logging.Handler, path: Path | None) -> None:
        self._handler = handler
        self.path = path
        """None if no file could be opened: then the log goes to stderr, which Ray keeps."""

    def close(self) -> None:
        """Write the counts, and remove the handler."""
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()


def setup_logging(namespace: str, role: str, *, flow: str = "", env: Mapping[str, str] = os.environ) -> Logs:
    """Log to a file of this process from now on; an unwritable folder does not stop a mirror (`Logs.path` is None).

    `flow`: the flow of all lines of this process, in a copier.
    """
    keep_crash_stack()
    remember_environment(os.environ)
    hide_in_tracebacks()
    wanted = log_folder(namespace, env) / f"{_UNSAFE.sub('_', role)}.{os.getpid()}{SUFFIX}"
    inner, path = _open(wanted)
    inner.setFormatter(JsonLines(role, flow))
    handler = FoldingHandler(inner)
    handler.addFilter(lambda record: record.name == _log.name or record.levelno >= logging.WARNING)
    logging.getLogger().addHandler(handler)
    _log.setLevel(logging.INFO)
    return Logs(handler, path)


def _open(path: Path) -> tuple[logging.Handler, Path | None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        prune(path.parent)
        return _PrivateFile(path, maxBytes=FILE_BYTES, backupCount=OLD_FILES, encoding="utf-8"), path
    except OSError as error:
        sys.stderr.write(f"raymirror: no log file ({error}); logging to stderr\n")
        return logging.StreamHandler(), None


def prune(folder: Path, kept_bytes: int = KEPT_BYTES, kept_s: float = KEPT_S) -> None:
    """Remove log files that are older than `kept_s` seconds, and the oldest beyond `kept_bytes` in total."""
    files = []
    for path in folder.glob(f"*{SUFFIX}*"):
        with contextlib.suppress(FileNotFoundError):  # another process prunes too
            files.append((path.stat().st_mtime, path.stat().st_size, path))
    kept = 0
    for changed_at, size, path in sorted(files, reverse=True):
        kept += size
        if kept > kept_bytes or changed_at < time.time() - kept_s:
            path.unlink(missing_ok=True)
