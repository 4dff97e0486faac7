"""Drills beside a measured mirror: one after the other, until the context ends."""

import threading
from pathlib import Path

import pytest

from actors.drills.process import DrillOrder
from bench.errors import BenchError
from bench.latency import drills
from bench.latency.drills import Drills


class Process:
    """A drill that fails for a reason, or stores a result; `seen` is set when two have ended, or one has failed."""

    def __init__(self, why: str) -> None:
        self.why, self.begun, self.seen = why, 0, threading.Event()

    async def drill(self, order: DrillOrder) -> str:
        assert order.flow == "A->B"
        self.begun += 1
        if self.begun >= 2 or self.why:
            self.seen.set()
        return self.why


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters = A, B\nA.bootstrap.servers = localhost:1\nB.bootstrap.servers = localhost:2\nA->B.enabled = true\n"
    )
    return path


@pytest.mark.parametrize("why", ["", "it took longer than 3600 s"])
def test_drills_run_until_the_end_or_a_failure(config: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    process = Process(why)
    monkeypatch.setattr(drills, "drill_apart", process.drill)
    with Drills("A->B", config) as found:
        assert process.seen.wait(60.0)
    if why:
        with pytest.raises(BenchError, match=why):
            found.require_done()
        assert (process.begun, found.count) == (1, 0)
    else:
        found.require_done()
        assert found.count == process.begun >= 2


def test_no_more_drills_run_than_asked_for(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process("")
    monkeypatch.setattr(drills, "drill_apart", process.drill)
    found = Drills("A->B", config, 2)
    with found:
        assert process.seen.wait(60.0)
    found.require_done()
    assert found.count == process.begun == 2


def test_a_context_without_an_ended_drill_gives_no_figure(config: Path) -> None:
    with pytest.raises(BenchError, match="none has ended"):
        Drills("A->B", config).require_done()
