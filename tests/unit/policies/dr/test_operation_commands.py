"""Every hint about an operation names the command that drives operations of its kind."""

import pytest

from engine.flow.operations.errors import NotBegun, StepFailed
from policies.dr.operation_commands import goes_on, takes_back
from policies.dr.operations import DrOperation, begun, refused_abort, refused_start


@pytest.mark.parametrize(
    ("kind", "on", "back"),
    [
        ("switchover", "raymirror dr resume 'A->B'", "raymirror dr abort 'A->B'"),
        ("failback", "raymirror dr failback 'A->B'", "raymirror dr failback 'A->B' --abort"),
    ],
)
def test_hints_by_kind(kind: str, on: str, back: str) -> None:
    assert (goes_on(kind, "A->B"), takes_back(kind, "A->B")) == (on, back)
    assert str(StepFailed(kind, "A->B", "check", "no", True)).endswith(f"; continue: {on}, or take it back: {back}")
    operation = DrOperation(id="1", kind=kind, source="A", target="B", who="ann", began_ms=1)
    refused = refused_start([operation])
    assert refused is not None
    assert refused.why.endswith(f"go on with it: {on}, or take it back: {back}")
    point = next(rule.name for rule in operation.rules if rule.ends_return)
    behind = begun(operation, point, 2)
    refused = refused_start([behind])
    assert refused is not None
    assert refused.why.endswith(f"go on with it: {on}")
    refused = refused_abort(behind)
    assert refused is not None
    assert f"go on with it: {on}; then" in refused.why


def test_an_operation_that_did_not_begin_is_not_to_be_continued() -> None:
    said = str(NotBegun("switchover", "A->B", "no-mirror: none"))
    assert said == ("switchover of A->B may not begin: no-mirror: none; nothing was changed: mend it and begin again")
