"""Drills beside a measured mirror: one after the other, until the context ends."""

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from bench.errors import BenchError
from bench.latency.drills import Drills


class Command:
    """A drill that ends with a code; `seen` is set when two have ended."""

    def __init__(self, code: int) -> None:
        self.code, self.begun, self.seen = code, 0, threading.Event()
        self.pid = 7

    def begin(self, words: list[str], **options: Any) -> "Command":
        assert words[3:6] == ["dr", "drill", "A->B"]
        options["stderr"].write(b"what is wrong")
        self.begun += 1
        return self

    def wait(self) -> int:
        if self.begun >= 2 or self.code not in (0, 4):
            self.seen.set()
        return self.code


@pytest.mark.parametrize(("code", "why"), [(0, ""), (4, ""), (1, "ended with 1: what is wrong")])
def test_drills_run_until_the_end_or_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, why: str
) -> None:
    command = Command(code)
    monkeypatch.setattr(subprocess, "Popen", command.begin)
    monkeypatch.setattr(os, "setpriority", lambda *_of: None)
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
