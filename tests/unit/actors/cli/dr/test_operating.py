"""`raymirror dr status`: the newest fact comes first, and nothing that was overtaken is left to be done."""

from pathlib import Path
from typing import Self

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.dr import failovers, operating
from actors.cli.dr.failovers import FailoverRow, FoundFailovers
from actors.cli.main import main
from engine.config.settings import FlowConfig
from engine.flow.operations.reading import OperationCopy
from engine.services.dr.operation_service import ClusterUnread, StoredOperations
from engine.state.state import DESIRED, DesiredState, Key, OperationEntry, Value, operation_key
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation, begun, done, finished
from tests.unit.engine.config_files import BASE

NEW = DrOperation(id="op-1", kind="switchover", source="B", target="A", who="ann", began_ms=1_000)
TURN = {"reverse_start": "enable A->B instead of B->A, then: raymirror run FILE"}
SWITCHED = finished(done(begun(NEW, "reverse", 1_000), "reverse", 2_000, TURN), 3_000)


def failover(at_ms: int, flow: str = "A->B", *, stands: bool = True) -> FailoverRow:
    return FailoverRow(flow=flow, at_ms=at_ms, stands=stands, text=f"to go back from {flow}", who="eve")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    return path


def status(config: Path, monkeypatch: pytest.MonkeyPatch, operation: DrOperation | None, *rows: FailoverRow) -> int:
    entries = {} if operation is None else {operation_key(operation.id): OperationEntry(operation=operation)}
    stored = StoredOperations(copies={FlowSide.TARGET: OperationCopy(entries=entries)})

    async def read(_found: object) -> tuple[StoredOperations, FoundFailovers]:
        return stored, FoundFailovers(rows=rows)

    monkeypatch.setattr(operating, "_read_all", read)
    return main(["dr", "status", "A->B", "--config", str(config)])


class FakeView:
    """The target of a flow: what is wanted of the flow, and no event."""

    def __init__(self, wanted: DesiredState | Exception) -> None:
        self.wanted = wanted

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    async def state(self) -> dict[Key, Value]:
        if isinstance(self.wanted, Exception):
            raise self.wanted
        return {DESIRED: self.wanted}

    async def events(self, _kinds: object) -> tuple[()]:
        return ()


FAILED, GONE = DesiredState(state="stopped", stop="failover", at_ms=5), ClusterUnread("B->A", "A", "no answer")


@pytest.mark.parametrize(
    ("policy", "ours", "back", "reverse"),
    [
        ("Identity", FAILED, DesiredState(state="running", at_ms=9), ""),
        ("Identity", FAILED, DesiredState(state="stopped", stop="failover", at_ms=9), "failed-over"),
        ("Default", FAILED, DesiredState(state="stopped", stop="failover", at_ms=9), ""),
        ("Identity", msgspec.structs.replace(FAILED, switched=True), DesiredState(state="running"), "copies"),
        ("Identity", FAILED, GONE, "unknown"),
        ("Default", FAILED, GONE, ""),
    ],
)
def test_what_keeps_the_stop_of_a_flow_is_told_to_programs(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    policy: str,
    ours: DesiredState,
    back: DesiredState | Exception,
    reverse: str,
) -> None:
    async def read(_found: object) -> StoredOperations:
        return StoredOperations(copies={FlowSide.TARGET: OperationCopy(entries={})})

    def view(_config: object, flow: FlowConfig) -> FakeView:
        return FakeView(ours if str(flow.name) == "A->B" else back)

    config.write_text(f"{BASE}replication.policy.class = {policy}ReplicationPolicy\n")
    monkeypatch.setattr(operating, "read", read)
    monkeypatch.setattr(failovers, "TargetView", view)
    assert main(["dr", "status", "A->B", "--config", str(config), "--json"]) == exits.OK
    assert msgspec.json.decode(capsys.readouterr().out)["reverse"] == reverse


def test_a_failover_that_came_later_is_first_and_the_switchover_leaves_nothing_to_do(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(config, monkeypatch, SWITCHED, failover(9_000)) == exits.OK
    said = capsys.readouterr().out
    assert said.startswith("failover of A->B at ")
    assert said.index("to go back from A->B") < said.index("switchover op-1 of B->A: finished")
    assert "left to the operator" not in said


@pytest.mark.parametrize("row", [failover(9_000, stands=False), failover(9_000)])
def test_what_a_later_failover_has_overtaken_is_not_advised_even_if_it_has_ended(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], row: FailoverRow
) -> None:
    status(config, monkeypatch, SWITCHED, row)
    assert "left to the operator" not in capsys.readouterr().out


def test_a_switchover_that_came_later_is_first_and_says_what_is_left(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status(config, monkeypatch, SWITCHED, failover(500, "B->A"))
    said = capsys.readouterr().out
    assert said.startswith("switchover op-1 of B->A: finished")
    assert "switchover left to the operator: enable A->B instead of B->A" in said
    assert said.index("left to the operator") < said.index("failover of B->A")


def test_of_two_failovers_only_the_later_one_says_what_to_do(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status(config, monkeypatch, None, failover(500, "B->A"), failover(900))
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith("(eve): to go back from A->B")
    assert second.startswith("failover of B->A at ")
    assert second.endswith("(eve): a later failover has overtaken it")
    assert third == "no operation of A->B was ever begun"
