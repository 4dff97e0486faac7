"""What a mirror says aloud of consumer groups."""

from typing import ClassVar

from engine.core.event_base import Event
from policies.words import counted


class GroupEvent(Event, frozen=True, kw_only=True):
    """An event of one consumer group."""

    group: str

    @property
    def about(self) -> str:
        """Name the group."""
        return self.group


class GroupNotSynced(GroupEvent, frozen=True, kw_only=True, tag="group_not_synced"):
    """A group whose offsets mean something else than a consumer's: they stay on the source."""

    why: str

    def text(self) -> str:
        return f"{self.group}: not mirrored: {self.why}"


class GroupWentBack(GroupEvent, frozen=True, kw_only=True, tag="group_went_back"):
    """A group's commits on the target were taken back, because the group, or the target's log, had gone back.

    `times`: how often, since it was told last; `groups`: how many groups share the event, none of them named.
    `partitions` is the most of one time.
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
    """The target no longer has what a group would read next: its commits there begin at the log start."""

    severity: ClassVar[str] = "warning"
    partitions: int

    def text(self) -> str:
        return (
            f"{self.group}: the target no longer has the next record of {counted(self.partitions, 'partition')}; its"
            " offset there is the log start (retention on the target is shorter than the group's lag)"
        )


class GroupRefused(GroupEvent, frozen=True, kw_only=True, tag="group_refused"):
    """A group that could not be read on the source, or committed for on the target; the others go on."""

    severity: ClassVar[str] = "error"
    what: str

    def text(self) -> str:
        return f"{self.group}: {self.what}"


class GroupBrokerAway(GroupEvent, frozen=True, kw_only=True, tag="group_broker_away"):
    """A broker cannot be asked about the groups that it coordinates: they wait, those of other brokers go on."""

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
