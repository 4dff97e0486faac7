"""`raymirror run` in the foreground: output of Ray at the end does not mix with the JSON lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.running import foreground
from actors.local.end_notes import EndNotes
from actors.model.status import MirrorStatus
from actors.ray import launch
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.mirrors import started


class FakeConnection:
    """A connection to a Ray that has something to say at the end."""

    logs = None
    local = True

    def close(self, *, keep_logs: bool = False) -> None:
        print("(raylet) a node was marked dead")  # noqa: T201 - as Ray does


PLAN: Any = SimpleNamespace(
    address="",
    sites=(),
    spec=SimpleNamespace(namespace="raymirror-one", drain_s=1.0, config=SimpleNamespace(path="mm2.properties")),
)


def test_the_last_line_is_a_status(
    fleet: FakeFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = msgspec.structs.replace(started(fleet, clock).status(), phase="stopped")

    @contextmanager
    def launched(*_words: object) -> Iterator[None]:
        yield

    def follow(_mirror: object, view: Any, *_words: object, **_more: object) -> MirrorStatus:
        view.show(stopped)
        return stopped

    monkeypatch.setattr(launch, "connect", lambda _plan: FakeConnection())
    monkeypatch.setattr(launch, "launched", launched)
    monkeypatch.setattr(foreground, "follow", follow)
    assert foreground.run_here(PLAN, json=True, detach=False) == exits.OK
    out, err = capsys.readouterr()
    assert msgspec.json.decode(out, type=MirrorStatus) == stopped
    assert "marked dead" in err


def test_a_mirror_that_may_not_copy_says_why_it_ends(
    fleet: FakeFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "flow A->B: it was failed over"
    stopped = msgspec.structs.replace(started(fleet, clock).status(), phase="stopped", refused=why)

    @contextmanager
    def launched(*_words: object) -> Iterator[None]:
        yield

    notes: list[bool] = []
    monkeypatch.setattr(EndNotes, "ended", lambda _self, *, in_order: notes.append(in_order))
    monkeypatch.setattr(launch, "connect", lambda _plan: FakeConnection())
    monkeypatch.setattr(launch, "launched", launched)
    monkeypatch.setattr(foreground, "follow", lambda *_words, **_more: stopped)
    assert foreground.run_here(PLAN, json=False, detach=False) == exits.FAILED
    assert f"mirror one has ended: {why}" in capsys.readouterr().out
    assert notes == [True], "everything was drained"
