"""Reads points in time of a command line: `10m` (ago), or an instant."""

import re
from datetime import UTC, datetime

from engine.base.errors import WrongQuestion

_AGO = re.compile(r"([0-9]+)\s*(s|m|h|d)")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class BadInstant(WrongQuestion):
    """A text that is neither a time ago nor an instant."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.text!r} is no point in time; write e.g. 30s, 10m, 2h, 1d (ago), or 2026-05-01T12:30:00Z"


def instant_ms(text: str, now_ms: int) -> int:
    """Return the Unix time (ms) of a text; an instant without a zone is UTC. Raises BadInstant."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return now_ms - int(ago[1]) * _UNIT_S[ago[2]] * 1000
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadInstant(text) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return int(instant.timestamp() * 1000)


def clock_text(at_ms: int) -> str:
    """Return a Unix time as text in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
