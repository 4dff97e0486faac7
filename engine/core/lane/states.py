"""The states of a lane and all transitions between them."""

import enum

from engine.base.errors import MirrorError


class State(enum.Enum):
    """The state of a lane."""

    ACQUIRING = "acquiring"
    WATCHING = "watching"
    """The stored position is at the end of the source; the lane has no owner until new records arrive."""
    COPYING = "copying"
    TROUBLED = "troubled"
    """One append failed: the lane sends nothing new until every batch in flight has its outcome."""
    WAITING = "waiting"
    """All outcomes are known; the lane sends the same bytes again after a back-off."""
    SETTLING = "settling"
    """The lane reads the target's log, because the answers alone do not show what was appended."""
    REFUSED = "refused"
    """The target refuses a record; the lane retries at long intervals until an operator fixes the topic's config."""
    STOPPED = "stopped"
    FAILED = "failed"


class LaneTrigger(enum.Enum):
    """A trigger that moves a lane from one state to another."""

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
    """A bug: an event that the present state does not allow."""

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
    """Return the state after an event. Raises IllegalTransition if the state does not allow it."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalTransition(event.value, state.value) from None
