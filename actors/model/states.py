"""The wanted state of a mirror, the effect of commands on it, and the state of a copier."""

import enum
from collections.abc import Sequence

from engine.base.errors import MirrorError
from policies.dr.advice import DR_FAILBACK, DR_STATUS, DR_SWITCHOVER, FORGET_FAILOVER, RESUME
from policies.words import named


class Desired(enum.StrEnum):
    """The state that the operator wants for a mirror or one of its flows."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class Command(enum.StrEnum):
    """A command of the operator."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    FORGET = "forget-failover"
    """Allow a flow that was failed over to be resumed."""
    PAUSE_MOVED = "pause-moved"
    """Pause topics whose producers write to the target now; a resume of the flow leaves them paused."""
    RELEASE_MOVED = "release-moved"
    """Copy such topics again: their producers are back on the source."""


_AFTER = {Command.PAUSE: Desired.PAUSED, Command.RESUME: Desired.RUNNING, Command.STOP: Desired.STOPPED}


class StopKind(enum.StrEnum):
    """What a stop of a flow is part of; it decides what the mirror does then."""

    FLOW = "flow"
    """The flow was stopped alone: with an HTTP server the mirror stays, so that a request can resume the flow."""
    DELETED = "deleted"
    """The same, and the flow has no connector any more until one is created again."""
    MIRROR = "mirror"
    """The whole mirror was stopped, so it ends."""
    FAILOVER = "failover"
    """The consumers of the flow have moved to the target."""
    SWITCHOVER = "switchover"
    """A switchover has made its reverse flow the one that copies."""
    FAILBACK = "failback"
    """A failback copies to its target, or has made its reverse flow the one that copies."""

    @property
    def is_turned(self) -> bool:
        """Whether only a confirmation or another operation may start the flow again."""
        return self.may_be_forgotten or self is StopKind.FAILBACK

    @property
    def may_be_forgotten(self) -> bool:
        """Whether a confirmation alone may start the flow again."""
        return self in (StopKind.FAILOVER, StopKind.SWITCHOVER)

    @property
    def is_alone(self) -> bool:
        """Whether only this flow was stopped, and may be resumed."""
        return self in (StopKind.FLOW, StopKind.DELETED)

    def after(self, earlier: "StopKind") -> "StopKind":
        """Return the kind of a stop that comes after an earlier one: a weaker one changes nothing."""
        return earlier if _RANKS[self] < _RANKS[earlier] else self


_RANKS = {
    StopKind.FLOW: 0,
    StopKind.DELETED: 0,
    StopKind.MIRROR: 1,
    StopKind.FAILOVER: 2,
    StopKind.SWITCHOVER: 2,
    StopKind.FAILBACK: 3,
}


class CopierState(enum.StrEnum):
    """The state of one copier, as the supervisor sees it."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class Replaced(MirrorError):
    """Copiers follow a supervisor that started after this one."""

    exit_code = 1

    def __init__(self, ours: int, theirs: int) -> None:
        super().__init__(ours, theirs)
        self.ours, self.theirs = ours, theirs

    def __str__(self) -> str:
        return f"a newer supervisor (term {self.theirs}) leads the copiers; this one (term {self.ours}) has ended"


class IllegalCommand(MirrorError):
    """A command that the present desired state does not allow."""

    def __init__(self, command: str, state: str) -> None:
        super().__init__(command, state)
        self.command, self.state = command, state

    def __str__(self) -> str:
        return f"cannot {self.command} a mirror that is {self.state}; start it again with: raymirror run CONFIG"


class FailedOverFlow(IllegalCommand):
    """A flow that was failed over is not copied again without a confirmation."""

    def __init__(self, command: str, flow: str, stop: StopKind) -> None:
        super().__init__(command, flow)
        self.args = command, flow, stop
        self.flow, self.stop = flow, stop

    def __str__(self) -> str:
        return f"cannot {self.command} flow {self.flow}: {turned_text(self.flow, self.stop)}"


class MovedTopics(IllegalCommand):
    """Topics whose producers have moved to the target are not copied again by a resume: flow, topics."""

    def __init__(self, flow: str, topics: tuple[str, ...]) -> None:
        super().__init__(Command.RESUME, flow)
        self.args = flow, topics
        self.flow, self.topics = flow, topics

    def __str__(self) -> str:
        return f"cannot resume these topics of flow {self.flow}: {moved_text(self.flow, self.topics)}"


class NotFailedOver(MirrorError):
    """A failover is to be forgotten of a flow that was not failed over, as far as this mirror has read."""

    exit_code = 1

    def __init__(self, flow: str) -> None:
        super().__init__(flow)
        self.flow = flow

    def __str__(self) -> str:
        return f"flow {self.flow} is not failed over, or its state is not read yet; see: raymirror status"


class ReverseNow(enum.Enum):
    """What the reverse flow does that keeps a stop from being forgotten: both flows at once would be a loop."""

    NOTHING = ""
    """Nothing, or copies have other names than their topics."""
    FAILED_OVER = "failed-over"
    """It was failed over later than the flow was stopped: applications write to the source of the flow."""
    COPIES = "copies"
    """A switchover has stopped the flow, and the reverse flow may copy."""
    UNKNOWN = "unknown"
    """What is stored of the two flows cannot be read."""


def turned_text(flow: str, stop: StopKind) -> str:
    """Say why a flow is not copied after a failover, a switchover or a failback, and what would be right."""
    source, _, target = flow.partition("->")
    if stop is StopKind.FAILBACK:
        return (
            f"a failback decides which direction is copied between {source} and {target}; see: {DR_STATUS.given(flow)}"
        )
    if stop is StopKind.SWITCHOVER:
        back = f"{target}->{source}"
        return (
            f"a switchover has stopped it for good, and made {target} the cluster that applications write to; run the"
            f" configuration of the other direction ({back}.enabled = true instead of {flow}); to go back from there:"
            f" {DR_SWITCHOVER.given(back)}; whether a failover or another operation came later says:"
            f" {DR_STATUS.given(flow)}"
        )
    return (
        f"it was failed over, so applications write to {target}; to give {source} what {target} has:"
        f" {DR_FAILBACK.given(flow)}, if copies keep the names of their topics. If copies have other names, or to copy"
        f" in the old direction all the same: {RESUME.given(flow, FORGET_FAILOVER.given())}, or, once its mirror has"
        f" ended, raymirror run CONFIG --forget-failover '{flow}'"
    )


def reverse_stands_text(flow: str) -> str:
    """Say why a flow is not copied while a failover of its reverse stands, and what would be right."""
    source, _, target = flow.partition("->")
    back = f"{target}->{source}"
    return (
        f"a later failover of {back} stands, so applications write to {source}, and to copy {flow} now would close the"
        f" way back; to give {target} what {source} has: {DR_FAILBACK.given(back)}; see: {DR_STATUS.given(back)}"
    )


def moved_text(flow: str, topics: Sequence[str]) -> str:
    """Say why topics stay paused whose producers have moved to the target, and what would be right."""
    source, _, target = flow.partition("->")
    return (
        f"producers of {named(topics)} have moved to {target}, so copying on would mix both logs; to"
        f" let them write to {source} again: raymirror move --topics '{','.join(topics)}' '{flow}' --undo"
    )


def way_back_text(flow: str, *, renamed: bool) -> str:
    """Say how the source of a flow that was failed over gets what its target gets.

    `renamed`: copies have other names than their topics, which `raymirror dr failback` refuses.
    """
    source, _, target = flow.partition("->")
    if renamed:
        return (
            f"copies have other names than their topics, so no failback is needed: {source} gets what {target} gets by"
            f" the flow {target}->{source}, and {target} gets what only {source} has when {flow} is copied again"
        )
    return f"to give {source} what {target} gets: {DR_FAILBACK.given(flow)}"


class NotAtRest(MirrorError):
    """A flow whose positions are to be changed still copies, or is not stopped."""

    exit_code = 1

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow, why)
        self.flow, self.why = flow, why

    def __str__(self) -> str:
        return f"the positions of flow {self.flow} cannot be changed now: {self.why}"


class UnknownFlow(MirrorError):
    """A command named a flow that this mirror does not have."""

    def __init__(self, flow: str, known: tuple[str, ...]) -> None:
        super().__init__(flow, known)
        self.flow, self.known = flow, known

    def __str__(self) -> str:
        return f"no flow {self.flow!r} in this mirror; it has: {', '.join(self.known)}"


def desired_after(state: Desired, command: Command) -> Desired:
    """Return the wanted state after a command. Raises IllegalCommand: only a new `raymirror run` ends a stop."""
    if state is Desired.STOPPED and command is not Command.STOP:
        raise IllegalCommand(command, state)
    return _AFTER[command]
