"""The demo's output that is no terminal: steps, warnings, errors."""

import io

import msgspec

from actors.demo.steps_view import StepsView
from actors.model.status import EventLine
from tests.unit.actors.telemetry.statuses import mirror_status


def test_steps_and_bad_news_are_shown_once_and_good_news_are_not() -> None:
    good, bad = (EventLine(at_ms=at, severity=how, flow="A->B", text=how) for at, how in ((1, "info"), (2, "warning")))
    view = StepsView(out := io.StringIO())
    view.say("one step")
    for events in ((good,), (good, bad), (good, bad)):
        view.show(msgspec.structs.replace(mirror_status(), events=events))
    assert out.getvalue() == "one step\nwarning: A->B: warning\n"
