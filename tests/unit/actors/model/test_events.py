"""Every event of the supervisor can be sent, and has a known severity."""

import pytest

from actors.model import events
from actors.model.events import KINDS, CopierEvent, SetEvent
from engine.core.events.event_base import Event


def test_the_table_holds_every_event() -> None:
    own = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    leaves = {kind for kind in own if kind.__module__ == events.__name__ and kind not in (CopierEvent, SetEvent)}
    assert leaves == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_an_event_is_of_a_known_severity(kind: type[Event]) -> None:
    assert kind.severity in ("info", "warning", "error")
