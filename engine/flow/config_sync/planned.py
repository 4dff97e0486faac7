"""Plans and applies a round: the loop plans by itself, or Spark does, with the loop as its stand-in.

SparkPlanner.plan -> RoundDesk.ask -> Spark's plan -> apply: 250 topics at a time are planned again, then written
if PlannerAway: the loop plans this round, as LoopPlanner does
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from engine.base.parts import parts
from engine.flow.config_history.look import unpack_look
from engine.flow.config_sync.planning import Scope, SyncPlan
from engine.flow.config_sync.round_desk import PlannerAway, RoundDesk
from engine.flow.config_sync.round_messages import ClusterIds, RoundRequest, pack_memory, unpack_memory
from engine.flow.config_sync.sync import ChangeOutcome, ConfigSync
from engine.flow.ports.settings_port import TOPICS_AT_ONCE
from policies.model import FlowName
from policies.sync.acl_sync import AddAcl
from policies.sync.config_sync import Change

SPARK, LOOP = "spark", "loop"
MayWrite = Callable[[], bool]
_APPEARED = "topics that had no copy are compared soon"
_CUT = "the last plan of Spark had more changes than one may have, and some of them failed"


class MadePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and who made it; `more...`: what is beyond its bounds. `not_spark`: why Spark did not make it."""

    plan: SyncPlan
    by: str
    more: int = 0
    more_conflicts: dict[str, int] = {}
    more_unread: int = 0
    not_spark: str = ""

    @property
    def conflicts(self) -> int:
        """The number of conflicts."""
        return len(self.plan.conflicts) + sum(self.more_conflicts.values())


class Applied(NamedTuple):
    """The outcomes of a plan; `whole`: it was applied to its end, because this mirror owned the flow throughout.

    `unread`: topics or parts that could not be read again before they were written, and why: they have no outcome.
    """

    outcomes: Sequence[ChangeOutcome]
    whole: bool
    unread: Mapping[str, str] = {}


class Planner(Protocol):
    """Makes and applies plans. Both methods raise ConnectionLost, BrokerUnreachable."""

    async def plan(self, sync: ConfigSync, scope: Scope) -> MadePlan:
        """Plan a round."""

    async def apply(self, sync: ConfigSync, made: MadePlan, may_write: MayWrite) -> Applied:
        """Apply a plan as long as `may_write` says yes."""


class LoopPlanner:
    """The loop plans by itself."""

    async def plan(self, sync: ConfigSync, scope: Scope) -> MadePlan:
        """Compare both clusters."""
        return MadePlan(plan=await sync.compare(scope), by=LOOP)

    async def apply(self, sync: ConfigSync, made: MadePlan, may_write: MayWrite) -> Applied:
        """Apply a plan that was made a moment ago, in this process."""
        outcomes = await sync.apply(made.plan.changes, may_write)
        return Applied(outcomes, len(outcomes) == len(made.plan.changes))


class SparkPlanner:
    """Spark plans; while it does not, the loop does. `ids` returns the clusters that this process is connected to."""

    def __init__(self, flow: FlowName, desk: RoundDesk, ids: Callable[[], ClusterIds]) -> None:
        self._flow, self._desk, self._ids = flow, desk, ids
        self._loop = LoopPlanner()
        self._stand_in = ""
        """Why the loop must plan the next round."""

    async def plan(self, sync: ConfigSync, scope: Scope) -> MadePlan:
        """Have Spark plan with the memory of this process; if no plan comes, plan here."""
        if why := self._stand_in or (_APPEARED if scope.early else ""):
            self._stand_in = ""
            return await self._plan_here(sync, scope, why)
        request = RoundRequest(
            flow=self._flow,
            configs=scope.configs,
            acls=scope.acls,
            memory=pack_memory(sync.known),
            clusters=self._ids(),
            whole=scope.left,
        )
        try:
            found = await self._desk.ask(request)
        except PlannerAway as away:
            return await self._plan_here(sync, scope, str(away))
        if scope.configs:
            sync.known = unpack_memory(found.memory)
        look = unpack_look(found.look) if found.look else None
        return MadePlan(
            plan=msgspec.structs.replace(found.plan, look=look),
            by=SPARK,
            more=found.more,
            more_conflicts=found.more_conflicts,
            more_unread=found.more_unread,
        )

    async def _plan_here(self, sync: ConfigSync, scope: Scope, why: str) -> MadePlan:
        return msgspec.structs.replace(await self._loop.plan(sync, scope), not_spark=why)

    async def apply(self, sync: ConfigSync, made: MadePlan, may_write: MayWrite) -> Applied:
        """Apply a plan; one that Spark made is minutes old, so each part of it is planned again right before."""
        if made.by == LOOP:
            return await self._loop.apply(sync, made, may_write)
        outcomes: list[ChangeOutcome] = []
        unread = dict[str, str]()
        for part in _by_topics(made.plan.changes):
            changes, missed = await sync.look_again(part)
            unread |= missed
            tried = await sync.apply(changes, may_write)
            outcomes += tried
            if len(tried) < len(changes) or not may_write():
                return Applied(outcomes, False, unread)
        if made.more and (unread or any(one.failure for one in outcomes)):
            self._stand_in = _CUT  # the next plan would begin with the same failures, and might never get further
        return Applied(outcomes, True, unread)


def _by_topics(changes: Sequence[Change]) -> list[list[Change]]:
    """Split a plan: the configs of some topics at a time, at last all bindings."""
    configs: dict[str, list[Change]] = {}
    bindings: list[Change] = []
    for one in changes:
        (bindings if isinstance(one, AddAcl) else configs.setdefault(one.topic, [])).append(one)
    found = [[one for topic in some for one in topic] for some in parts(list(configs.values()), TOPICS_AT_ONCE)]
    return [*found, bindings] if bindings else found
