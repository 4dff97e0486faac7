"""A failover is forgotten only where there was one, by a command that owns the flow."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import msgspec
import pytest

from actors.cli.failover import forgetting, open_operation
from actors.cli.failover.open_operation import OperationOpen, ReverseCopies, ReverseFailedOver
from actors.model.states import NotFailedOver
from engine.config.config import load_config
from engine.services.dr.operation_service import ClusterUnread
from engine.state.state import DESIRED, DesiredState, Key, Value, desired_of
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation, OperationState, StepRecord, StepState
from policies.model import FlowName
from tests.unit.engine.config_files import BASE

IDENTITY = "replication.policy.class = IdentityReplicationPolicy\n"


class FakeService:
    """The state of a flow that the command owns."""

    def __init__(self, *entries: DesiredState) -> None:
        self.entries: dict[Key, Value] = dict.fromkeys((DESIRED,), *entries) if entries else {}
        self.holder = ""
        self.operations: list[DrOperation] = []
        self.back: DesiredState | ClusterUnread = DesiredState(state="running")

    # --- of `OperationClusters`

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    async def read(self) -> Any:
        return SimpleNamespace(operations=self.operations)

    def into(self, _side: FlowSide) -> FlowName:
        return FlowName("B", "A")

    async def wanted(self, side: FlowSide) -> DesiredState:
        if side is FlowSide.TARGET:
            return desired_of(self.entries)
        if isinstance(self.back, ClusterUnread):
            raise self.back
        return self.back

    # --- of `held`

    @asynccontextmanager
    async def held(self, _config: object, _flow: object, holder: Any, _dead: object) -> AsyncIterator["FakeService"]:
        self.holder = holder.mirror
        yield self

    def load(self) -> Mapping[Key, Value]:
        return self.entries

    async def put(self, entries: Mapping[Key, Value]) -> None:
        self.entries |= entries


async def forget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: FakeService, policy: str = "") -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(forgetting, "held", service.held)
    monkeypatch.setattr(open_operation, "OperationClusters", lambda *_args: service)
    path = tmp_path / "mm2.properties"
    path.write_text(BASE + policy)
    config = load_config(path)
    await forgetting.forget_failover(config, config.flows[0], "raymirror-A-B")


async def test_a_failover_becomes_a_stop_that_a_start_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = FakeService(DesiredState(state="stopped", stop="failover", paused_topics=("t",), at_ms=5))
    await forget(tmp_path, monkeypatch, service)
    assert service.entries == {DESIRED: DesiredState(state="stopped", stop="mirror", paused_topics=("t",), at_ms=5)}
    assert service.holder == "raymirror-A-B (forget-failover)"


@pytest.mark.parametrize("state", OperationState)
async def test_a_failover_is_kept_while_a_failback_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: OperationState
) -> None:
    service = FakeService(DesiredState(state="stopped", stop="failover"))
    late = StepRecord(name="late-copy", state=StepState.FAILED, began_ms=2)
    service.operations = [
        DrOperation(
            id="op7", kind="failback", source="A", target="B", who="ann", began_ms=1, state=state, steps=(late,)
        )
    ]
    if service.operations[0].has_ended:
        await forget(tmp_path, monkeypatch, service)
        return
    with pytest.raises(OperationOpen) as refused:
        await forget(tmp_path, monkeypatch, service)
    assert "failback op7 of A->B has not ended" in str(refused.value)
    assert str(refused.value).endswith("; go on with it: raymirror dr failback 'A->B'")
    assert service.holder == "", "the flow was not taken"
    assert service.entries == {DESIRED: DesiredState(state="stopped", stop="failover")}


@pytest.mark.parametrize("switched", [True, msgspec.UNSET])
async def test_a_stop_is_kept_while_a_later_failover_of_the_reverse_flow_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, switched: Any
) -> None:
    ours = DesiredState(state="stopped", stop="failover", switched=switched, at_ms=5)
    service = FakeService(ours)
    service.back = DesiredState(state="stopped", stop="failover", at_ms=9)
    with pytest.raises(ReverseFailedOver) as refused:
        await forget(tmp_path, monkeypatch, service, IDENTITY)
    assert "a later failover of B->A stands, so applications write to A" in str(refused.value)
    assert "to give B what A has: raymirror dr failback 'B->A'" in str(refused.value)
    assert service.entries == {DESIRED: ours}
    await forget(tmp_path, monkeypatch, service)  # copies of other names make no loop
    assert not desired_of(service.entries).failed_over


@pytest.mark.parametrize(
    "back",
    [
        DesiredState(state="running", at_ms=9),
        DesiredState(state="stopped", stop="failback", at_ms=9),
        DesiredState(state="stopped", stop="failover", switched=True, at_ms=9),
        DesiredState(state="stopped", stop="failover", at_ms=3),
        ClusterUnread("B->A", "A", "no broker answers"),
    ],
)
async def test_what_stopped_the_reverse_flow_otherwise_or_before_keeps_no_failover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], back: Any
) -> None:
    service = FakeService(DesiredState(state="stopped", stop="failover", at_ms=5))
    service.back = back
    await forget(tmp_path, monkeypatch, service, IDENTITY)
    assert not desired_of(service.entries).failed_over
    is_unread = "whether a failover of B->A stands, or B->A copies, is not known" in capsys.readouterr().err
    assert is_unread is isinstance(back, ClusterUnread)


async def test_a_switchover_is_kept_while_the_reverse_flow_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = DesiredState(state="stopped", stop="failover", switched=True, at_ms=5)
    service = FakeService(ours)
    service.back = DesiredState(state="running", at_ms=6)
    with pytest.raises(ReverseCopies) as refused:
        await forget(tmp_path, monkeypatch, service, IDENTITY)
    assert "to go back from there: raymirror dr switchover 'B->A'" in str(refused.value)
    assert service.entries == {DESIRED: ours}
    service.back = DesiredState(state="stopped", stop="mirror", at_ms=6)
    await forget(tmp_path, monkeypatch, service, IDENTITY)
    assert not desired_of(service.entries).failed_over


@pytest.mark.parametrize("entries", [(), (DesiredState(state="running"),), (DesiredState(state="stopped"),)])
async def test_what_was_not_failed_over_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: tuple[DesiredState, ...]
) -> None:
    service = FakeService(*entries)
    with pytest.raises(NotFailedOver):
        await forget(tmp_path, monkeypatch, service)
