"""Rules for what is fetched first and how fast: bandwidth by topic pattern, and three classes of priority.

The first pattern that matches a topic wins. A topic without a class is `normal`.
"""

import enum
import re
from collections.abc import Iterable

import msgspec

from policies.patterns import translate

WHOLE_FLOW = ""
"""The pattern of the rule that limits all topics of a flow together."""


class Priority(enum.IntEnum):
    """The class of a topic; a lower number is fetched first."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


class BandwidthRule(msgspec.Struct, frozen=True):
    """A whole-name topic pattern (Python `re` syntax; empty: the whole flow) and bytes per second for its topics.

    `said`: the pattern as the user wrote it.
    """

    pattern: str
    bytes_per_s: int
    said: str = ""


class PriorityRule(msgspec.Struct, frozen=True):
    """A whole-name topic pattern (Python `re` syntax) and the class of its topics; `said` as in `BandwidthRule`."""

    pattern: str
    priority: Priority
    said: str = ""


class TrafficRules(msgspec.Struct, frozen=True):
    """The rules of a flow. Of `bandwidth`, those of a topic limit it all: its pattern's, and that of the whole flow."""

    bandwidth: tuple[BandwidthRule, ...] = ()
    priorities: tuple[PriorityRule, ...] = ()

    def limits_of(self, topic: str) -> tuple[str, ...]:
        """Return the patterns of the rules that limit a topic."""
        own = (rule.pattern for rule in self.bandwidth if rule.pattern and re.fullmatch(rule.pattern, topic))
        first = next(own, None)
        whole = tuple(rule.pattern for rule in self.bandwidth if not rule.pattern)
        return whole if first is None else (first, *whole)

    def priority_of(self, topic: str) -> Priority:
        """Return the class of a topic."""
        return next((rule.priority for rule in self.priorities if re.fullmatch(rule.pattern, topic)), Priority.NORMAL)

    def shared(self, shares: dict[str, int]) -> "TrafficRules":
        """Return the same rules with a copier's shares, bytes per second by pattern."""
        rules = tuple(BandwidthRule(rule.pattern, shares[rule.pattern], rule.said) for rule in self.bandwidth)
        return TrafficRules(rules, self.priorities)


def parse_bandwidth(entries: Iterable[str]) -> tuple[BandwidthRule, ...]:
    """Read `bytes` (the whole flow) and `pattern@bytes` entries. Raises ValueError that names the entry."""
    rules: list[BandwidthRule] = []
    for entry in entries:
        pattern, at, number = entry.rpartition("@")
        if not re.fullmatch(r"[0-9]{1,18}", number.strip()):
            raise ValueError(f"{entry!r} does not end in a whole number of bytes per second")
        if not int(number):
            raise ValueError(f"{entry!r} lets nothing through; to stop a topic, use raymirror pause")
        said = pattern.strip()
        rule = BandwidthRule(translate(said) if at else WHOLE_FLOW, int(number), said)
        if any(known.pattern == rule.pattern for known in rules):
            raise ValueError(f"{entry!r} is a second limit for the same topics")
        rules.append(rule)
    return tuple(rules)


def parse_priorities(entries: Iterable[str]) -> tuple[PriorityRule, ...]:
    """Read `pattern@class` entries. Raises ValueError that names the entry."""
    words = {one.name.lower(): one for one in Priority}
    rules = []
    for entry in entries:
        pattern, at, word = entry.rpartition("@")
        if not at or word.strip().lower() not in words:
            raise ValueError(f"{entry!r} does not end in @{', @'.join(words)}")
        rules.append(PriorityRule(translate(pattern.strip()), words[word.strip().lower()], pattern.strip()))
    return tuple(rules)
