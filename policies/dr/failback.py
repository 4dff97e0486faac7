"""Decides for one partition what a failback may do, by choice, and names why it may not.

    D      | choice           | source becomes  | target becomes | written to the source
    -------+------------------+-----------------+----------------+----------------------------------------------
    empty  | any              | P, N            | P, N           | N
    filled | keep             | P, D, N         | P, N, D        | N
    filled | append-to-target | P, N, D (anew)  | P, N, D        | all that the target has then
    filled | discard          | P, N (anew)     | P, N           | all that the target has

Compacted topics: N is newer than D for every key. So of D only the keys that N lacks are appended to the target, and
keys are compared before that. A tombstone of N that the cleaner has removed can be found in no log. Without D and
without deletion by time, a key of the source that the target lacks was deleted there, and the failback writes its
tombstone. With D, nobody can tell a key that the target has deleted from a key that it never had. The same holds for
tombstones of D that the cleaner of the source has removed, even if D is empty then.

A source that has lost copied records, and a target that has lost the beginning of N, are repaired only by making the
source topic anew: that copies everything and resets the offsets of the source.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import msgspec

from policies.dr.separation import Separation
from policies.words import counted


class FailbackChoice(Enum):
    """What becomes of the records that only the source has."""

    KEEP = "keep"
    APPEND = "append-to-target"
    DISCARD = "discard"


class FailbackRefusal(Enum):
    """Why a failback of a partition is refused; the names are stable."""

    NOT_JUDGED = "not-judged"
    SOURCE_OPEN = "source-transaction-open"
    TARGET_OPEN = "target-transaction-open"
    TARGET_SHORT = "target-lost-records"
    SOURCE_SHORT = "source-lost-records"
    EPOCH_UNKNOWN = "source-epoch-unknown"
    NEW_EXPIRED = "new-records-expired"
    PARTITIONS = "partition-counts-differ"
    TOMBSTONES = "tombstones-gone"
    FEEDS = "source-feeds-another-cluster"
    LEFT_OUT = "left-out-records"
    REPLAYED = "replayed-records"
    BETWEEN = "other-records-between"


class RefusedFailback(msgspec.Struct, frozen=True):
    """A refusal and its sentence."""

    name: FailbackRefusal
    why: str


class FailbackPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a failback with one choice would do to one partition; counts are records, at most.

    `makes_anew`: the source topic is deleted, created and copied whole, so it must be confirmed. `compares_keys`: the
    keys of both logs are read first. `expired`: source offsets whose copies the target's retention has deleted, and
    that a source topic made anew would lose; -1: not known.
    """

    choice: FailbackChoice
    refused: tuple[RefusedFailback, ...] = ()
    makes_anew: bool = False
    compares_keys: bool = False
    to_source: int = 0
    to_target: int = 0
    expired: int = 0


class _Rule(NamedTuple):
    refusal: FailbackRefusal
    holds: Callable[[Separation], bool]
    binds: Callable[[Separation, FailbackChoice, bool], bool]
    """Whether it matters for a choice; the last one: whether the source topic is made anew."""
    says: Callable[[Separation], str]


def _always(_found: Separation, _choice: FailbackChoice, _anew: bool) -> bool:
    return True


def _needs_shared(_found: Separation, choice: FailbackChoice, _anew: bool) -> bool:
    """Whether the choice depends on what the source still has: all do, except the one that throws it away."""
    return choice is not FailbackChoice.DISCARD


def _only_new(_found: Separation, _choice: FailbackChoice, anew: bool) -> bool:
    return not anew


def _judges_keys(found: Separation, choice: FailbackChoice, anew: bool) -> bool:
    """Whether the keys that the target lacks decide something, and are ambiguous."""
    if choice is not FailbackChoice.DISCARD and found.diverged:
        return True
    return found.topic.is_expiring and not anew


def _loses_left_out(found: Separation, _choice: FailbackChoice, anew: bool) -> bool:
    """Whether records that are in no copy would go: with the topic, or by a tombstone for a key that looks deleted."""
    return anew or found.are_tombstones_gone


_RULES = (
    _Rule(
        FailbackRefusal.SOURCE_OPEN,
        lambda found: found.source.is_open,
        _always,
        lambda found: (
            f"a transaction is open on the source from offset {found.source.stable_end}: what follows is not decided;"
            " end or abort it there"
        ),
    ),
    _Rule(
        FailbackRefusal.TARGET_OPEN,
        lambda found: found.target.is_open,
        _always,
        lambda found: (
            f"a transaction is open on the target from offset {found.target.stable_end}: end or abort it there"
        ),
    ),
    _Rule(
        FailbackRefusal.TARGET_SHORT,
        lambda found: found.target.end < found.target_next,
        _always,
        lambda found: f"the copy ends at {found.target.end}, below what was copied ({found.target_next})",
    ),
    _Rule(
        FailbackRefusal.SOURCE_SHORT,
        lambda found: found.is_source_short,
        _needs_shared,
        lambda found: (
            f"the source has lost records that were copied: its log is the copied one for certain only up to"
            f" {min(found.split, found.source.end)}, and {found.source_next} was copied; discard restores it from the"
            " target"
        ),
    ),
    _Rule(
        FailbackRefusal.EPOCH_UNKNOWN,
        lambda found: found.is_epoch_unknown,
        _needs_shared,
        lambda found: (
            "no leader epoch was stored with the position, so it is not known whether the source still has the records"
            f" that were copied; to fail back the others, add {found.lane.source.topic} to topics.exclude of both"
            " directions, and make that topic anew by hand (docs/dr.md, Refusals)"
        ),
    ),
    _Rule(
        FailbackRefusal.NEW_EXPIRED,
        lambda found: found.is_new_expired,
        _only_new,
        lambda found: (
            f"the target's retention has deleted new records: its log starts at {found.target.start}, and the copy"
            f" ended at {found.target_next}"
        ),
    ),
    _Rule(
        FailbackRefusal.PARTITIONS,
        lambda found: found.topic.source_partitions != found.topic.target_partitions,
        _needs_shared,
        lambda found: (
            f"the source has {counted(found.topic.source_partitions, 'partition')} and the target"
            f" {found.topic.target_partitions}, so keys lie in different partitions"
        ),
    ),
    _Rule(
        FailbackRefusal.TOMBSTONES,
        lambda found: found.are_tombstones_gone,
        _judges_keys,
        lambda found: (
            f"the copy may have ended {found.apart_ms / 1000:.0f} s ago and delete.retention.ms of the target is"
            f" {found.topic.delete_retention_ms} ms: it is not known which keys were deleted there"
        ),
    ),
    _Rule(
        FailbackRefusal.TOMBSTONES,
        lambda found: found.erased,
        _needs_shared,
        lambda found: (
            f"delete.retention.ms of the source is {found.topic.source_delete_retention_ms} ms, and its cleaner has"
            " removed records that were never copied: it is not known which keys were deleted there"
        ),
    ),
    _Rule(
        FailbackRefusal.FEEDS,
        lambda found: bool(found.topic.feeds),
        _always,
        lambda found: f"the source topic is copied to {' and '.join(found.topic.feeds)} too: end that flow first",
    ),
    _Rule(
        FailbackRefusal.LEFT_OUT,
        lambda found: found.left_out > 0,
        _loses_left_out,
        lambda found: (
            f"the target refused {counted(found.left_out, 'record')} (raymirror.refused), which the source would lose:"
            " replay or drop them first (raymirror quarantine)"
        ),
    ),
    _Rule(
        FailbackRefusal.REPLAYED,
        lambda found: found.replayed > 0,
        _only_new,
        lambda found: (
            f"{counted(found.replayed, 'record')} of the quarantine lie behind the end of the copy, or may: the source"
            " has them, and would get them a second time"
        ),
    ),
    _Rule(
        FailbackRefusal.BETWEEN,
        lambda found: found.between > 0,
        _only_new,
        lambda found: (
            f"{counted(found.between, 'record')} of another writer lie before the last copied one, which arrived late:"
            " only what lies behind that would go to the source; discard copies all of the target's log"
        ),
    ),
)


def makes_anew(found: Separation, choice: FailbackChoice) -> bool:
    """Whether a choice makes the source topic anew: it must not keep D, or cannot repair the source otherwise."""
    if choice is FailbackChoice.KEEP:
        return False
    if found.diverged or found.erased or found.is_new_expired:
        return True
    is_doubted = (
        found.is_source_short
        or found.is_epoch_unknown
        or found.between
        or found.topic.source_partitions != found.topic.target_partitions
    )
    return choice is FailbackChoice.DISCARD and bool(is_doubted)


def certain(found: Separation) -> Separation:
    """Return a partition that was judged by its last position, without what its exact end may show to be otherwise.

    A position may be behind: then D and N are smaller than they seem, and begin later. Open transactions end.
    """
    if found.unknown:
        return found
    return msgspec.structs.replace(
        found,
        source=msgspec.structs.replace(found.source, stable_end=found.source.end),
        target=msgspec.structs.replace(found.target, start=min(found.target.start, found.target_next)),
        diverged=0,
        new=0,
        apart_ms=0,
        erased=False,
        left_out=0,
        replayed=0,
    )


def plan_failback(found: Separation, choice: FailbackChoice, *, with_topic: bool = False) -> FailbackPlan:
    """Plan the failback of one partition, or refuse it with all reasons.

    `with_topic`: another partition of its topic must be made anew, so this one is, too.
    """
    if found.unknown:
        return FailbackPlan(choice=choice, refused=(RefusedFailback(FailbackRefusal.NOT_JUDGED, found.unknown),))
    anew = with_topic or makes_anew(found, choice)
    refused = tuple(
        RefusedFailback(rule.refusal, rule.says(found))
        for rule in _RULES
        if rule.holds(found) and rule.binds(found, choice, anew)
    )
    to_target = found.diverged if choice is not FailbackChoice.DISCARD else 0
    kept = found.target.end - found.target.start
    return FailbackPlan(
        choice=choice,
        refused=refused,
        makes_anew=anew,
        compares_keys=found.topic.is_compacted and (bool(to_target) or (found.are_tombstones_gone and not anew)),
        to_source=kept + to_target if anew else found.new,
        to_target=to_target,
        expired=_expired(found) if anew else 0,
    )


def _expired(found: Separation) -> int:
    return max(0, found.oldest_kept - found.source.start) if found.oldest_kept >= 0 else -1
