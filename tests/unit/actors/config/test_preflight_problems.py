"""All problems of a configuration are reported at once, whichever check finds them."""

import pickle
from collections.abc import Iterable

import msgspec
import pytest

from actors.config import checks
from engine.base.errors import BrokerRefuses, BrokerUnreachable, ConnectionLost, NotReady, SameCluster
from engine.checks import mm2_preflight
from engine.checks.creation_check import Problem
from engine.checks.mm2_preflight import Mm2Runs, OtherConnector, refuse_running_mm2
from engine.checks.preflight import FlowPreview, _held, _not_ready
from engine.config.settings import FlowConfig, MirrorConfig
from policies.model import FlowName
from tests.unit.engine.config_files import mirror

FLOW = FlowName("A", "B")
TWO_WAYS = "B->A.enabled = true\n"
PROBLEM = Problem(FLOW, "f:1: key: wrong; right", stops=True)


def test_one_problem_is_a_line_and_several_are_counted() -> None:
    assert str(NotReady("one")) == "one"
    assert str(NotReady("one", "two")) == "2 problems\n  one\n  two"
    error = pickle.loads(pickle.dumps(NotReady("one", "two")))
    assert error.problems == ("one", "two")
    same = pickle.loads(pickle.dumps(SameCluster("A->B", "A", "B", "why")))
    assert str(same) == str(SameCluster("A->B", "A", "B", "why"))


def test_clusters_that_are_away_stand_among_the_problems() -> None:
    away = BrokerUnreachable("b1:9092", "nobody listens")
    assert _not_ready(mirror(), {"B": away}, []) is away
    error = _not_ready(mirror(), {"B": away, "A": away}, [PROBLEM, PROBLEM])
    assert isinstance(error, NotReady)
    why = "b1:9092: cannot connect: nobody listens; set it to brokers that answer from this machine"
    assert error.problems == (
        f"mm2.properties:2: A.bootstrap.servers: {why}",
        f"mm2.properties:3: B.bootstrap.servers: {why}",
        PROBLEM.text,
    )


def test_a_missing_right_holds_its_flow_if_another_one_can_start() -> None:
    back, right = FlowName("B", "A"), msgspec.structs.replace(PROBLEM, is_right=True)
    other = msgspec.structs.replace(right, flow=back)
    two = mirror(TWO_WAYS)
    assert _held(two, [right]) == {FLOW}
    assert _held(two, [right, msgspec.structs.replace(other, stops=False)]) == {FLOW}
    assert _held(two, [right, other]) == frozenset(), "nothing would start"
    assert _held(two, [right, PROBLEM]) == frozenset(), "something else is wrong with it"
    assert _held(mirror(), [right]) == frozenset()
    assert checks.awaited_right(right) == (
        "f:1: key: wrong; right; A->B waits for it, asks again every few seconds, and begins when it has it"
    )


def looked(monkeypatch: pytest.MonkeyPatch, **found: Exception | str) -> None:
    async def look(_config: MirrorConfig, flow: FlowConfig) -> str:
        what = found[flow.name.source]
        if isinstance(what, Exception):
            raise what
        return what

    monkeypatch.setattr(mm2_preflight, "_look", look)


RUNS, ELSEWHERE = Mm2Runs("A->B", "g", "B", "x"), OtherConnector("B->A", "t", "c", ("d",))


async def test_mm2_is_told_of_for_all_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    config = mirror(TWO_WAYS)
    flows = [flow.name for flow in config.flows]
    looked(monkeypatch, A=RUNS, B=ELSEWHERE)
    with pytest.raises(NotReady) as refused:
        await refuse_running_mm2(config, flows)
    assert refused.value.problems == (str(RUNS), str(ELSEWHERE))
    looked(monkeypatch, A="perhaps", B=ELSEWHERE)
    with pytest.raises(OtherConnector):
        await refuse_running_mm2(config, flows)
    looked(monkeypatch, A="perhaps", B="")
    (warning,) = await refuse_running_mm2(config, flows)
    assert (warning.key, warning.what) == ("A->B", "perhaps")


async def test_mm2_is_told_of_beside_other_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    async def preview(*_: object) -> Iterable[FlowPreview]:
        raise NotReady("no")

    monkeypatch.setattr(checks, "preview", preview)
    looked(monkeypatch, A=RUNS, B=ConnectionLost("b1:9092"))
    with pytest.raises(NotReady) as refused:
        await checks._prepare(mirror(TWO_WAYS), None)
    assert refused.value.problems == ("no", str(RUNS))


async def test_a_cluster_that_goes_away_under_the_questions_does_not_end_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failure: list[Exception] = [ConnectionLost("b1:9092: closed")]

    async def preview(*_: object) -> Iterable[FlowPreview]:
        raise failure[0]

    monkeypatch.setattr(checks, "preview", preview)
    told: list[str] = []
    _, flows = await checks._prepare(mirror(), told.append)
    assert flows == ()
    assert told == ["connection lost: b1:9092: closed; the mirror starts, and checks again before a flow begins"]
    with pytest.raises(ConnectionLost):
        await checks._prepare(mirror(), None)
    failure[0] = BrokerRefuses("b1:9092", "wrong password")
    with pytest.raises(BrokerRefuses):
        await checks._prepare(mirror(), told.append)
