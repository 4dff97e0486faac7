"""Turns errors of the mirror into statuses: what may succeed in a moment is 409, as tools retry that."""

from actors.config.config_ref import ConfigMissing
from actors.config.file_change import FileEdited, FileFixed
from actors.config.reload_errors import CannotReload, ReloadBusy
from actors.config.settings_change import CannotChange, ChangedSince
from actors.control.flow_state import TopicsNotKnownYet, UnknownTopic
from actors.control.ports import ActorUnreachable
from actors.model.requests import ASKED_WRONGLY, MirrorLost
from actors.model.states import IllegalCommand, NotAtRest, NotFailedOver, Replaced, UnknownFlow
from actors.rest.exchange import HttpRefusal
from engine.base.errors import ConfigError, MirrorError

_STATUSES: tuple[tuple[type[MirrorError], int], ...] = (
    (CannotChange, 400),
    (CannotReload, 400),
    (ConfigError, 400),
    (UnknownFlow, 404),
    (UnknownTopic, 404),
    (IllegalCommand, 409),
    (NotAtRest, 409),
    (NotFailedOver, 409),
    (TopicsNotKnownYet, 409),
    (Replaced, 409),
    (MirrorLost, 409),
    (ActorUnreachable, 409),
    (FileEdited, 409),
    (ChangedSince, 409),
    (ConfigMissing, 409),
    (ReloadBusy, 409),
    (FileFixed, 501),
)
BROKEN = HttpRefusal(500, "The mirror could not answer, because of an error in raymirror; see: raymirror logs")


def status_of_exit(code: int | None) -> int:
    """Return how it is answered that a command has refused: 400 if it was asked wrongly, whatever the mirror does."""
    return 400 if code == ASKED_WRONGLY else 409


def refusal_of(error: MirrorError) -> HttpRefusal:
    """Return how an error is answered; its text is meant for users and contains no secret."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    return HttpRefusal(status, str(error))
