"""Rounds over systems: the order rotates, and a run without figures costs no other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import rounds as subject
from bench.dataset import LZ4, Backlog, Payload
from bench.errors import BenchError
from bench.parts import Parts
from bench.rounds import Rounds, Size
from bench.systems.launch import Job, Launch

SIZE = Size(mib=1, partitions=2, repeats=3)


class Cluster:
    """A cluster that is never started."""

    bootstrap_servers = "h:1"

    def __init__(self, *_: object, **__: object) -> None:
        self.overrides: dict[str, str] = {}


@contextmanager
def running_clusters(*clusters: Cluster) -> Iterator[None]:
    """Start and stop nothing."""
    yield


class Run:
    """A run with figures."""

    wall_s = cpu_s = 1.0


class Verdict:
    """A verdict that refuses the copies of one system."""

    def __init__(self, refused: str = "") -> None:
        self.refused, self.noted = refused, [""]

    def note(self, backlog: Backlog, source: str) -> None:
        self.noted.append(backlog.topic)

    def judge(self, system: str, job: Job) -> None:
        assert job.backlog.topic == self.noted[-1]
        if system == self.refused:
            raise BenchError(system, "another order")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace clusters and systems; the list gets what ran and which topics were deleted."""
    seen: list[str] = []

    def fill(_cluster: object, payload: Any, topic: str, **_: object) -> Backlog:
        return Backlog(payload=payload.name, codec="lz4", topic=topic, counts=(1, 1), batches=2, wire_bytes=9)

    async def create_topic(*_: object) -> None:
        """Nothing is created."""

    async def delete_topics(_address: str, *, containing: str) -> None:
        seen.append(f"deleted {containing}")

    def run_system(system: str, _launch: Launch, _job: Job) -> Any:
        seen.append(system)
        return Run()

    for name, fake in (
        ("EmbeddedCluster", Cluster),
        ("running_clusters", running_clusters),
        ("fill", fill),
        ("create_topic", create_topic),
        ("delete_topics", delete_topics),
        ("run_system", run_system),
    ):
        monkeypatch.setattr(subject, name, fake)
    return seen


def launch(job: Job) -> Launch:
    return Launch(command=(job.alias,))


def test_another_system_comes_first_in_each_round_and_every_topic_is_deleted(tmp_path: Path, ran: list[str]) -> None:
    bench = Rounds(tmp_path, {"a": launch, "b-c": launch}, ["a", "b-c"], SIZE)
    backlog, runs = bench.run(LZ4, Parts())
    assert [name for name in ran if not name.startswith("deleted")] == ["a", "b-c", "b-c", "a", "a", "b-c"]
    deleted = [name for name in ran if name.startswith("deleted")]
    assert deleted == [f"deleted {name}" for name in ("a001", "bc002", "bc003", "a004", "a005", "bc006", backlog.topic)]
    assert [len(of_system) for of_system in runs.values()] == [3, 3]


def test_a_payload_that_cannot_be_written_costs_no_other(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = msgspec.structs.replace(LZ4, name="full")

    def fill_some(_cluster: object, payload: Payload, topic: str, **_: object) -> Backlog:
        if payload is full:
            raise BenchError("produce", "the disk is full")
        return Backlog(payload=payload.name, codec="lz4", topic=topic, counts=(1, 1), batches=2, wire_bytes=9)

    monkeypatch.setattr(subject, "fill", fill_some)
    bench, parts = Rounds(tmp_path, {"a": launch}, ["a"], SIZE), Parts()
    with bench.running(LZ4):
        found = bench.run_each("drain", [full, LZ4], parts, Verdict)
    assert list(found) == ["lz4"]
    assert [one["part"] for one in parts.unmeasured] == ["full"]
    with pytest.raises(BenchError, match="drain: no payload has figures"):
        bench.run_each("drain", [full], parts)


def test_a_copy_that_is_refused_has_no_figures_and_the_others_have(tmp_path: Path, ran: list[str]) -> None:
    parts = Parts()
    _, runs = Rounds(tmp_path, {"a": launch, "b": launch}, ["a", "b"], SIZE).run(LZ4, parts, Verdict("b"))
    assert all(run is not None for run in runs["a"])
    assert runs["b"] == [None, None, None]
    assert [one["part"] for one in parts.unmeasured] == [f"lz4, round {number}, b" for number in (1, 2, 3)]
