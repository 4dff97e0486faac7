"""Answers about log levels: of the process that serves, which is the supervisor's.

A level lasts until the process ends. Copiers and Metadata keep theirs, so a scope of `cluster` is refused.
"""

import logging
from collections.abc import Mapping
from typing import Final

from actors.rest.entities import LoggerLevel
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal, LogLevel, SetLogLevel
from actors.rest.view import MirrorView

ROOT: Final = "root"
OWN: Final = "raymirror"
LOGGERS: Final = (OWN, ROOT)
"""The loggers that write to a mirror's log; `raymirror` has its own lines, `root` has those of libraries."""
NUMBERS: Final[Mapping[LogLevel, int]] = {
    LogLevel.TRACE: 5,
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARN: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
    LogLevel.FATAL: logging.CRITICAL,
}


def level_named(number: int) -> str:
    """Return Log4j's word for a level of Python's logging: the highest that is not above it."""
    return max((level for level, least in NUMBERS.items() if least <= max(number, 5)), key=NUMBERS.__getitem__).value


def list_loggers(_call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return all loggers with their levels."""
    return HttpAnswer(body=dict(sorted(view.loggers.items())))


def logger(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Return the level of one logger."""
    return HttpAnswer(body=_known(view, call.path["logger"]))


def set_level(call: HttpCall, view: MirrorView) -> HttpAnswer:
    """Set the level of a logger in this process; return the names of the loggers that it changes."""
    name, word = call.path["logger"], (call.body or {}).get("level")
    if word is None:
        raise HttpRefusal(400, "Desired 'level' parameter was not specified in request.")
    if str(word).upper() not in LogLevel.__members__:
        raise HttpRefusal(404, f"invalid log level '{word}'.")
    if call.query.get("scope", ("worker",))[0].lower() == "cluster":
        raise HttpRefusal(501, "Levels are set in the supervisor's process only: leave out scope=cluster.")
    _known(view, name)
    return HttpAnswer(body=[name], deeds=(SetLogLevel(name, LogLevel(str(word).upper())),))


def _known(view: MirrorView, name: str) -> LoggerLevel:
    found = view.loggers.get(name)
    if found is None:
        raise HttpRefusal(404, f"Logger {name} not found.")
    return found
