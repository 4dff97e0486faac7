"""Which driver a command waits for before it drives."""

import msgspec

from actors.cli.dr.driving import waited_for
from engine.flow.operations.reading import OperationCopy
from engine.services.dr.operation_service import StoredOperations
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
