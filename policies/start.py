"""Start rules: the start offset of a lane without a position, by topic pattern. The first pattern that matches wins."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from policies.patterns import translate


class Earliest(msgspec.Struct, frozen=True, tag="earliest"):
    """From the first record that the source still has."""


class Latest(msgspec.Struct, frozen=True, tag="latest"):
    """From the first record that is produced after the lane has started."""


class Timestamp(msgspec.Struct, frozen=True, tag="timestamp"):
    """From the first record at or after an instant, in milliseconds since the epoch."""

    timestamp_ms: int


class Duration(msgspec.Struct, frozen=True, tag="duration"):
    """From the first record of the last `duration_s` seconds."""

    duration_s: float


class Offsets(msgspec.Struct, frozen=True, tag="offsets"):
    """From given offsets by partition; a partition without one starts at the earliest record."""

    offsets: dict[int, int]


Start = Earliest | Latest | Timestamp | Duration | Offsets
_ENDS: dict[str, Start] = {"earliest": Earliest(), "latest": Latest()}

_DURATION = re.compile(
    r"-P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


class StartRule(msgspec.Struct, frozen=True):
    """A whole-name topic pattern (Python `re` syntax) and the start of its topics."""

    pattern: str
    start: Start


class StartRules(msgspec.Struct, frozen=True):
    """All rules of a flow, in order; `otherwise` holds for topics that match no rule."""

    rules: tuple[StartRule, ...] = ()
    otherwise: Start = Earliest()

    def start_for(self, topic: str) -> Start:
        """Return the start of a topic."""
        for rule in self.rules:
            if re.fullmatch(rule.pattern, topic):
                return rule.start
        return self.otherwise


def parse_reset(text: str) -> Start:
    """Read a value of `auto.offset.reset` (by_duration is KIP-1106). Raises ValueError that says what is right."""
    text = text.strip().lower()
    if text in _ENDS:
        return _ENDS[text]
    if text.startswith("by_duration:"):
        return _duration(f"-{text.removeprefix('by_duration:')}")
    raise ValueError(f"{text!r} is not a start; write earliest, latest or by_duration:PT6H")


def parse_rules(entries: Iterable[str], otherwise: Start) -> StartRules:
    """Read `pattern@start` entries; the first that matches a topic wins. Raises ValueError that names the entry."""
    rules = []
    for entry in entries:
        pattern, at, where = entry.partition("@")
        if not at:
            raise ValueError(f"{entry!r} has no @; write pattern@start, e.g. orders.*@latest")
        rules.append(StartRule(translate(pattern), parse_start(where)))
    return StartRules(tuple(rules), otherwise)


def parse_start(text: str) -> Start:
    """Read `earliest`, `latest`, an ISO instant, `-PT6H`, or `0:100;1:200`. The ValueError says what is right."""
    text = text.strip()
    if text in _ENDS:
        return _ENDS[text]
    if text.upper().startswith("-P"):
        return _duration(text)
    if re.fullmatch(r"\d+:\d+(;\d+:\d+)*", text):
        pairs = (pair.split(":") for pair in text.split(";"))
        return Offsets({int(partition): int(offset) for partition, offset in pairs})
    return _instant(text)


def _duration(text: str) -> Duration:
    found = _DURATION.fullmatch(text)
    parts = {name: value for name, value in found.groupdict().items() if value} if found else {}
    if not parts:
        raise ValueError(f"{text!r} is not a duration; write for instance -PT6H or -P7D")
    return Duration(sum(float(value) * _SECONDS[name] for name, value in parts.items()))


def _instant(text: str) -> Timestamp:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a start; write earliest, latest, an instant such as 2026-01-01T00:00:00Z,"
            " a duration such as -PT6H, or offsets such as 0:100;1:200"
        ) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return Timestamp((instant - _EPOCH) // timedelta(milliseconds=1))
