"""The commands that go on with an operation and that take it back: every hint takes them from here."""

from policies.dr.advice import ABORT, DR_ABORT, DR_FAILBACK, DR_RESUME
from policies.dr.operation_steps import OperationKind


def goes_on(kind: str, flow: str) -> str:
    """Return the command that goes on with an operation of a kind that has not ended."""
    return (DR_FAILBACK if kind == OperationKind.FAILBACK.value else DR_RESUME).given(flow)


def takes_back(kind: str, flow: str) -> str:
    """Return the command that takes an operation back, while that is possible."""
    if kind == OperationKind.FAILBACK.value:
        return DR_FAILBACK.given(flow, ABORT.given())
    return DR_ABORT.given(flow)
