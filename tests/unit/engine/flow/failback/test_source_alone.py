"""A failback is taken back while the target is dead: the fence and the retention of the source."""

from contextlib import suppress

import pytest

from engine.flow.failback.first_steps import Fenced, Retention
from engine.flow.failback.source_alone import undo_steps
from engine.flow.failback.steps import failback_steps
from engine.flow.operations.driver import OperationDriver
from engine.flow.operations.errors import OperationRefused, StepFailed
from engine.flow.operations.fencing import AclFence, FenceChoice
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import OperationState
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.unit.engine.flow.failback.played import failback
from tests.unit.engine.flow.failback.test_failback_steps import D, N, P, failed_over
from tests.unit.engine.flow.operations.staged import Killed

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
    own = {name for name, step in failback_steps(played.world()).items() if isinstance(step, Fenced | Retention)}
    assert own == undo_steps(played.settings["A"], played.fence).keys()


async def test_a_source_serves_while_the_target_is_dead_and_what_it_gets_then_is_kept() -> None:
    played = await failed_over(late=True)
    settings = played.settings["A"]
    settings.bindings = {WRITES}
    fence = AclFence(settings, FenceChoice(own="User:mirror"))
    played.fence = fence  # type: ignore[assignment]

    def dies(asked: str) -> None:
        if asked == "acquire" and "do turn" in played.says:
            raise Killed

    played.a.begun = dies
    with suppress(BaseException):
        async with played.failing_back() as driver:
            await driver.start(failback())
    played.a.begun = lambda _asked: None
    assert played.there[0].names() == [*P, *N, *D], "it is behind its point of no return"
    away = {FlowSide.TARGET: "it is dead"}
    for _ in range(2):  # a release that was killed is given again
        async with played.opened(away=list(away)) as store:
            driver = OperationDriver(store, "A->B", undo_steps(settings, fence), played, away)
            operation = await driver.release("bob", "B is dead")
    assert (operation.state, operation.can_return) == (OperationState.RUNNING, False)
    assert (settings.bindings, settings.own["t"]["retention.ms"]) == ({WRITES}, "5000")
    played.here[0].write("x0", "x1")
    settings.own["t"]["retention.ms"] = "6000"
    async with played.failing_back() as driver:
        operation = await driver.resume("bob")
    assert operation.state is OperationState.FINISHED
    assert played.here[0].names() == [*P, *D, "x0", "x1", *N]
    assert played.there[0].names() == [*P, *N, *D, "x0", "x1"]
    assert settings.own["t"]["retention.ms"] == "6000"
    assert len(settings.bindings) == 2, "the fence stands again"


async def test_a_source_is_released_only_between_the_point_of_no_return_and_its_first_new_record() -> None:
    played = await failed_over(late=True)
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="no-export"):
            await driver.start(failback(export=""))
        with pytest.raises(OperationRefused, match="can be taken back instead"):
            await driver.release("bob", "")
        await driver.abort("bob", "")
    played = await failed_over(late=True)
    played.groups["B"].before = lambda _asked: (_ for _ in ()).throw(Killed()) if "do groups" in played.says else None
    with suppress(BaseException):
        async with played.failing_back() as driver:
            await driver.start(failback())
    async with played.failing_back() as driver:
        with pytest.raises(OperationRefused, match="has begun step 'new-copy', which changes the source"):
            await driver.release("bob", "")
