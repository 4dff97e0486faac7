"""Errors of the mirror as statuses: what may pass in a moment is 409, which tools try again."""

import pytest

from actors.config.file_change import FileEdited, FileFixed
from actors.config.reload_errors import CannotReload, ReloadBusy
from actors.config.settings_change import CannotChange
from actors.control.flow_state import TopicsNotKnownYet, UnknownTopic
from actors.control.ports import ActorUnreachable
from actors.model.requests import MirrorLost
from actors.model.states import IllegalCommand, NotAtRest, Replaced, UnknownFlow
from actors.rest.failures import refusal_of
from engine.base.errors import BrokerUnreachable, ConfigError, MirrorError


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CannotChange(("topics has no effect",)), 400),
        (CannotReload(("A->B: fixed",)), 400),
        (ConfigError("f", 1, "k", "wrong", "right"), 400),
        (FileEdited("f"), 409),
        (ReloadBusy("ending"), 409),
        (FileFixed("f", "it is read-only"), 501),
        (UnknownFlow("A->B", ()), 404),
        (UnknownTopic("t", "A->B"), 404),
        (IllegalCommand("pause", "stopped"), 409),
        (NotAtRest("A->B", "draining"), 409),
        (TopicsNotKnownYet("t", "A->B", "x"), 409),
        (Replaced(1, 2), 409),
        (MirrorLost("m", "gone"), 409),
        (ActorUnreachable("metadata", "positions", "dead"), 409),
        (BrokerUnreachable("b:1", "refused"), 500),
    ],
)
def test_an_error_has_a_status_and_keeps_its_text(error: MirrorError, status: int) -> None:
    refusal = refusal_of(error)
    assert (refusal.status, refusal.message) == (status, str(error))
