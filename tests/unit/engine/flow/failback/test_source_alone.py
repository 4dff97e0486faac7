"""A failback is taken back while the target is dead: the fence and the retention of the source."""

import pytest

from engine.flow.failback.first_steps import Fenced, Retention
from engine.flow.failback.source_alone import undo_steps
from engine.flow.failback.steps import failback_steps
from engine.flow.operations.driver import OperationDriver
from engine.flow.operations.errors import StepFailed
from engine.flow.operations.fencing import AclFence, FenceChoice
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import OperationState
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.unit.engine.flow.failback.played import failback
from tests.unit.engine.flow.failback.test_failback_steps import failed_over

WRITES = Binding(Resource.TOPIC, "t", Pattern.LITERAL, "User:shop", "*", Operation.WRITE, Permission.ALLOW)


async def test_the_source_is_as_before_although_the_target_does_not_answer() -> None:
    played = await failed_over(late=True)
    settings = played.settings["A"]
    settings.bindings = {WRITES}
    fence = AclFence(settings, FenceChoice(own="User:mirror"))
    played.fence = fence  # type: ignore[assignment]
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="no-export"):
            await driver.start(failback(export=""))
    assert len(settings.bindings) == 2
    away = {FlowSide.TARGET: "it is dead"}
    async with played.opened(away=list(away)) as store:
        steps = undo_steps(settings, fence)
        operation = await OperationDriver(store, "A->B", steps, played, away).abort("bob", "B is dead")
    assert operation.state is OperationState.ABORTED
    assert settings.bindings == {WRITES}
    assert settings.own["t"]["retention.ms"] == "5000"


async def test_every_step_that_is_undone_has_an_undo_alone() -> None:
    played = await failed_over(late=False)
    own = {name for name, step in failback_steps(played.world()).items() if isinstance(step._step, Fenced | Retention)}
    assert own == undo_steps(played.settings["A"], played.fence).keys()
