"""Commands: what the supervisor is asked for, and what is refused."""

from typing import Any

import msgspec
import pytest

from actors.api.commands.look_words import CommandOutcome
from actors.model.requests import ASKED_FROM, ChangeSettings, GiveCommand, RestartCopiers, RestartFlow
from actors.model.states import Command, Desired
from tests.unit.actors.rest.rest_views import ask, error, shown, status_with, view_of

FLOW = "/api/v1/flows/A-%3EB"
MIRROR = "/api/v1/mirror"


@pytest.mark.parametrize(
    ("path", "body", "deed"),
    [
        (f"{MIRROR}/pause", None, GiveCommand(Command.PAUSE)),
        (f"{MIRROR}/resume", None, GiveCommand(Command.RESUME)),
        (f"{MIRROR}/stop", None, GiveCommand(Command.STOP)),
        (f"{FLOW}/pause", None, GiveCommand(Command.PAUSE, "A->B")),
        (f"{FLOW}/pause", {"topics": ["t"]}, GiveCommand(Command.PAUSE, "A->B", ("t",))),
        (f"{FLOW}/resume", {"topics": []}, GiveCommand(Command.RESUME, "A->B")),
        (f"{FLOW}/stop", None, GiveCommand(Command.STOP, "A->B")),
        (f"{FLOW}/restart", None, RestartFlow("A->B")),
        (f"{FLOW}/restart", {"copiers": ["copier-1"]}, RestartCopiers("A->B", ("copier-1",))),
    ],
)
def test_a_command_is_given(path: str, body: Any, deed: Any) -> None:
    answer = ask("POST", path, body)
    assert (answer.status, answer.deeds) == (202, (deed,))
    assert shown(answer)["command"] == path.rpartition("/")[2]


def test_settings_are_changed() -> None:
    answer = ask("PATCH", f"{FLOW}/settings", {"changes": {"topics": "a", "x": None}})
    assert answer.deeds == (ChangeSettings("A->B", {"topics": "a", "x": None}),)
    assert error(ask("PATCH", f"{FLOW}/settings", {"changes": {}}))[0] == 400


def test_a_flow_that_was_failed_over_is_resumed_only_if_that_is_meant() -> None:
    view = view_of(status_with(desired=Desired.STOPPED, failed_over=True))
    status, message = error(ask("POST", f"{FLOW}/resume", view=view))
    assert status == 400
    assert "failed over" in message
    assert message.endswith("To copy again all the same: POST /api/v1/flows/A-%3EB/resume?failed_over=true")
    typed = error(ask("POST", f"{FLOW}/resume", view=view, headers={ASKED_FROM: "command-line"}))[1]
    assert typed.endswith("To copy again all the same: raymirror resume 'A->B' --forget-failover")
    resume = GiveCommand(Command.RESUME, "A->B")
    none = CommandOutcome(code=0, printed=b'{"operation": null, "away": {}, "reverse": ""}', said="", took_seconds=1.0)
    looked = msgspec.structs.replace(view, found=none)
    meant = ask("POST", f"{FLOW}/resume?failed_over=true", view=looked)
    assert meant.deeds == (GiveCommand(Command.FORGET, "A->B"), resume), "the supervisor refuses a resume alone"
    assert ask("POST", f"{FLOW}/resume?failed_over=true").deeds == (resume,), "there is nothing to forget"
    assert ask("POST", f"{FLOW}/stop", view=view).status == 202


@pytest.mark.parametrize(
    ("reverse", "status", "why"),
    [
        ("", 202, ""),
        ("failed-over", 409, "The failover of A->B is not forgotten: a later failover of B->A stands"),
        ("copies", 409, "The stop of A->B is not forgotten: a switchover has stopped it for good"),
        ("unknown", 409, "Whether the reverse of A->B copies is not known, and both would be a loop: no answer of b"),
    ],
)
def test_a_failover_is_not_forgotten_while_the_reverse_flow_keeps_it(reverse: str, status: int, why: str) -> None:
    raw = msgspec.json.encode({"operation": None, "reverse": reverse, "failovers_unread": {"B->A": "no answer of b"}})
    found = CommandOutcome(code=0, printed=raw, said="", took_seconds=1.0)
    view = msgspec.structs.replace(view_of(status_with(desired=Desired.STOPPED, failed_over=True)), found=found)
    answer = ask("POST", f"{FLOW}/resume?failed_over=true", view=view)
    assert answer.status == status
    if status == 409:
        assert error(answer)[1].startswith(why)
        assert reverse == "unknown" or "POST /api/v1/flows/B-%3EA/" in error(answer)[1], "what would be right"


@pytest.mark.parametrize("path", [MIRROR, FLOW])
def test_a_resume_names_the_topics_that_stay_paused(path: str) -> None:
    view = view_of(status_with(paused_topics=("t", "u"), moved_topics=("u",)))
    assert shown(ask("POST", f"{path}/resume", view=view))["moved_topics"] == ["u"]
    assert shown(ask("POST", f"{path}/pause", view=view))["moved_topics"] == []


def test_an_unknown_copier_is_404_and_names_the_others() -> None:
    assert error(ask("POST", f"{FLOW}/restart", {"copiers": ["x"]})) == (
        404,
        "Flow A->B has no copier x; it has: copier-1",
    )


@pytest.mark.parametrize("path", [f"{FLOW}/pause", f"{FLOW}/restart"])
def test_an_unknown_field_is_refused(path: str) -> None:
    assert error(ask("POST", path, {"topic": "t"}))[0] == 400


@pytest.mark.parametrize("action", ["pause", "resume", "stop", "restart"])
def test_an_unknown_flow_is_404(action: str) -> None:
    assert error(ask("POST", f"/api/v1/flows/x/{action}"))[0] == 404
