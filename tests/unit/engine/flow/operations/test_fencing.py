"""A fence on a cluster in memory: kills between any two effects, brokers that refuse, and what was there before."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from engine.flow.operations import fencing
from engine.flow.operations.driver import StepRun
from engine.flow.operations.fencing import AclFence, FenceChoice, FenceFailed, FenceRefused
from policies.dr.fence import FENCE_NOTES, EveryoneRule, FenceRow
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from tests.fakes.settings import FakeSettings
from tests.unit.engine.flow.operations.staged import Killed

TOPICS = ["orders", "clicks"]


def acl(name: str, principal: str, operation: Operation = Operation.WRITE, permission: int = 3) -> Binding:
    return Binding(Resource.TOPIC, name, Pattern.LITERAL, principal, "*", operation, permission)


class Notes:
    """What survives a kill: the notes of the operation. `left`: how many points a driver passes before it is killed."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.left = -1
        self.passed = 0

    def cross(self, _what: str = "") -> None:
        self.passed += 1
        if self.left >= 0 and self.passed > self.left:
            raise Killed

    def notes(self, name: str, _kind: type[msgspec.Struct]) -> tuple[Any, ...] | None:
        return self.rows.get(name)

    async def keep(self, name: str, rows: Sequence[msgspec.Struct]) -> None:
        self.cross()
        self.rows[name] = tuple(rows)

    def assure(self) -> None:
        self.cross()

    @property
    def run(self) -> StepRun:
        return cast("StepRun", self)


class Stage:
    """A cluster whose topics `orders` and `clicks` have writers."""

    def __init__(self) -> None:
        self.cluster, self.notes = FakeSettings("A"), Notes()
        self.before = {acl("orders", "User:a"), acl("*", "User:b"), acl("orders", "User:b", permission=2)}
        self.cluster.bindings = set(self.before)
        self.cluster.before = self.notes.cross

    def fence(self, **changes: Any) -> AclFence:
        return AclFence(self.cluster, FenceChoice(own="User:mirror", **changes))

    def alive(self) -> None:
        """A new driver."""
        self.notes.left = -1


DENIED = {
    acl("orders", "User:a", permission=2),
    acl("clicks", "User:b", permission=2),
}


async def test_a_fence_is_made_and_taken_back() -> None:
    stage = Stage()
    assert await stage.fence().refuse(TOPICS) == {
        "principals": "User:a, User:b",
        "passing": "",
        "new_bindings": 2,
        "topics_without_writers": 0,
    }
    assert stage.cluster.bindings == stage.before
    facts = await stage.fence().close(stage.notes.run, TOPICS)
    assert facts["bindings"] == 2
    assert stage.cluster.bindings == stage.before | DENIED
    assert await stage.fence().open(stage.notes.run) == {"removed_bindings": 2}
    assert stage.cluster.bindings == stage.before
    assert await stage.fence().open(stage.notes.run) == {"removed_bindings": 0}


async def test_a_driver_is_killed_between_any_two_effects_of_a_fence() -> None:
    whole = Stage()
    await whole.fence().close(whole.notes.run, TOPICS)
    for at in range(whole.notes.passed):
        for goes_on in (True, False):
            stage = Stage()
            stage.notes.left = at
            with pytest.raises(Killed):
                await stage.fence().close(stage.notes.run, TOPICS)
            made = stage.cluster.bindings - stage.before
            assert made <= {row.binding for row in stage.notes.rows.get(FENCE_NOTES, ())}
            stage.alive()
            if goes_on:
                await stage.fence().close(stage.notes.run, TOPICS)
                assert stage.cluster.bindings == stage.before | DENIED
            await stage.fence().open(stage.notes.run)
            assert stage.cluster.bindings == stage.before, f"killed at {at}"


async def test_a_fence_that_is_made_again_remembers_what_it_had_made() -> None:
    stage = Stage()
    await stage.fence().close(stage.notes.run, TOPICS)
    stage.cluster.bindings.add(acl("clicks", "User:c"))
    await stage.fence().close(stage.notes.run, TOPICS)
    assert {row.binding for row in stage.notes.rows[FENCE_NOTES]} == DENIED | {acl("clicks", "User:c", permission=2)}


async def test_a_refused_fence_has_no_effect() -> None:
    stage = Stage()
    with pytest.raises(FenceRefused, match="own-principal-named"):
        await stage.fence(named=("User:mirror",)).close(stage.notes.run, TOPICS)
    assert stage.notes.rows == {}
    stage.cluster.bindings = {acl("orders", "User:a")}
    with pytest.raises(FenceRefused, match="first-acl-locks-out"):
        await stage.fence().refuse(TOPICS)
    assert (await stage.fence(everyone=EveryoneRule.NO).refuse(TOPICS))["topics_without_writers"] == 1


@pytest.mark.parametrize("count", [1, 7])
async def test_bindings_that_are_refused_are_named(count: int) -> None:
    stage = Stage()
    topics = [f"t{at}" for at in range(count)]
    stage.cluster.refused_bindings = {acl(topic, "User:b", permission=2): "not now" for topic in topics}
    with pytest.raises(FenceFailed) as failure:
        await stage.fence().close(stage.notes.run, topics)
    assert "making the fence: DENY WRITE on topic 't0' for User:b from *: not now" in str(failure.value)
    assert ("and 2 more" in str(failure.value)) == (count > 5)


async def test_a_fence_that_is_not_there_afterwards_is_no_fence() -> None:
    stage = Stage()

    async def lost(_bindings: Sequence[Binding]) -> Mapping[Binding, str]:
        return {}

    stage.cluster.add_acls = lost  # type: ignore[method-assign,assignment]
    with pytest.raises(FenceFailed, match="the fence is not whole"):
        await stage.fence().close(stage.notes.run, TOPICS)
    await Stage().fence().open(stage.notes.run)
    stage.cluster.bindings |= DENIED
    stage.cluster.remove_acls = lost  # type: ignore[method-assign,assignment]
    with pytest.raises(FenceFailed, match="it still exists"):
        await stage.fence().open(stage.notes.run)


def lagging(stage: Stage, monkeypatch: pytest.MonkeyPatch, told: Sequence[Mapping[int, set[Binding] | None]]) -> None:
    """Let the brokers tell these bindings, at each look the next ones; the last ones again and again."""
    looks = list(told)

    async def tell(_resource: Resource) -> Mapping[int, set[Binding] | None]:
        return looks.pop(0) if len(looks) > 1 else looks[0]

    stage.cluster.acls_of_brokers = tell  # type: ignore[method-assign,assignment]
    monkeypatch.setattr(fencing, "HEARD_S", 0.5)
    monkeypatch.setattr(fencing, "_LOOK_S", 0.01)


async def test_a_fence_is_whole_when_every_broker_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    whole = stage.before | DENIED
    lagging(stage, monkeypatch, [{1: whole, 2: stage.before}, {1: whole, 2: None}, {1: whole, 2: whole}])
    await stage.fence().close(stage.notes.run, TOPICS)
    lagging(stage, monkeypatch, [{1: stage.before, 2: whole}, {1: stage.before, 2: None}])
    assert await stage.fence().open(stage.notes.run) == {"removed_bindings": 2}


@pytest.mark.parametrize(
    ("second", "why"),
    [(set(), r"DENY WRITE on topic 'clicks' for User:b from \* \(broker 2\): it does"), (None, "broker 2: no answer")],
)
async def test_a_broker_that_does_not_know_a_fence_is_named(
    monkeypatch: pytest.MonkeyPatch, second: set[Binding] | None, why: str
) -> None:
    stage = Stage()
    lagging(stage, monkeypatch, [{1: stage.before | DENIED, 2: second}])
    with pytest.raises(FenceFailed, match=f"the fence is not whole: {why}"):
        await stage.fence().close(stage.notes.run, TOPICS)


async def test_a_controller_that_does_not_answer_in_time() -> None:
    stage = Stage()

    async def never(_bindings: Sequence[Binding]) -> Mapping[Binding, str]:
        await asyncio.sleep(60)
        return {}

    stage.cluster.add_acls = never  # type: ignore[method-assign,assignment]
    with pytest.raises(FenceFailed, match="no answer within 5 s"):
        await stage.fence().close(stage.notes.run, TOPICS)


def test_rows_are_stored_as_json() -> None:
    row = FenceRow(acl("orders", "User:a", permission=Permission.DENY))
    assert msgspec.json.decode(msgspec.json.encode(row), type=FenceRow) == row
