"""Events of consumer groups."""

from typing import ClassVar

from engine.core.events.event_base import Event
from policies.words import counted


class GroupEvent(Event, frozen=True, kw_only=True):
    """An event of one consumer group."""

    group: str

    @property
    def about(self) -> str:
        """Name the group."""
        return self.group


class GroupNotSynced(GroupEvent, frozen=True, kw_only=True, tag="group_not_synced"):
    """The offsets of a group are not a consumer's offsets, so raymirror does not mirror them."""

    why: str

    def text(self) -> str:
        return f"{self.group}: not mirrored: {self.why}"


class GroupWentBack(GroupEvent, frozen=True, kw_only=True, tag="group_went_back"):
    """A group's commits on the target were reset to lower offsets, because the group or the target's log went back.

    `times`: how often since the last such event. `groups`: how many groups share the event, which names none of them.
    `partitions`: the largest number of partitions in one reset.
    """

    severity: ClassVar[str] = "warning"
    partitions: int
    why: str
    times: int = 1
    groups: int = 1

    def text(self) -> str:
        whose = f" of {self.groups} groups (not named here)," if self.groups > 1 else ""
        often = f", {self.times} times since the last such event" if self.times > 1 else ""
        most = " at most" if often else ""
        what = f"offsets{whose} of {counted(self.partitions, 'partition')}{most} set back on the target{often}"
        return f"{self.group}: {what}: {self.why}"


class GroupClamped(GroupEvent, frozen=True, kw_only=True, tag="group_clamped"):
    """The target no longer has the next record of a group, so the group's commit on the target is the log start."""

    severity: ClassVar[str] = "warning"
    partitions: int

    def text(self) -> str:
        return (
            f"{self.group}: the target no longer has the next record of {counted(self.partitions, 'partition')}; the"
            " group's offset there is the log start (retention on the target is shorter than the group's lag)"
        )


class GroupRefused(GroupEvent, frozen=True, kw_only=True, tag="group_refused"):
    """A group could not be read on the source or committed on the target; the other groups continue."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.group}: {self.what}"


class GroupBrokerAway(GroupEvent, frozen=True, kw_only=True, tag="group_broker_away"):
    """A broker does not answer for the groups that it coordinates: they wait; the groups of other brokers continue."""

    severity: ClassVar[str] = "warning"
    groups: int
    why: str

    def text(self) -> str:
        return (
            f"{self.group}: this broker does not answer: {self.why}; the groups that it coordinates wait"
            f" ({self.groups:,} of the known groups); all other groups are mirrored"
        )


class CommitsNotRead(GroupEvent, frozen=True, kw_only=True, tag="commits_not_read"):
    """Raymirror cannot read commits of groups as they happen, so it polls the groups."""

    severity: ClassVar[str] = "warning"
    every_s: float
    why: str

    def text(self) -> str:
        return (
            f"{self.group}: polled every {self.every_s:g} s: raymirror cannot read commits as they happen: {self.why}"
        )
