"""The states of a lane, and every way from one to another."""

import enum

from engine.base.errors import MirrorError


class State(enum.Enum):
    """Where a lane stands."""

    ACQUIRING = "acquiring"
    WATCHING = "watching"
    """At the end of the source by the stored position, without an owner until there is something to copy."""
    COPYING = "copying"
    TROUBLED = "troubled"
    """One append failed: nothing new is sent until every batch in flight has its outcome."""
    WAITING = "waiting"
    """All outcomes are in; the same bytes go out again after a back-off."""
    SETTLING = "settling"
    """The target's log is being read, because the answers alone do not say what was appended."""
    REFUSED = "refused"
    """The target will not take a record; tried again at long intervals, until somebody mends its config."""
    STOPPED = "stopped"
    FAILED = "failed"


class LaneTrigger(enum.Enum):
    """What moves a lane from state to state."""

    OWNED = "owned"
    RESTED = "rested"
    AWOKEN = "awoken"
    APPEND_FAILED = "append failed"
    RESEND = "resend"
    SETTLE = "settle"
    SETTLED = "settled"
    REFUSE = "refuse"
    RETRY = "retry"
    OWNERSHIP_LOST = "ownership lost"
    FATAL = "fatal"
    STOP = "stop"


class IllegalTransition(MirrorError):
    """A bug: an event that the present state does not know."""

    def __init__(self, event: str, state: str) -> None:
        super().__init__(event, state)
        self.event, self.state = event, state

    def __str__(self) -> str:
        return f"lane event {self.event!r} while {self.state!r}"


_ALWAYS = {
    LaneTrigger.OWNERSHIP_LOST: State.ACQUIRING,
    LaneTrigger.FATAL: State.FAILED,
    LaneTrigger.STOP: State.STOPPED,
}

TRANSITIONS: dict[State, dict[LaneTrigger, State]] = {
    State.ACQUIRING: {LaneTrigger.OWNED: State.COPYING, LaneTrigger.RESTED: State.WATCHING, **_ALWAYS},
    State.WATCHING: {LaneTrigger.AWOKEN: State.ACQUIRING, **_ALWAYS},
    State.COPYING: {LaneTrigger.APPEND_FAILED: State.TROUBLED, **_ALWAYS},
    State.TROUBLED: {
        LaneTrigger.RESEND: State.WAITING,
        LaneTrigger.SETTLE: State.SETTLING,
        LaneTrigger.REFUSE: State.REFUSED,
        **_ALWAYS,
    },
    State.WAITING: {LaneTrigger.RETRY: State.COPYING, **_ALWAYS},
    State.SETTLING: {LaneTrigger.SETTLED: State.WAITING, **_ALWAYS},
    State.REFUSED: {LaneTrigger.RETRY: State.COPYING, **_ALWAYS},
    State.STOPPED: {},
    State.FAILED: {LaneTrigger.OWNERSHIP_LOST: State.ACQUIRING, LaneTrigger.STOP: State.STOPPED},
}


def step(state: State, event: LaneTrigger) -> State:
    """Return the state after an event; raises IllegalTransition for one that cannot happen there."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalTransition(event.value, state.value) from None
