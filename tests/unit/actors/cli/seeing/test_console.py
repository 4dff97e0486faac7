"""`raymirror console`: the address that it prints, what it opens, and what it asks for."""

import getpass
import json
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from actors.cli import main
from actors.cli.seeing import console
from actors.model.messages import ConsoleDoor
from actors.model.requests import AnyRequest, AskConsole
from policies.roles import Role

DOOR = ConsoleDoor(scheme="https", bind="0.0.0.0", port=8083, host="head", token="t0ken")


class FakeMirror:
    """Answers with a door, and notes what it was asked."""

    def __init__(self, door: ConsoleDoor) -> None:
        self.door = door
        self.asked: list[AnyRequest] = []

    def send(self, request: AnyRequest) -> bytes:
        self.asked.append(request)
        return msgspec.msgpack.encode(self.door)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was opened with; there is no screen."""
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return found


def run(monkeypatch: pytest.MonkeyPatch, *words: str, door: ConsoleDoor = DOOR) -> FakeMirror:
    mirror = FakeMirror(door)

    @contextmanager
    def running(_args: Any) -> Iterator[tuple[FakeMirror, None]]:
        yield mirror, None

    monkeypatch.setattr(console, "running_mirror", running)
    monkeypatch.setattr(getpass, "getuser", lambda: "eve")
    assert main.main(["console", *words]) == 0
    return mirror


def test_the_address_is_printed_and_no_browser_is_opened_without_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], opened: list[str]
) -> None:
    mirror = run(monkeypatch)
    out, err = capsys.readouterr()
    assert out == "https://head:8083/console/#/enter/t0ken\n"
    assert "once" in err
    assert (mirror.asked, opened) == ([AskConsole("eve", Role.ADMIN)], [])


@pytest.mark.parametrize(("words", "count"), [((), 1), (("--no-open",), 0), (("--json",), 0)])
def test_a_screen_gets_a_browser_unless_it_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, opened: list[str], words: tuple[str, ...], count: int
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    run(monkeypatch, *words)
    assert len(opened) == count


def test_json_has_one_object_and_the_role_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], opened: list[str]
) -> None:
    mirror = run(monkeypatch, "--json", "--role", "view")
    assert json.loads(capsys.readouterr().out) == {
        "address": "https://head:8083/console/#/enter/t0ken",
        "once": True,
        "role": "view",
    }
    assert mirror.asked == [AskConsole("eve", Role.VIEW)]


@pytest.mark.parametrize(
    ("bind", "is_here", "address"),
    [
        ("127.0.0.1", True, "http://127.0.0.1:8083/console/"),
        ("0.0.0.0", True, "http://localhost:8083/console/"),
        ("0.0.0.0", False, "http://head:8083/console/"),
        ("::", True, "http://localhost:8083/console/"),
        ("::1", True, "http://[::1]:8083/console/"),
        ("10.0.0.7", False, "http://10.0.0.7:8083/console/"),
    ],
)
def test_the_address_leads_to_the_server(bind: str, is_here: bool, address: str) -> None:
    door = ConsoleDoor(scheme="http", bind=bind, port=8083, host="head")
    assert door.address(is_here=is_here) == address


def test_the_token_is_in_no_text_of_the_door() -> None:
    assert "t0ken" not in repr(DOOR)
