"""Fault rules: lost records, re-created topics, records that the target refuses. The first pattern that matches wins.

| What happened | `fail` | otherwise |
| --- | --- | --- |
| the source lost records, copied or not | stops | `continue`: after the gap, or where the histories diverge |
| the source topic was re-created | stops | `append`: its records from the first on, after the old copy |
| | | `re-create`: the same, once the copy was deleted and created again |
| the copy was re-created | stops | `append`: continues at the position |
| | | `re-create`: copies everything again that the source has |
| a cluster is another one | stops | stops |

| What happened | `stop` | otherwise |
| --- | --- | --- |
| the target refuses a record for good | waits | `skip`: leaves it out, and notes that it did |
| | | `quarantine`: the same, once the record is durable in the quarantine topic |

With every choice, an event names the records that are not on the target.
"""

import re
from collections.abc import Iterable
from enum import Enum

import msgspec

from policies.patterns import translate


class OnGap(Enum):
    """The choices for lost source records."""

    FAIL = "fail"
    CONTINUE = "continue"


class OnRenewal(Enum):
    """The choices for a topic that was deleted and created again."""

    FAIL = "fail"
    APPEND = "append"
    RECREATE = "re-create"


class OnRefused(Enum):
    """The choices for a record that the target refuses for good."""

    STOP = "stop"
    SKIP = "skip"
    QUARANTINE = "quarantine"


class Renewed(Enum):
    """The topics of a lane that were re-created."""

    SOURCE = "the source topic"
    TARGET = "the target topic"
    BOTH = "source and target topic"


class GoOn(Enum):
    """Where a lane continues."""

    NOWHERE = "stopped"
    POSITION = "at the position"
    FIRST = "at the first record that the source has"
    BEHIND_TARGET = "at the first record, once the copy was re-created"


_PLACES = {
    (OnRenewal.APPEND, Renewed.SOURCE): GoOn.FIRST,
    (OnRenewal.APPEND, Renewed.TARGET): GoOn.POSITION,
    (OnRenewal.APPEND, Renewed.BOTH): GoOn.FIRST,
    (OnRenewal.RECREATE, Renewed.SOURCE): GoOn.BEHIND_TARGET,
    (OnRenewal.RECREATE, Renewed.TARGET): GoOn.FIRST,
    (OnRenewal.RECREATE, Renewed.BOTH): GoOn.FIRST,
}


def go_on(choice: OnRenewal, renewed: Renewed) -> GoOn:
    """Return where a lane continues after its topics were re-created."""
    return _PLACES.get((choice, renewed), GoOn.NOWHERE)


class TopicRule(msgspec.Struct, frozen=True):
    """A whole-name topic pattern (Python `re` syntax) and the choice for its topics."""

    pattern: str
    choice: str


class FaultRules(msgspec.Struct, frozen=True):
    """The rules of a flow; a topic that matches no rule gets `fail`, and `stop` for refused records."""

    gaps: tuple[TopicRule, ...] = ()
    renewals: tuple[TopicRule, ...] = ()
    refusals: tuple[TopicRule, ...] = ()

    def on_gap(self, topic: str) -> OnGap:
        """Return the choice for lost records of a topic."""
        return OnGap(_chosen(self.gaps, topic, OnGap.FAIL.value))

    def on_renewal(self, topic: str) -> OnRenewal:
        """Return the choice for a re-created topic."""
        return OnRenewal(_chosen(self.renewals, topic, OnRenewal.FAIL.value))

    def on_refused(self, topic: str) -> OnRefused:
        """Return the choice for records of a topic that the target refuses."""
        return OnRefused(_chosen(self.refusals, topic, OnRefused.STOP.value))

    @property
    def leaves_out(self) -> bool:
        """Whether refused records of any topic are left out."""
        return any(rule.choice != OnRefused.STOP.value for rule in self.refusals)


def _chosen(rules: Iterable[TopicRule], topic: str, otherwise: str) -> str:
    return next((rule.choice for rule in rules if re.fullmatch(rule.pattern, topic)), otherwise)


def parse_choices(
    entries: Iterable[str], choices: type[OnGap] | type[OnRenewal] | type[OnRefused]
) -> tuple[TopicRule, ...]:
    """Read `pattern@choice` entries; a choice alone is for all topics. Raises ValueError that names the entry."""
    words = [choice.value for choice in choices]
    rules = []
    for entry in entries:
        pattern, at, word = entry.rpartition("@")
        if word.strip() not in words:
            raise ValueError(f"{entry!r} does not end in one of {', '.join(words)}")
        rules.append(TopicRule(translate(pattern.strip() if at else ".*"), word.strip()))
    return tuple(rules)
