"""A bench whose second part fails still has the figures of its first."""

import argparse
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Self

import pytest

from bench import idle, pair
from bench.configsync import command as configsync
from bench.configsync import topics
from bench.configsync.passes import Mm2Passes, Pass
from bench.errors import BenchError
from bench.lag import command as lag
from bench.parts import Parts
from bench.translation import command as translation


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

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

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

    monkeypatch.setattr(pair, "EmbeddedCluster", Nowhere)
    monkeypatch.setattr(pair, "running_clusters", lambda *_: nullcontext())
    monkeypatch.setattr(lag, "_Stage", Told)
    monkeypatch.setattr(lag, "_copied", fails)
    found = lag.run(argparse.Namespace(parts="alone,proof", seconds=1, quick=True, lanes=1, mib=1))
    assert found["systems"] == {"alone": {"windows": "alone"}}
    assert [one["part"] for one in found["unmeasured"]] == ["proof"]
    assert "did not copy" in found["unmeasured"][0]["why"]
    assert found["failed"]
    assert "alone {'windows': 'alone'}" in capsys.readouterr().out


async def at_once(*_: object) -> None:
    """Do what needs a cluster."""


def check_second(found: dict[str, Any], name: str) -> None:
    """The second part has no figures, says why, and the bench does not end well."""
    assert [one["part"] for one in found["unmeasured"]] == [name]
    assert "did not copy" in found["unmeasured"][0]["why"]
    assert found["failed"]


def test_the_first_system_of_idle_stays_where_the_second_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def measured(system: str, *others: Any) -> None:
        if system == "mm2":
            raise BenchError("mm2", "did not copy")
        others[-1][system] = {"cpu_percent": 5.0, "rss_mib": 500.0}

    monkeypatch.setattr(pair, "EmbeddedCluster", Nowhere)
    monkeypatch.setattr(pair, "running_clusters", lambda *_: nullcontext())
    monkeypatch.setattr(idle, "create_topic", at_once)
    monkeypatch.setattr(idle, "LAUNCHES", {"raymirror": lambda _: None, "mm2": lambda _: None})
    monkeypatch.setattr(idle, "_measure", measured)
    found = idle.run(argparse.Namespace(systems="raymirror,mm2", seconds=1.0, quick=True, partitions=1, wakes=1))
    assert found["systems"] == {"raymirror": {"cpu_percent": 5.0, "rss_mib": 500.0}}
    check_second(found, "mm2")


class Silent:
    """Stands for a started system, its process tree, a client and a bell: nobody hears of a record that wakes it."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing runs."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing runs."""

    def poll(self) -> None:
        """It has not ended."""

    async def ring_all(self) -> None:
        """Everything is there."""

    async def wake(self, _number: int) -> float:
        raise BenchError("raymirror", "did not copy")


def test_the_rest_of_idle_stays_where_no_record_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def rested(*_: object) -> dict[str, dict[str, float]]:
        return {"raymirror": {"cpu_percent": 5.0}, "ray": {"cpu_percent": 3.0}}

    monkeypatch.setattr(pair, "EmbeddedCluster", Nowhere)
    monkeypatch.setattr(pair, "running_clusters", lambda *_: nullcontext())
    monkeypatch.setattr(idle, "create_topic", at_once)
    monkeypatch.setattr(idle, "LAUNCHES", {"raymirror": lambda _: None})
    monkeypatch.setattr(idle, "_REST_S", 0.0)
    monkeypatch.setattr(idle, "_rest", rested)
    monkeypatch.setattr(idle, "running", lambda *_: nullcontext((Silent(), Silent())))
    for name in ("KafkaPeek", "AIOKafkaProducer", "_Bell"):
        monkeypatch.setattr(idle, name, Silent)
    found = idle.run(argparse.Namespace(systems="raymirror", seconds=1.0, quick=True, partitions=1, wakes=1))
    assert found["systems"] == {"raymirror": {"cpu_percent": 5.0}, "ray": {"cpu_percent": 3.0}}
    check_second(found, "raymirror")


@pytest.mark.parametrize("one_target", [False, True])
def test_the_first_system_of_configsync_stays_where_the_second_fails(
    monkeypatch: pytest.MonkeyPatch, one_target: bool
) -> None:
    figures = {"wall_s": 1.0, "idle_wall_s": 0.5, "requests": {"altered_topics": 1}}
    figures["requests_idle"] = {"altered_topics": 0}

    def measured(_self: object, system: str, *_: object) -> dict[str, Any]:
        if system == "mm2":
            raise BenchError("mm2", "did not copy")
        return figures

    monkeypatch.setattr(configsync, "EmbeddedCluster", Nowhere)
    monkeypatch.setattr(topics, "create", at_once)
    monkeypatch.setattr(topics, "change", at_once)
    monkeypatch.setattr(configsync, "store_positions", at_once)
    monkeypatch.setattr(configsync._Scene, "_system", measured)
    counts = {"topics": 2, "partitions": 1, "changed": 1, "passes": 1, "patience": 1.0, "one_target": one_target}
    found = configsync.run(argparse.Namespace(systems="raymirror-round,mm2", quick=True, **counts))
    assert found["systems"] == {"raymirror-round": figures}
    check_second(found, "mm2")


def test_a_system_that_brings_no_change_has_figures_of_its_other_passes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Idle(Mm2Passes):
        def changed(self, *_: object) -> Pass:
            raise BenchError("configsync", "2 copies do not have the new value")

        def nothing(self) -> Pass:
            return Pass(10.0, 12.5)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing has been started."""

    class Log(Silent):
        def switch(self, *, on: bool) -> None:
            """No broker logs."""

        def count(self, *_: object) -> dict[str, int]:
            return {"describe_configs": 4, "altered_topics": 0}

    monkeypatch.setattr(configsync, "EmbeddedCluster", Nowhere)
    monkeypatch.setattr(topics, "create", at_once)
    monkeypatch.setattr(topics, "change", at_once)
    monkeypatch.setattr(configsync, "RequestLog", Log)
    monkeypatch.setattr(configsync._Scene, "_warm", lambda *_: None)
    monkeypatch.setattr(configsync, "_SYSTEMS", {"mm2": Idle})
    counts = {"topics": 2, "partitions": 1, "changed": 1, "passes": 1, "patience": 1.0, "one_target": False}
    found = configsync.run(argparse.Namespace(systems="mm2", quick=True, **counts))
    one = found["systems"]["mm2"]
    assert (one["idle_wall_s"], one["requests_idle"]["describe_configs"]) == (2.5, 4)
    assert "wall_s" not in one
    assert "requests" not in one
    assert found["unmeasured"] == [{"part": "mm2: changes", "why": one["unchanged"]}]
    assert "do not have the new value" in one["unchanged"]
    assert found["failed"]
    assert "mm2" in capsys.readouterr().out


def test_the_first_system_of_translation_stays_where_the_second_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"places": 2, "exact": 2, "none": 0, "skipping": 0, "mean": 0.0, "p50": 0, "p95": 0, "max": 0}

    async def measured(_self: object, name: str, *_: object) -> dict[str, Any]:
        if name == "mm2":
            raise BenchError("mm2", "did not copy")
        return figures

    async def filled(*_: object) -> tuple[Any, dict[Any, Any], dict[Any, int]]:
        return SimpleNamespace(sent=10, holes=1), {}, {}

    monkeypatch.setattr(translation, "EmbeddedCluster", Nowhere)
    monkeypatch.setattr(translation, "running_clusters", lambda *_: nullcontext())
    monkeypatch.setattr(translation._Bench, "_fill", filled)
    monkeypatch.setattr(translation._Bench, "_system", measured)
    found = translation.run(argparse.Namespace(systems="raymirror,mm2", records=10, groups=1, quick=True))
    assert found["systems"] == {"raymirror": figures}
    check_second(found, "mm2")
