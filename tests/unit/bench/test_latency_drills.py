"""Drills beside a measured mirror: one after the other, until the context ends."""

import threading
from pathlib import Path

import pytest

from bench.dr.commands import Outcome
from bench.errors import BenchError
from bench.latency import drills
from bench.latency.drills import Drills


class Command:
    """A drill that ends with a code; `seen` is set when two have ended."""

    def __init__(self, code: int) -> None:
        self.code, self.begun, self.seen = code, 0, threading.Event()
        self.words: tuple[str, ...] = ()

    def begin(self, words: tuple[str, ...], _folder: Path, _env: object, *, nice: int) -> "Command":
        assert words[:3] == ("dr", "drill", "A->B")
        assert nice == 19
        self.words = words
        self.begun += 1
        return self

    def wait(self) -> Outcome:
        if self.begun >= 2 or self.code not in (0, 4):
            self.seen.set()
        return Outcome(self.words, self.code, "", "what is wrong")


@pytest.mark.parametrize(("code", "why"), [(0, ""), (4, ""), (1, "ended with 1: what is wrong")])
def test_drills_run_until_the_end_or_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, why: str
) -> None:
    command = Command(code)
    monkeypatch.setattr(drills, "WatchedCommand", command.begin)
    with Drills("A->B", tmp_path / "config", {}) as found:
        assert command.seen.wait(60.0)
    if why:
        with pytest.raises(BenchError, match=why):
            found.require_done()
        assert (command.begun, found.count) == (1, 0)
    else:
        found.require_done()
        assert found.count == command.begun >= 2


def test_a_context_without_an_ended_drill_gives_no_figure(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no drill has ended"):
        Drills("A->B", tmp_path / "config", {}).require_done()
