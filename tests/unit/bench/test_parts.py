"""A bench whose second part fails still has the figures of its first."""

import argparse
from typing import Any

import pytest

from bench.errors import BenchError
from bench.lag import command as lag
from bench.parts import Parts


def test_a_part_that_fails_is_named_and_the_others_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    parts = Parts()
    assert parts.measure("first", lambda: 7) == 7
    assert parts.measure("second", lambda: 1 // 0) is None
    assert parts.measure("third", lambda: 8) == 8
    assert parts.unmeasured == [{"part": "second", "why": "ZeroDivisionError: integer division or modulo by zero"}]
    assert "second: no figures: ZeroDivisionError" in capsys.readouterr().out


class Nowhere:
    """A cluster that is never started."""

    bootstrap_servers = "127.0.0.1:9"

    def __init__(self, *_: object) -> None:
        pass

    def stop(self) -> None:
        """Nothing runs."""


class Told:
    """A part of `bench lag` that has its figures at once."""

    def __init__(self, part: str, *_: object) -> None:
        self.part = part

    def run(self, _lanes: int, _seconds: int) -> dict[str, Any]:
        return {"windows": self.part}


def test_the_first_part_of_lag_stays_where_the_second_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise BenchError("raymirror", "did not copy")

    monkeypatch.setattr(lag, "Cluster", Nowhere)
    monkeypatch.setattr(lag, "start_clusters", lambda *_: None)
    monkeypatch.setattr(lag, "_Stage", Told)
    monkeypatch.setattr(lag, "_copied", fails)
    found = lag.run(argparse.Namespace(parts="alone,proof", seconds=1, quick=True, lanes=1, mib=1))
    assert found["systems"] == {"alone": {"windows": "alone"}}
    assert [one["part"] for one in found["unmeasured"]] == ["proof"]
    assert "did not copy" in found["unmeasured"][0]["why"]
    assert found["failed"]
    assert "alone {'windows': 'alone'}" in capsys.readouterr().out
