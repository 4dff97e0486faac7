"""An operation whose driver is killed between any two effects, has a rival, or finds a cluster dead."""

import re
from contextlib import suppress
from typing import cast

import msgspec
import pytest

from engine.base.clock import now_s, pause
from engine.base.errors import ClusterAway, ClusterRefuses, ConnectionLost, KafkaRefusal, MirrorError
from engine.flow.operations.driver import PATIENCE_S, Facts, OperationDriver, Step, StepRun
from engine.flow.operations.errors import OperationRefused, OperationTaken, StepFailed
from engine.flow.operations.store import OperationStore
from policies.dr.operation_steps import SWITCHOVER, FlowSide
from policies.dr.operations import OperationState, StepState
from tests.unit.engine.flow.operations.staged import FLOW, Border, Clusters, Killed, all_made, new, renewed

UNDONE_NAMES = [rule.name for rule in SWITCHOVER if rule.undo]


def kept(clusters: Clusters) -> set[str]:
    """Return what is there that an abort does not take back: effects of steps that name no undo."""
    return {name for name in clusters.made if name.split()[0] not in UNDONE_NAMES}


async def borders() -> int:
    """Count the points between effects of a whole operation."""
    clusters, border = Clusters(), Border()
    await started(clusters, clusters.store(border=border), border)
    return border.passed


async def abort_borders(name: str) -> int:
    """Count the points between effects of an operation that is aborted when a step has failed."""
    border = Border()
    await aborted_at(Clusters(), name, border)
    return border.passed


async def failed_at(clusters: Clusters, driver: OperationDriver, name: str) -> None:
    """Drive until a step fails."""
    clusters.fails.add(name)
    with pytest.raises(StepFailed):
        await driver.start(new())
    clusters.fails.clear()


async def start_or_resume(clusters: Clusters, driver: OperationDriver) -> OperationState:
    """Do what an operator does after a kill: resume, or start again if nothing was stored."""
    with suppress(OperationRefused):
        return (await driver.resume("bob")).state
    return (await driver.start(new())).state


async def aborted_at(clusters: Clusters, name: str, border: Border) -> None:
    """Abort when a step has failed."""
    async with clusters.driver(border) as driver:
        await failed_at(clusters, driver, name)
        await driver.abort("bob", "told to")


async def started(clusters: Clusters, store: OperationStore, border: Border) -> None:
    """Start in a store that stays open."""
    await store.open()
    await clusters.drives(store, border).start(new())


async def test_a_switchover_drives_every_step_once() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        operation = await driver.start(new())
    assert operation.state is OperationState.FINISHED
    assert clusters.made == all_made()
    assert [one for one in clusters.says if one.startswith("do ")] == [f"do {rule.name}" for rule in SWITCHOVER]
    assert all(step.tries == 1 and step.facts == {"made": 2} for step in operation.steps)


async def test_a_driver_may_be_killed_between_any_two_effects() -> None:
    for at in range(await borders()):
        clusters = Clusters()
        with pytest.raises(Killed):
            async with clusters.driver(Border(at)) as driver:
                await driver.start(new())
        async with clusters.driver() as driver:
            assert await start_or_resume(clusters, driver) is OperationState.FINISHED
        assert clusters.made == all_made(), f"killed at {at}"


async def test_a_successor_may_be_killed_between_any_two_effects_as_well() -> None:
    most = await borders()
    for first in range(0, most, 7):
        clusters = Clusters()
        for at in (first, 5, 11, 17):
            with suppress(Killed):
                async with clusters.driver(Border(at)) as driver:
                    await start_or_resume(clusters, driver)
        async with clusters.driver() as driver:
            with suppress(OperationRefused):  # the last one that was killed had finished it
                await driver.resume("bob")
        assert clusters.made == all_made()


@pytest.mark.parametrize("name", ["fence", "settle"])
async def test_an_abort_may_be_killed_between_any_two_effects(name: str) -> None:
    for at in range(0, await abort_borders(name), 2):
        clusters = Clusters()
        with pytest.raises(Killed):
            await aborted_at(clusters, name, Border(at))
        clusters.fails.clear()
        async with clusters.driver() as driver:
            with suppress(OperationRefused):  # nothing was stored yet, or all was done
                operation = await driver.abort("cid", "told to")
                assert operation.state is OperationState.ABORTED
        assert clusters.made == kept(clusters), f"killed at {at}"


async def test_a_driver_that_was_stopped_for_a_while_makes_nothing_behind_its_successor() -> None:
    for at in range(await borders()):
        clusters, border = Clusters(), Border(at)
        store = clusters.store(border=border)
        with pytest.raises(Killed):
            await started(clusters, store, border)
        async with clusters.driver() as driver:
            with suppress(OperationRefused):
                await driver.abort("bob", "told to")
        made = set(clusters.made)
        current = store.current
        if current is None:
            continue
        with pytest.raises(OperationTaken):  # the first driver wakes up where it was
            await clusters.drives(store, Border()).resume("ann")
        assert clusters.made == made, f"stopped at {at}"


async def test_a_stopped_driver_is_refused_by_the_brokers_if_its_clock_has_stopped_too() -> None:
    clusters = Clusters()
    store = clusters.store()
    await store.open()
    old = await store.claim(new(), "ann")
    async with clusters.opened() as rival:
        assert rival.current is not None
        await rival.claim(rival.current, "bob")
    store.assure = lambda: None  # type: ignore[method-assign]
    with pytest.raises(OperationTaken, match="driver 1"):
        await store.save(old)


async def test_a_failed_step_says_why_and_is_done_again() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        clusters.fails.add("drain")
        with pytest.raises(StepFailed, match=r"step 'drain': it cannot be done now; continue: .* abort 'A->B'"):
            await driver.start(new())
    async with clusters.opened() as store:
        assert store.current is not None
        last = store.current.last
        assert last is not None
        assert (last.name, last.state, last.why) == ("drain", StepState.FAILED, "it cannot be done now")
    clusters.fails.clear()
    async with clusters.driver() as driver:
        operation = await driver.resume("bob")
    assert operation.state is OperationState.FINISHED
    assert [step.tries for step in operation.steps if step.name in ("fence", "drain")] == [1, 2]


AWAY = ClusterAway("", "B", "b:1 does not answer")


async def test_a_step_that_loses_a_broker_for_a_moment_is_run_again_by_its_driver() -> None:
    clusters = Clusters()
    clusters.losses["drain"] = [ConnectionLost("b:1"), AWAY, ConnectionLost("b:2")]
    async with clusters.driver() as driver:
        operation = await driver.start(new())
    assert operation.state is OperationState.FINISHED
    assert "again, because connection lost: b:1" in clusters.says
    assert sum(text.startswith("again, because") for text in clusters.says) == 3


@pytest.mark.parametrize(
    ("loss", "again"),
    [
        (ConnectionLost("b:1"), range(10, 1000)),
        (ClusterRefuses("", "B", "the password is wrong"), range(1)),
        (KafkaRefusal("offsets", 29, "TopicAuthorizationFailed", ""), range(1)),
    ],
)
async def test_a_step_whose_loss_does_not_pass_fails_and_is_resumed(loss: MirrorError, again: range) -> None:
    clusters = Clusters()
    async with clusters.opened() as store, renewed(store):
        driver = clusters.drives(store, Border())
        clusters.losses["drain"] = [loss] * 1000
        began_s = now_s()
        with pytest.raises(StepFailed, match=re.escape(str(loss))):
            await driver.start(new())
        assert now_s() - began_s < 2 * PATIENCE_S
        assert sum(text.startswith("again, because") for text in clusters.says) in again
        clusters.losses.clear()
        assert (await driver.resume("bob")).state is OperationState.FINISHED


async def test_a_step_that_works_for_hours_may_lose_a_broker_now_and_then() -> None:
    clusters = Clusters()
    async with clusters.opened() as store, renewed(store):
        driver = clusters.drives(store, Border())
        drain, hours = driver._steps["drain"], [3600.0] * 3

        class Long:
            async def do(self, run: StepRun) -> Facts:
                if hours:
                    await pause(hours.pop())
                    raise ConnectionLost("b:1")
                return await drain.do(run)

        driver._steps = {**driver._steps, "drain": cast("Step", Long())}
        assert (await driver.start(new())).state is OperationState.FINISHED
    assert sum(text.startswith("again, because") for text in clusters.says) == 3


async def test_an_undo_that_loses_a_broker_for_a_moment_is_run_again() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        await failed_at(clusters, driver, "drain")
        clusters.fails.clear()
        clusters.losses["fence"] = [ConnectionLost("b:1")]
        operation = await driver.abort("bob", "told to")
    assert operation.state is OperationState.ABORTED
    assert clusters.made == kept(clusters)


async def test_a_resume_stores_what_is_chosen_anew_and_keeps_the_rest() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        clusters.fails.add("groups")
        with pytest.raises(StepFailed):
            await driver.start(msgspec.structs.replace(new(), choices={"fence": "none", "ignore": ""}))
        clusters.fails.clear()
        operation = await driver.resume("bob", {"ignore": "groups-not-equal"})
    assert operation.choices == {"fence": "none", "ignore": "groups-not-equal"}


async def test_behind_the_point_of_no_return_only_forward() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        clusters.fails.add("reverse")
        with pytest.raises(StepFailed) as failure:
            await driver.start(new())
        assert not failure.value.can_return
        assert "abort" not in str(failure.value)
        with pytest.raises(OperationRefused, match="point-of-no-return-passed"):
            await driver.abort("bob", "told to")
        clusters.fails.clear()
        assert (await driver.resume("bob")).state is OperationState.FINISHED


async def test_an_undo_that_fails_is_undone_again() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        await failed_at(clusters, driver, "drain")
        clusters.fails.add("fence")
        with pytest.raises(StepFailed):
            await driver.abort("bob", "told to")
        assert "fence 1" in clusters.made
        clusters.fails.clear()
        operation = await driver.resume("bob")  # an abort that is resumed goes on backwards
    assert operation.state is OperationState.ABORTED
    assert clusters.made == kept(clusters)


async def test_one_operation_at_a_time_whatever_its_direction() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        await failed_at(clusters, driver, "drain")
        with pytest.raises(OperationRefused, match="another-operation-runs"):
            await driver.start(new("2", source="B", target="A"))
    async with clusters.opened() as store:
        with pytest.raises(OperationRefused, match="operation-of-the-reverse-flow"):
            await OperationDriver(store, "B->A", {}, clusters, {}).resume("bob")


async def test_without_the_target_an_abort_takes_the_fence_away_and_waits_for_the_rest() -> None:
    clusters = Clusters()
    async with clusters.driver() as driver:
        await failed_at(clusters, driver, "settle")
    async with clusters.driver(away=[FlowSide.TARGET]) as driver:
        with pytest.raises(OperationRefused, match="step 'pause' needs the target"):
            await driver.abort("bob", "B is dead")
    assert not {"fence 1", "positions 1"} & clusters.made
    assert "pause 1" in clusters.made
    async with clusters.driver() as driver:  # the target is back, and its copy is behind
        assert (await driver.resume("bob")).state is OperationState.ABORTED
    assert clusters.made == kept(clusters)


async def test_no_step_forward_without_a_cluster() -> None:
    clusters = Clusters()
    for away in FlowSide:
        async with clusters.driver(away=[away]) as driver:
            with pytest.raises(OperationRefused, match="cluster-does-not-answer"):
                await driver.start(new())
    async with clusters.opened() as store:
        assert store.operations == ()


async def test_a_step_that_nothing_does_is_a_fault_of_the_program() -> None:
    clusters = Clusters()
    async with clusters.opened() as store:
        with pytest.raises(ValueError, match="nothing does step 'check'"):
            await OperationDriver(store, FLOW, {}, clusters, {}).start(new())
