"""The executors of a session: what RayDP and Ray are asked for. Both are fakes here."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.spark import executors as module
from actors.spark.executors import Executors, FoundActor


class FakeCluster:
    """Executors by name, with their nodes (empty: no place yet), and a Spark that knows those with a place."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.nodes: dict[str, str] = {}
        self.known = 0
        self.totals: list[int] = []
        self.ended: list[str] = []
        self.asked_to_end: list[list[str]] = []
        patch.setattr(module, "executor_names", lambda: sorted(self.nodes))
        patch.setattr(module, "find_actor", self.find)
        patch.setattr(module, "_end", lambda actor: self.end(actor.handle))

    def has(self, **nodes: str) -> None:
        self.nodes = nodes
        self.known = sum(bool(node) for node in nodes.values())

    def find(self, name: str) -> FoundActor | None:
        return FoundActor(name, self.nodes[name], bool(self.nodes[name])) if name in self.nodes else None

    def end(self, name: str) -> None:
        self.ended.append(name)
        del self.nodes[name]

    # --- what Spark has ----------------------------------------------------------------------------------------

    def isStopped(self) -> bool:
        return False

    def statusTracker(self) -> Any:
        return SimpleNamespace(getExecutorInfos=lambda: [None] * (self.known + 1))

    def requestTotalExecutors(self, total: int, tasks: int, hosts: object) -> None:
        self.totals.append(total)

    def schedulerBackend(self) -> Any:
        ids = ",".join(str(number) for number in range(8, 8 + self.known))
        sequence = SimpleNamespace(mkString=lambda _: ids)
        return SimpleNamespace(getExecutorIds=lambda: sequence, killExecutors=self.kill)

    def kill(self, ids: list[str], adjusts: bool, counts: bool, forces: bool) -> None:
        assert (adjusts, counts, forces) == (True, False, False)
        self.asked_to_end.append(ids)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    return FakeCluster(monkeypatch)


@pytest.fixture
def executors(cluster: FakeCluster) -> Executors:
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: cluster))
    utils = SimpleNamespace(toScalaMap=dict, toSeq=list)
    return Executors(SimpleNamespace(sparkContext=context, _jvm=SimpleNamespace(PythonUtils=utils)))


def test_missing_ones_are_added_once(cluster: FakeCluster, executors: Executors) -> None:
    cluster.has(a="n1")
    executors.resize(3, ())
    assert not cluster.totals, "RayDP may be starting them"
    executors.resize(3, ())
    assert cluster.totals == [3]
    cluster.has(a="n1", b="", c="")  # they start, or wait for a place
    assert not executors.resize(3, ()), "nothing is to be done"
    assert cluster.totals == [3]


def test_as_long_as_none_comes_more_are_asked_for(cluster: FakeCluster, executors: Executors) -> None:
    """RayDP's count of executors may contain one that is gone."""
    for _ in range(4):
        executors.resize(1, ())
    assert cluster.totals == [1, 2, 3]
    cluster.has(a="n1")
    executors.resize(1, ())
    for _ in range(2):
        executors.resize(2, ())
    assert cluster.totals == [1, 2, 3, 2]


def test_those_without_a_place_end_first_and_then_the_newest(cluster: FakeCluster, executors: Executors) -> None:
    cluster.has(a="n1", b="n2", c="n2", d="")
    executors.resize(1, ())
    assert cluster.ended == ["d"]
    assert cluster.asked_to_end == [["10", "9"]]
    assert not cluster.totals


def test_of_a_node_that_is_drained_they_are_ended_and_others_started(
    cluster: FakeCluster, executors: Executors
) -> None:
    cluster.has(a="n1", b="n2")
    assert executors.resize(2, {"n2"}), "another is missing now"
    assert cluster.ended == ["b"]
    executors.resize(2, {"n2"})
    assert cluster.totals == [3], "Spark and RayDP still count the one that was ended"
    assert not cluster.asked_to_end


def test_nodes_are_asked_for_only_while_one_is_drained(
    cluster: FakeCluster, executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.has(a="n1")
    monkeypatch.setattr(module, "find_actor", pytest.fail)
    executors.resize(1, ())


def test_a_context_that_has_stopped_is_an_error(
    cluster: FakeCluster, executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "isStopped", lambda: True)
    with pytest.raises(RuntimeError, match="SparkContext has stopped"):
        executors.running()
