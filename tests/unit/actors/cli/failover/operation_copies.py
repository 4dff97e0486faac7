"""What a target has of operations, for tests of failovers."""

from engine.flow.operations.reading import OperationCopy
from engine.state.state import Key, OperationEntry, Value, operation_key
from policies.dr.operations import DrOperation


def copy_of(operation: DrOperation | None) -> OperationCopy:
    """Return the copy of a cluster that has one operation, or none."""
    entries: dict[Key, Value] = {}
    if operation is not None:
        entries[operation_key(operation.id)] = OperationEntry(operation=operation)
    return OperationCopy(entries=entries)
