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
    """The offsets of a group mean something else than a consumer's offsets: they stay on the source."""

    why: str

    def text(self) -> str:
        return f"{self.group}: not mirrored: {self.why}"


class GroupWentBack(GroupEvent, frozen=True, kw_only=True, tag="group_went_back"):
    """A group's commits on the target were set back, because the group or the target's log had gone back.

    `times`: how often since the last such event. `groups`: how many groups share the event; it names none of them.
    `partitions`: the most partitions of one time.
    """

    severity: ClassVar[str] = "warning"
    partitions: int
    why: str
    times: int = 1
    groups: int = 1

    def text(self) -> str:
        whose = f" of {self.groups} groups that are not named," if self.groups > 1 else ""
        often = f", {self.times} times since that was told last" if self.times > 1 else ""
        most = " at most" if often else ""
        what = f"offsets{whose} of {counted(self.partitions, 'partition')}{most} taken back on the target{often}"
        return f"{self.group}: {what}: {self.why}"


class GroupClamped(GroupEvent, frozen=True, kw_only=True, tag="group_clamped"):
    """The target no longer has the record that a group would read next: its commit there is the log start."""

    severity: ClassVar[str] = "warning"
    partitions: int

    def text(self) -> str:
        return (
            f"{self.group}: the target no longer has the next record of {counted(self.partitions, 'partition')}; its"
            " offset there is the log start (retention on the target is shorter than the group's lag)"
        )


class GroupRefused(GroupEvent, frozen=True, kw_only=True, tag="group_refused"):
    """A group could not be read on the source, or its offsets could not be committed on the target; others continue."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.group}: {self.what}"


class GroupBrokerAway(GroupEvent, frozen=True, kw_only=True, tag="group_broker_away"):
    """A broker does not answer for the groups that it coordinates: they wait, the groups of other brokers continue."""

    severity: ClassVar[str] = "warning"
    groups: int
    why: str

    def text(self) -> str:
        return (
            f"{self.group}: it does not answer: {self.why}; the groups that it coordinates wait"
            f" ({self.groups:,} of those that are known), all others are mirrored"
        )


class CommitsNotRead(GroupEvent, frozen=True, kw_only=True, tag="commits_not_read"):
    """Commits of groups cannot be read as they are made, so groups are polled."""

    severity: ClassVar[str] = "warning"
    every_s: float
    why: str

    def text(self) -> str:
        return f"{self.group}: polled every {self.every_s:g} s: commits are not read as they are made: {self.why}"
