"""The commands that go on with an operation and that take it back: every hint takes them from here."""

from policies.dr.operation_steps import OperationKind

_VERBS = {OperationKind.FAILBACK.value: ("failback", "failback", "--abort")}
"""By kind: the action that goes on, the action that takes back, and the flags of the latter."""
_USUAL = ("resume", "abort", "")


def goes_on(kind: str, flow: str) -> str:
    """Return the command that goes on with an operation of a kind that has not ended."""
    on, _, _ = _VERBS.get(kind, _USUAL)
    return f"raymirror dr {on} '{flow}'"


def takes_back(kind: str, flow: str) -> str:
    """Return the command that takes an operation back, while that is possible."""
    _, back, flags = _VERBS.get(kind, _USUAL)
    return " ".join(filter(None, (f"raymirror dr {back} '{flow}'", flags)))
