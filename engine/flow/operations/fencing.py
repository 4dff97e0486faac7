"""Makes the fence of producers on a cluster, and takes back exactly what it has made.

    read the ACLs -> plan -> store what will be made -> make it -> read it back

A binding is stored before it is made, and one that was there before is neither stored nor made. So after a kill at any
point whoever takes the fence back removes what was made, and nothing else. A fence that is made again after a kill adds
to the stored bindings; it never forgets one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from engine.base.clock import now_s, pause
from engine.base.errors import MirrorError
from engine.base.parts import parts
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.operations.store import EFFECT_S
from engine.flow.ports.settings_port import BINDINGS_AT_ONCE, Settings
from policies.dr.fence import (
    FENCE_NOTES,
    EveryoneRule,
    FenceFacts,
    FencePlan,
    FenceRow,
    plan_fence,
    taken_back,
)
from policies.sync.acl_sync import Binding, Resource

_NAMED = 5
HEARD_S = 30.0
"""A broker knows of a binding at most so much later than the controller; a dead one is not listed any more by then."""
_LOOK_S = 0.2


class FenceRefused(MirrorError):
    """The fence cannot be made: the names and sentences of all reasons."""

    exit_code = 2

    def __init__(self, reasons: tuple[tuple[str, str], ...]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return "; ".join(f"{name}: {why}" for name, why in self.reasons)


class FenceFailed(MirrorError):
    """Bindings of a fence could not be made or removed: what was tried, and why each failed."""

    exit_code = 1

    def __init__(self, tried: str, failed: dict[str, str]) -> None:
        super().__init__(tried, failed)
        self.tried, self.failed = tried, failed

    def __str__(self) -> str:
        named = [f"{binding}: {why}" for binding, why in list(self.failed.items())[:_NAMED]]
        more = [f"and {len(self.failed) - _NAMED} more"] if len(self.failed) > _NAMED else []
        return f"{self.tried}: {'; '.join([*named, *more])}"


class FenceChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says of producers. `own`: raymirror's principal there; empty: not known.

    `also_own`: those of its other clients there.
    """

    own: str
    also_own: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    everyone: EveryoneRule = EveryoneRule.UNKNOWN


class Fence(Protocol):
    """What keeps applications from writing to topics of a cluster."""

    async def refuse(self, topics: Sequence[str]) -> Facts:
        """Change nothing; raise what `close` would raise before its first effect, else return what it would do."""

    async def close(self, run: StepRun, topics: Sequence[str]) -> Facts:
        """Keep applications from writing. Raises FenceRefused before any effect, FenceFailed."""

    async def open(self, run: StepRun) -> Facts:
        """Take back what `close` has made. Raises FenceFailed."""


class AclFence:
    """A fence of ACL bindings."""

    def __init__(self, settings: Settings, choice: FenceChoice) -> None:
        self._settings, self._choice = settings, choice

    async def refuse(self, topics: Sequence[str]) -> Facts:
        """See Fence."""
        return _facts(await self._plan(topics))

    async def close(self, run: StepRun, topics: Sequence[str]) -> Facts:
        """See Fence."""
        plan = await self._plan(topics)
        rows = dict.fromkeys((*(run.notes(FENCE_NOTES, FenceRow) or ()), *map(FenceRow, plan.make)))
        await run.keep(FENCE_NOTES, list(rows))
        await self._add(run, plan.make)
        wanted = {row.binding for row in rows}
        await _until_heard(
            self._settings, "the fence is not whole", lambda there: wanted - there, "it does not exist", asks_all=True
        )
        return _facts(plan) | {"bindings": len(rows)}

    async def open(self, run: StepRun) -> Facts:
        """See Fence."""
        made = [row.binding for row in run.notes(FENCE_NOTES, FenceRow) or ()]
        removed = await take_back(run, self._settings, made)
        return {"removed_bindings": removed}

    async def _plan(self, topics: Sequence[str]) -> FencePlan:
        facts = FenceFacts(
            topics=topics,
            bindings=await self._settings.acls(Resource.TOPIC),
            own=self._choice.own,
            also_own=self._choice.also_own,
            named=self._choice.named,
            everyone=self._choice.everyone,
        )
        plan = plan_fence(facts)
        if plan.refused:
            raise FenceRefused(tuple((one.name.value, one.why) for one in plan.refused))
        return plan

    async def _add(self, run: StepRun, bindings: Sequence[Binding]) -> None:
        for part in parts(bindings, BINDINGS_AT_ONCE):
            run.assure()
            async with _in_time("making the fence"):
                failed = await self._settings.add_acls(part)
            _refuse("making the fence", failed)


async def take_back(run: StepRun, settings: Settings, made: Sequence[Binding]) -> int:
    """Remove the bindings of a fence, and check that none is left; return how many existed. Raises FenceFailed."""
    tried = "taking the fence away"
    there = await settings.acls(Resource.TOPIC)
    existing = [one for one in taken_back(made) if one in there]
    for part in parts(existing, BINDINGS_AT_ONCE):
        run.assure()
        async with _in_time(tried):
            failed = await settings.remove_acls(part)
        _refuse(tried, failed)
    await _until_heard(settings, tried, lambda found: set(made) & found, "it still exists", asks_all=False)
    return len(existing)


async def _until_heard(
    settings: Settings, tried: str, wrong: Callable[[set[Binding]], set[Binding]], why: str, *, asks_all: bool
) -> None:
    """Wait until no broker knows wrong bindings: each hears of a change a little later than the controller.

    `asks_all`: a broker that does not answer counts, too. Raises FenceFailed.
    """
    give_up_at_s = now_s() + HEARD_S
    while found := _unheard(await settings.acls_of_brokers(Resource.TOPIC), wrong, why, asks_all=asks_all):
        if now_s() >= give_up_at_s:
            raise FenceFailed(tried, found)
        await pause(_LOOK_S)


def _unheard(
    told: Mapping[int, set[Binding] | None],
    wrong: Callable[[set[Binding]], set[Binding]],
    why: str,
    *,
    asks_all: bool,
) -> dict[str, str]:
    """Say what is wrong with the bindings that brokers know, and why; empty if nothing is."""
    silent = {f"broker {node}": "no answer" for node, there in told.items() if there is None and asks_all}
    answered = [(node, there) for node, there in sorted(told.items()) if there is not None]
    return {f"{one} (broker {node})": why for node, there in answered for one in sorted(wrong(there))} | silent


@asynccontextmanager
async def _in_time(tried: str) -> AsyncIterator[None]:
    """Bound one effect, so that it ends before another driver may act."""
    try:
        async with asyncio.timeout(EFFECT_S):
            yield
    except TimeoutError:
        raise FenceFailed(tried, {"the controller": f"no answer within {EFFECT_S:g} s"}) from None


def _refuse(tried: str, failed: dict[Binding, str]) -> None:
    if failed:
        raise FenceFailed(tried, {str(binding): why for binding, why in failed.items()})


def _facts(plan: FencePlan) -> dict[str, int | float | str | bool]:
    return {
        "principals": ", ".join(plan.principals),
        "passing": ", ".join(plan.passing),
        "new_bindings": len(plan.make),
        "topics_without_writers": len(plan.closed),
    }
