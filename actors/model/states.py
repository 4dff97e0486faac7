"""The wanted state of a mirror, and the state of a copier: two state machines, each a table."""

import enum

from engine.base.errors import MirrorError


class Desired(enum.StrEnum):
    """What the operator wants of a mirror or of one of its flows."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


class Command(enum.StrEnum):
    """A command of the operator."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


DESIRED: dict[Desired, dict[Command, Desired]] = {
    Desired.RUNNING: {
        Command.PAUSE: Desired.PAUSED,
        Command.RESUME: Desired.RUNNING,  # wakes lanes that stopped on their own
        Command.STOP: Desired.STOPPED,
    },
    Desired.PAUSED: {
        Command.PAUSE: Desired.PAUSED,
        Command.RESUME: Desired.RUNNING,
        Command.STOP: Desired.STOPPED,
    },
    Desired.STOPPED: {Command.STOP: Desired.STOPPED},  # only a new `raymirror run` starts again
}


class CopierState(enum.StrEnum):
    """The state of one copier, as the supervisor sees it."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"


class Sign(enum.StrEnum):
    """What the supervisor sees a copier do, or asks it to do."""

    ANSWERED = "answered"
    DRAIN_ASKED = "drain_asked"
    ENDED = "ended"


COPIER: dict[CopierState, dict[Sign, CopierState]] = {
    CopierState.STARTING: {
        Sign.ANSWERED: CopierState.READY,
        Sign.DRAIN_ASKED: CopierState.DRAINING,
        Sign.ENDED: CopierState.GONE,
    },
    CopierState.READY: {
        Sign.ANSWERED: CopierState.READY,
        Sign.DRAIN_ASKED: CopierState.DRAINING,
        Sign.ENDED: CopierState.GONE,
    },
    CopierState.DRAINING: {
        Sign.ANSWERED: CopierState.DRAINING,
        Sign.DRAIN_ASKED: CopierState.DRAINING,
        Sign.ENDED: CopierState.GONE,
    },
    CopierState.GONE: {Sign.ENDED: CopierState.GONE},
}


class Replaced(MirrorError):
    """Copiers follow a supervisor that began after this one."""

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


class UnknownFlow(MirrorError):
    """A command named a flow that this mirror does not have."""

    def __init__(self, flow: str, known: tuple[str, ...]) -> None:
        super().__init__(flow, known)
        self.flow, self.known = flow, known

    def __str__(self) -> str:
        return f"no flow {self.flow!r} in this mirror; it has: {', '.join(self.known)}"


def desired_after(state: Desired, command: Command) -> Desired:
    """Return the wanted state after a command. Raises IllegalCommand."""
    try:
        return DESIRED[state][command]
    except KeyError:
        raise IllegalCommand(command, state) from None


def copier_after(state: CopierState, sign: Sign) -> CopierState:
    """Return the state of a copier after a sign; a KeyError here is a bug of the supervisor."""
    return COPIER[state][sign]
