"""Decides which consumer groups are mirrored, which checkpoints are written, and what is committed on the target.

The commit for one partition of one group (`wanted`; `barred` decides whether the group may be written at all):

    stored on target | translated offset          | raymirror's last commit    | then
    -----------------+----------------------------+----------------------------+--------------------------------
    nothing          | any                        | any                        | commit (NEW)
    lower            | any                        | any                        | commit (MOVED_ON)
    equal            |                            | young                      | leave (EQUAL)
    equal            |                            | old, or none known         | commit again (RENEWED)
    higher           | source went back since     | equals the stored one      | commit (FOLLOWED)
    higher           | exact                      | equals the stored one      | commit (CORRECTED)
    higher           | any                        | any other, asked to        | commit (ASKED)
    higher           | any                        | any other                  | leave (TARGET_AHEAD)
    any              | none, or the copy has not  | any                        | leave (`wanted` is not called), or the
                     | come so far                |                            | end of the copy (`takes_end`)

Raymirror never commits for a target group with members; the broker also refuses such a commit.
"""

from collections.abc import Collection, Iterable
from copy import copy
from enum import Enum
from typing import NamedTuple

from policies.own.own_policy import OwnPolicy
from policies.own.protocols import GroupFilter
from policies.patterns import PatternList

DEFAULT_GROUPS = (".*",)
DEFAULT_GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")
DRILL_GROUPS = "raymirror-drill-"
"""What the names of a drill's groups begin with: no flow mirrors them, whatever its patterns or its filter say."""
_CONSUMERS = ("consumer", "")
_OTHER_KINDS = ("share", "streams")
_RENEW_AT = 0.4
"""The share of the retention after which a commit is renewed: below one half, because a round may be late."""


class GroupState(Enum):
    """The state of a group's members on a cluster."""

    ABSENT = "absent"
    INACTIVE = "inactive"
    ACTIVE = "active"


def state_of(name: str) -> GroupState:
    """Return the state for a state name of either protocol; an unknown name counts as active, which is safe."""
    return {"Dead": GroupState.ABSENT, "Empty": GroupState.INACTIVE}.get(name, GroupState.ACTIVE)


class GroupSelection:
    """Selects the groups of one flow with MM2's filter: whole names, exclude wins. Raises BadPattern.

    `own`: the user's filter in place of patterns.
    """

    def __init__(
        self,
        include: Iterable[str] = DEFAULT_GROUPS,
        exclude: Iterable[str] = DEFAULT_GROUPS_EXCLUDE,
        own: OwnPolicy[GroupFilter] | None = None,
    ) -> None:
        self.include = PatternList(include)
        self.exclude = PatternList(exclude)
        self._own = own
        self.gone: Collection[str] = ()
        """Groups that have moved to the target."""

    def without(self, groups: Collection[str]) -> "GroupSelection":
        """Return the same selection without groups that have moved to the target: what they commit there is theirs."""
        found = copy(self)
        found.gone = groups
        return found

    def wants(self, group: str) -> bool:
        """Whether a group is mirrored."""
        return self.why_not(group) is None

    def why_not(self, group: str) -> str | None:
        """Return why a group is not mirrored; None if it is."""
        if group.startswith(DRILL_GROUPS):
            return "a group of a drill"
        if group in self.gone:
            return "it has moved to the target"
        if self._own is not None:
            wanted = self._own.says(self._own.made.should_replicate_group, group)
            return None if wanted else f"not chosen by {self._own.name}"
        if not self.include.matches(group):
            return "not in groups"
        if self.exclude.matches(group):
            return "in groups.exclude"
        return None


def unsupported(protocol_type: str, kind: str) -> str | None:
    """Return the kind of a group that cannot be mirrored, as in MM2: its offsets mean something else; else None."""
    if kind in _OTHER_KINDS:
        return f"{kind} group"
    return None if protocol_type in _CONSUMERS else f"group of protocol type {protocol_type}"


class OwnCommit(NamedTuple):
    """Raymirror's last commit for a partition; `at_s` (seconds) is None if an earlier process made it."""

    source: int
    target: int
    at_s: float | None = None


class Why(Enum):
    """Why raymirror commits an offset or leaves it; `commits` distinguishes the two."""

    NEW = "nothing is stored on the target"
    MOVED_ON = "the group moved on"
    RENEWED = "kept from expiring"
    FOLLOWED = "the group went back on the source"
    CORRECTED = "the target had lost records"
    ASKED = "an operator asked to go back"
    EQUAL = "equal"
    TARGET_AHEAD = "the target's offset is ahead"
    ACTIVE = "the group has members on the target"

    @property
    def commits(self) -> bool:
        """Whether this is a reason to commit."""
        return self in _COMMITS


_COMMITS = frozenset(Why) - {Why.EQUAL, Why.TARGET_AHEAD, Why.ACTIVE}
BACKWARDS = frozenset({Why.FOLLOWED, Why.CORRECTED, Why.ASKED})
"""Reasons to commit an offset lower than the stored one."""


def wanted(
    stored: int | None,
    source: int,
    target: int,
    ours: OwnCommit | None,
    *,
    age_s: float | None,
    renew_after_s: float,
    backwards: bool = False,
    exact: bool = True,
) -> Why:
    """Decide for one partition; `target`: the translation of the group's `source` offset.

    `age_s`: the age in seconds of the stored commit if raymirror made it; None if not known.
    """
    if stored is None:
        return Why.NEW
    if stored < target:
        return Why.MOVED_ON
    if stored == target:
        return Why.RENEWED if age_s is None or age_s >= renew_after_s else Why.EQUAL
    if ours is not None and ours.target == stored:
        if source < ours.source:
            return Why.FOLLOWED
        if exact:  # the same record has a lower offset now
            return Why.CORRECTED
    return Why.ASKED if backwards else Why.TARGET_AHEAD


def takes_end(known: int | None, end: int, *, follows: bool) -> bool:
    """Whether a group that is ahead of the copy is placed where the copy ends: before source offset `end`.

    `known`: the source offset of its last place; None if it has none. A copy that ends before that has begun again
    further back, so the target may have records before its end that the group has not read. `follows`: whether groups
    that have a place follow the end; not at each look, because it moves all the time while producers write.
    """
    return known is None or (follows and known <= end)


def barred(state: GroupState) -> Why | None:
    """Return why raymirror must not commit for a group in this state on the target; None if it may."""
    return Why.ACTIVE if state is GroupState.ACTIVE else None


def renew_after_s(retention_s: float | None) -> float:
    """Return the age in seconds at which an unchanged commit is renewed; infinite if the retention is not known."""
    return float("inf") if retention_s is None else retention_s * _RENEW_AT


def sync_every_s(asked_s: float, retention_s: float | None) -> float:
    """Return the seconds between two rounds of commits: as configured, or less so that no commit expires in between."""
    return asked_s if retention_s is None else min(asked_s, retention_s / 10)


class WrittenCheckpoint(NamedTuple):
    """The last checkpoint written for a partition."""

    source: int
    target: int
    metadata: str = ""

    def within(self, span: tuple[int, int] | None) -> "WrittenCheckpoint":
        """Return the checkpoint moved into the target's log: not below its start, not above its end.

        `span`: start and end; None if not known. A commit above the end would skip the next records written there.
        """
        return self if span is None else self._replace(target=min(max(self.target, span[0]), span[1]))


def must_write(known: WrittenCheckpoint | None, new: WrittenCheckpoint, *, exact: bool) -> bool:
    """Whether a checkpoint must be written.

    An exact one must, if it differs for its readers from the last one. An approximate one follows MM2's filter: only if
    it advances, or if the group went back on the source.
    """
    if known is None:
        return True
    if exact:
        return (known.target, known.metadata) != (new.target, new.metadata)
    return new.source < known.source or new.target > known.target
