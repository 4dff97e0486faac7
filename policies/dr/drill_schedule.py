"""The schedule of drills that a mirror runs by itself: `raymirror.drill.schedule`.

off            never (the default)
7d, 12h        so long after the last drill began
03:00          every day at that time (UTC)
Mon 03:00      every week
"""

import re
from datetime import UTC, datetime, timedelta

import msgspec

FIRST_AFTER_S = 3600.0
"""An interval's first drill is so long after the start of the mirror, which may have much to copy at first."""
OFF = "off"
RIGHT = "off, an interval (12h, 7d), or a time in UTC: 03:00 every day, Mon 03:00 every week"
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOUR_S, _DAY_S = 3600, 86_400
_INTERVAL = re.compile(r"([1-9]\d{0,3})\s*([hd])")
_TIME = re.compile(r"(?:([a-z]{3})\s+)?(\d{1,2}):(\d{2})")


class DrillSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """An interval, or a time of day in UTC; `weekday`: 0 is Monday, -1: every day. `every_s`: from one to the next."""

    text: str = OFF
    every_s: int = 0
    minute: int = -1
    """Minute of the day; -1: the schedule is an interval."""
    weekday: int = -1

    @property
    def is_on(self) -> bool:
        """Whether there are any drills."""
        return self.every_s > 0

    def due_ms(self, last_ms: int, since_ms: int) -> int:
        """Return when the next drill is due (Unix time, ms); -1 if never.

        `last_ms`: when the last one began, -1 if there was none; `since_ms`: when the mirror started.
        """
        if not self.is_on:
            return -1
        if self.minute < 0:
            return last_ms + self.every_s * 1000 if last_ms >= 0 else since_ms + int(FIRST_AFTER_S * 1000)
        after = datetime.fromtimestamp((last_ms if last_ms >= 0 else since_ms) / 1000, UTC)
        due = after.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(minutes=self.minute)
        while due <= after or self.weekday not in (-1, due.weekday()):
            due += timedelta(days=1)
        return int(due.timestamp() * 1000)


NEVER = DrillSchedule()


def parse_schedule(text: str) -> DrillSchedule:
    """Read a schedule. Raises ValueError with what would be right."""
    said = text.strip().lower()
    if said == OFF:
        return NEVER
    if found := _INTERVAL.fullmatch(said):
        return DrillSchedule(text=text.strip(), every_s=int(found[1]) * (_DAY_S if found[2] == "d" else _HOUR_S))
    found = _TIME.fullmatch(said)
    if found is None or (found[1] or "mon") not in _DAYS or int(found[2]) > 23 or int(found[3]) > 59:
        raise ValueError(f"{text.strip()!r} is no schedule; write {RIGHT}")
    weekday = _DAYS.index(found[1]) if found[1] else -1
    every_s = 7 * _DAY_S if found[1] else _DAY_S
    return DrillSchedule(text=text.strip(), every_s=every_s, minute=int(found[2]) * 60 + int(found[3]), weekday=weekday)
