"""A mirror as a command's process sees it, without Ray: mirrors that do not answer, supervisors that come back."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from actors.model.messages import ConfigRef, MirrorSpec
from actors.model.status import MirrorStatus, encode_status
from actors.ray import fleet as ray_fleet
from actors.ray import mirror as under_test
from actors.ray.connect import RayConnection
from actors.ray.mirror import FlowTaken, Mirror, MirrorLost, patiently, refuse_taken, running, start
from tests.unit.actors.fakes import Clock, FakeFleet
from tests.unit.actors.mirrors import started


class FakeRay:
    """Answers what was asked; an answer that is an error is raised, None never comes."""

    def __init__(self) -> None:
        self.killed: list[object] = []

    def kill(self, handle: object) -> None:
        self.killed.append(handle)

    def wait(self, asked: Sequence[Any], *, num_returns: int, timeout: float) -> None:
        assert num_returns == len(asked)
        assert timeout > 0

    def get(self, ref: Any, timeout: float) -> bytes:
        from ray.exceptions import GetTimeoutError

        if ref is None:
            raise GetTimeoutError
        if isinstance(ref, Exception):
            raise ref
        return bytes(ref)


class FakeHandle:
    """An actor handle with one method, whose answer is known."""

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self.status = self

    def remote(self, _lanes: bool, _follower: str) -> object:
        return self._answer


RAY = FakeRay()
CONNECTION = RayConnection(RAY, "host:1", None)
SPEC = MirrorSpec(
    config=ConfigRef(path="/c", digest="d"), namespace="raymirror-t", version="0", deployment_id="x", drain_s=1.0
)


def mirror(answer: object) -> Mirror:
    return Mirror(CONNECTION, FakeHandle(answer), "raymirror-other")


@pytest.fixture
def status(fleet: FakeFleet, clock: Clock) -> MirrorStatus:
    return started(fleet, clock).status()


def test_a_flow_of_another_mirror_is_refused(status: MirrorStatus) -> None:
    others = {"raymirror-other": mirror(encode_status(status))}
    with pytest.raises(FlowTaken, match="copied by mirror other"):
        refuse_taken(CONNECTION, others, ("A->B",))
    refuse_taken(CONNECTION, others, ("B->A",))
    refuse_taken(CONNECTION, {}, ("A->B",))


def test_another_mirror_that_is_broken_bars_nobody(status: MirrorStatus) -> None:
    from ray.exceptions import RayActorError

    broken = {"b-silent": mirror(None), "c-dead": mirror(RayActorError()), "d-of-the-future": mirror(b"\xc1")}
    refuse_taken(CONNECTION, broken, ("A->B",))
    with pytest.raises(FlowTaken):
        refuse_taken(CONNECTION, {**broken, "e-well": mirror(encode_status(status))}, ("A->B",))


def test_a_supervisor_that_comes_back_is_waited_for() -> None:
    answers: list[object] = [MirrorLost("n", "restarting"), MirrorLost("n", "restarting"), "here"]

    def ask() -> object:
        answer = answers.pop(0)
        if isinstance(answer, MirrorLost):
            raise answer
        return answer

    assert patiently(ask, within_s=60.0) == "here"


def test_one_that_does_not_come_back_is_told() -> None:
    def ask() -> object:
        raise MirrorLost("n", "it has failed")

    with pytest.raises(MirrorLost, match="it has failed"):
        patiently(ask, within_s=0.0)


def test_a_supervisor_that_ends_while_mirrors_are_listed_is_no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = {"raymirror-b": FakeHandle(None)}
    named = [{"name": "supervisor", "namespace": space} for space in ("raymirror-ended", "raymirror-b", "of-others")]
    ray = SimpleNamespace(util=SimpleNamespace(list_named_actors=lambda all_namespaces: named))

    def find(_name: str, namespace: str) -> FakeHandle:
        if namespace in handles:
            return handles[namespace]
        raise ValueError("Failed to look up actor")

    monkeypatch.setattr("actors.calls.ray.get_actor", find)
    assert list(running(RayConnection(ray, "host:1", None))) == ["raymirror-b"]


def begin(monkeypatch: pytest.MonkeyPatch, known: FakeHandle | None, answer: object) -> tuple[FakeHandle, list[object]]:
    """Prepare a start beside a supervisor of the same name; the new one answers so. Give it, and who is killed."""
    new = FakeHandle(answer)
    found = {} if known is None else {SPEC.namespace: Mirror(CONNECTION, known, SPEC.namespace)}
    monkeypatch.setattr(under_test, "FAILED_S", 0.0)
    monkeypatch.setattr(under_test, "running", lambda _connection: found)
    monkeypatch.setattr(under_test, "_wait_name_free", lambda _connection, _namespace: None)
    monkeypatch.setattr(ray_fleet, "start_supervisor", lambda _shell, _spec: new)
    monkeypatch.setattr(RAY, "killed", [])
    return new, RAY.killed


def test_a_supervisor_that_has_failed_is_taken_over_from(status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import RayActorError

    failed = FakeHandle(RayActorError())
    _, killed = begin(monkeypatch, failed, encode_status(status))
    _, done = start(CONNECTION, SPEC, ("A->B",))
    assert killed == [failed]
    assert "took over from a supervisor that had failed" in done


def test_one_that_is_well_is_joined(status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    _, killed = begin(monkeypatch, FakeHandle(encode_status(status)), None)
    assert start(CONNECTION, SPEC, ("A->B",))[1] == "joined"
    assert killed == []


def test_one_that_cannot_begin_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import RayActorError

    new, killed = begin(monkeypatch, None, RayActorError())
    with pytest.raises(MirrorLost):
        start(CONNECTION, SPEC, ("A->B",))
    assert killed == [new], "else Ray would start it again and again"
