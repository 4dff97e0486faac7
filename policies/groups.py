"""Consumer groups: which are mirrored, which checkpoints are told, and what is committed on the target.

What is committed for one partition of one group (`wanted`), and whether the group lets us (`barred`):

    stored on target | translated offset          | earlier commit of ours     | then
    -----------------+----------------------------+----------------------------+--------------------------------
    nothing          | any                        | any                        | commit (NEW)
    lower            | any                        | any                        | commit (MOVED_ON)
    equal            |                            | young                      | leave (EQUAL)
    equal            |                            | old, or none known         | commit again (RENEWED)
    higher           | source went back since     | it is what is stored       | commit (FOLLOWED)
    higher           | exact                      | it is what is stored       | commit (CORRECTED)
    higher           | any                        | any other, asked to        | commit (ASKED)
    higher           | any                        | any other                  | leave (TARGET_AHEAD)
    any              | none                       | any                        | leave (not asked about)

A target group with members is never written to; the broker has the last word on that (mm2-contract 6.8, KIP-211).
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from policies.patterns import PatternList

DEFAULT_GROUPS = (".*",)
DEFAULT_GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")
_CONSUMERS = ("consumer", "")
_OTHER_KINDS = ("share", "streams")
_RENEW_AT = 0.4
"""Of the retention: before half of it has passed, by the rounds that a commit may come late."""


class GroupState(Enum):
    """What a cluster says of a group's members."""

    ABSENT = "absent"
    INACTIVE = "inactive"
    ACTIVE = "active"


def state_of(name: str) -> GroupState:
    """Return what a state's name means, by either protocol; one that is not known counts as active, which is safe."""
    return {"Dead": GroupState.ABSENT, "Empty": GroupState.INACTIVE}.get(name, GroupState.ACTIVE)


class GroupSelection:
    """The groups of one flow, MM2's filter: whole names, exclude wins. Raises BadPattern."""

    def __init__(
        self, include: Iterable[str] = DEFAULT_GROUPS, exclude: Iterable[str] = DEFAULT_GROUPS_EXCLUDE
    ) -> None:
        self.include = PatternList(include)
        self.exclude = PatternList(exclude)

    def wants(self, group: str) -> bool:
        """Whether a group is mirrored."""
        return self.why_not(group) is None

    def why_not(self, group: str) -> str | None:
        """Return why a group is not mirrored, None for one that is."""
        if not self.include.matches(group):
            return "not in groups"
        if self.exclude.matches(group):
            return "in groups.exclude"
        return None


def unsupported(protocol_type: str, kind: str) -> str | None:
    """Return what kind of group cannot be mirrored, as MM2 cannot: offsets of another meaning; None for consumers."""
    if kind in _OTHER_KINDS:
        return f"{kind} group"
    return None if protocol_type in _CONSUMERS else f"group of protocol type {protocol_type}"


class Ours(NamedTuple):
    """What we last committed for a partition; `at_s` is None where that was before this process."""

    source: int
    target: int
    at_s: float | None = None


class Why(Enum):
    """Why something is committed or left; `commits` tells which."""

    NEW = "nothing is stored on the target"
    MOVED_ON = "the group moved on"
    RENEWED = "kept from expiring"
    FOLLOWED = "the group went back on the source"
    CORRECTED = "the target had lost records"
    ASKED = "asked to go back"
    EQUAL = "equal"
    TARGET_AHEAD = "the target's offset is ahead"
    ACTIVE = "the group has members on the target"

    @property
    def commits(self) -> bool:
        """Whether it is a reason to commit."""
        return self in _COMMITS


_COMMITS = frozenset(Why) - {Why.EQUAL, Why.TARGET_AHEAD, Why.ACTIVE}
BACKWARDS = frozenset({Why.FOLLOWED, Why.CORRECTED, Why.ASKED})
"""Reasons to commit something lower than what is stored."""


def wanted(
    stored: int | None,
    source: int,
    target: int,
    ours: Ours | None,
    *,
    age_s: float | None,
    renew_after_s: float,
    backwards: bool = False,
    exact: bool = True,
) -> Why:
    """Decide for one partition: `target` is what the group's `source` offset means there.

    `age_s` is how long ago we committed what is stored, None where that is not known.
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
        if exact:  # the same record lies lower now
            return Why.CORRECTED
    return Why.ASKED if backwards else Why.TARGET_AHEAD


def barred(state: GroupState) -> Why | None:
    """Return why nothing may be committed for a group in this state on the target, None where it may."""
    return Why.ACTIVE if state is GroupState.ACTIVE else None


def renew_after_s(retention_s: float | None) -> float:
    """Return the age at which an unchanged commit is made again; never where the retention is not known."""
    return float("inf") if retention_s is None else retention_s * _RENEW_AT


def sync_every_s(asked_s: float, retention_s: float | None) -> float:
    """Return the seconds between two rounds of commits: as asked, but often enough that none expires between two."""
    return asked_s if retention_s is None else min(asked_s, retention_s / 10)


class Told(NamedTuple):
    """The last checkpoint of a partition."""

    source: int
    target: int
    metadata: str = ""

    def within(self, span: tuple[int, int] | None) -> "Told":
        """Return it as the target's log is now: not below its start, not above its end, where records were lost.

        `span`: both, None where they are not known. A commit above the end would skip what is written there next.
        """
        return self if span is None else self._replace(target=min(max(self.target, span[0]), span[1]))


def tells(known: Told | None, new: Told, *, exact: bool) -> bool:
    """Whether a checkpoint is news.

    An exact one is, wherever it differs for those who read it. Of an approximate one, as MM2's filter says: only where
    it goes on, or the group went back on the source (mm2-contract 6.6).
    """
    if known is None:
        return True
    if exact:
        return (known.target, known.metadata) != (new.target, new.metadata)
    return new.source < known.source or new.target > known.target
