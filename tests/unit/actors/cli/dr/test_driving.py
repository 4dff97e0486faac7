"""Which driver a command waits for before it drives, and which operations it drives."""

import msgspec
import pytest

from actors.cli.dr.driving import refuse_kind, stored_choices, waited_for
from engine.flow.operations.errors import OperationRefused
from engine.flow.operations.reading import OperationCopy
from engine.services.dr.moves.steps import MoveChoices
from engine.services.dr.operation_service import StoredOperations
from engine.services.dr.switchover.build import SwitchoverChoices
from engine.state.state import DEPLOYMENT, Deployment, OperationEntry, operation_key
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation

DRIVER = Deployment(
    deployment_id="d", instance_id="i", mirror="m (operation)", version="1", where="host", term=1, since_ms=1
)
NEW = DrOperation(id="1", kind="switchover", source="A", target="B", who="ann on laptop", began_ms=1)


def stored(driver: Deployment, *operations: DrOperation) -> StoredOperations:
    entries = {operation_key(one.id): OperationEntry(operation=one) for one in operations}
    copy = OperationCopy(entries={DEPLOYMENT: driver, **entries})
    return StoredOperations(copies={FlowSide.SOURCE: copy, FlowSide.TARGET: copy})


def test_a_command_says_whose_lease_it_waits_for() -> None:
    (said,) = waited_for(stored(DRIVER, NEW))
    assert said.startswith("the command of ann on laptop drove operations here")
    assert said.endswith("30 s at most")
    (said,) = waited_for(stored(DRIVER))
    assert said.startswith("a command on host drove")
    assert not list(waited_for(stored(msgspec.structs.replace(DRIVER, released=True), NEW)))


@pytest.mark.parametrize(
    ("kind", "choices"),
    [("switchover", SwitchoverChoices(fence="none")), ("move", MoveChoices(fence="none", topics=("t",), left=("g",)))],
)
def test_switchovers_and_moves_go_on_with_their_own_choices(kind: str, choices: SwitchoverChoices) -> None:
    operation = msgspec.structs.replace(NEW, kind=kind, choices=choices.facts())
    refuse_kind(operation)
    found = stored_choices(operation)
    assert found == choices
    assert type(found) is type(choices)


def test_other_operations_have_a_command_of_their_own() -> None:
    failback = msgspec.structs.replace(NEW, kind="failback")
    assert stored_choices(failback) is None
    with pytest.raises(OperationRefused, match="goes on with: raymirror dr failback"):
        refuse_kind(failback)
    refuse_kind(None)
