"""Syncs the configs and ACLs of one flow: reads both clusters, has `policies` plan, applies the plan.

    topics of both -> configs of both (snapshot.py) -> plan_configs; at the same time ACLs of both -> plan_acls
      -> create and grow (by command only: discovery does it in a mirror) -> alter configs -> add ACLs

The loop of a mirror (`flow/config_sync/loop.py`) and `raymirror plan` and `apply` do the same; they differ in `Scope`.
A plan that was made elsewhere, on Spark, is not applied as it came: `look_again` plans its topics again first.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.parts import parts, parts_by_weight
from engine.base.tasks import run_all
from engine.flow.config_sync.planning import (
    ACLS,
    Compared,
    ConfigSyncOptions,
    Scope,
    SyncPlan,
    plan_snapshot,
    sync_plan,
    without_topics,
)
from engine.flow.config_sync.reading import ComparedAcls, compare_acls, copied_topics
from engine.flow.config_sync.snapshot import Snapshots
from engine.flow.ports.settings_port import BINDINGS_AT_ONCE, ENTRIES_AT_ONCE, Settings, TopicConfig
from policies.sync.acl_sync import AddAcl
from policies.sync.config_sync import (
    Change,
    ConfigChange,
    CreateTopic,
    DropConfig,
    GrowTopic,
    Known,
    SetConfig,
    TopicState,
)
from policies.sync.topic_configs import WantedConfigs
from policies.sync.unknown_configs import how_to_settle

LOOP = Scope(shapes=False)


class ChangeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was tried; `failure` is empty if it succeeded. `lacks`: what could not be done of it, and why."""

    change: Change
    failure: str = ""
    lacks: str = ""


class LookedAgain(NamedTuple):
    """The part of a plan that still is to be applied; `unread`: topics or parts that could not be read again, why."""

    changes: Sequence[Change]
    unread: Mapping[str, str]


class ConfigSync:
    """Compares and applies; remembers between two comparisons which configs source topics set themselves (`known`).

    `handed_over`: source topics whose producers write to the copies since a move, so that these are left as they are.
    """

    def __init__(
        self, options: ConfigSyncOptions, source: Settings, target: Settings, handed_over: Collection[str] = ()
    ) -> None:
        self.options = options
        self.known: Known = {}
        self._source, self._target, self._handed_over = source, target, handed_over
        self._snapshots = Snapshots(source, target, options.acls.selection)

    async def compare(self, scope: Scope) -> SyncPlan:
        """Compare both clusters; changes nothing. Raises ConnectionLost, BrokerUnreachable."""
        topics = await copied_topics(self._source, self.options)
        found, acls = Compared(), ComparedAcls()

        async def configs() -> None:
            nonlocal found
            if scope.configs:
                found = await self._compare_configs(topics, scope)
                self.known = found.known

        async def bindings() -> None:
            nonlocal acls
            if scope.acls:
                acls = await compare_acls(self._source, self._target, self.options, list(topics))

        await run_all(configs(), bindings())
        plan = sync_plan(found, acls.plan, acls.unread, acls.no_authorizer)
        return without_topics(plan, self._handed_over)

    async def _compare_configs(self, topics: Mapping[str, TopicState], scope: Scope) -> Compared:
        rules = self.options.configs
        wanted = WantedConfigs(rules)  # one for reading, planning and remembering
        whole = scope.left or rules.remove_foreign
        taken = await self._snapshots.take(topics, self.known, wanted, whole=whole)
        return plan_snapshot(topics, taken, self.known, self.options, wanted, shapes=scope.shapes)

    async def look_again(self, changes: Sequence[Change]) -> LookedAgain:
        """Read both clusters again for the topics of a plan that was made elsewhere, and plan these topics now.

        So what was done in the meantime is not done again, and what has changed since is not undone. A binding is
        returned only if it was in the plan. Raises ConnectionLost, BrokerUnreachable.
        """
        names = sorted({one.topic for one in changes if isinstance(one, SetConfig | DropConfig)})
        found: list[Change] = []
        unread = dict[str, str]()
        if names:
            topics = await copied_topics(self._source, self.options, names)
            compared = await self._compare_configs(topics, LOOP)
            self.known = {name: own for name, own in self.known.items() if name not in names} | compared.known
            found += compared.plan.changes
            unread |= compared.unread
        if planned := {one.binding for one in changes if isinstance(one, AddAcl)}:
            topics = await copied_topics(self._source, self.options)
            acls = await compare_acls(self._source, self._target, self.options, list(topics))
            found += [one for one in acls.plan.changes if one.binding in planned]
            unread |= {ACLS: acls.unread} if acls.unread else {}
        return LookedAgain(found, unread)

    async def apply(
        self, changes: Sequence[Change], may_write: Callable[[], bool] = lambda: True
    ) -> list[ChangeOutcome]:
        """Apply a plan, in order; a failure does not stop the rest. Failures of a cluster are returned, not raised.

        It asks `may_write` before each request, and stops when that says no: what was not tried has no outcome.
        """
        outcomes: list[ChangeOutcome] = []
        for change in changes:
            if isinstance(change, CreateTopic | GrowTopic) and may_write():
                outcomes.append(await self._shape(change))
        for some in _requests([one for one in changes if isinstance(one, SetConfig | DropConfig)]):
            if may_write():
                outcomes += await self._alter(some)
        for bindings in parts([one for one in changes if isinstance(one, AddAcl)], BINDINGS_AT_ONCE):
            if may_write():
                outcomes += await self._add_acls(bindings)
        return outcomes

    async def _shape(self, change: CreateTopic | GrowTopic) -> ChangeOutcome:
        unknown: tuple[str, ...] = ()
        try:
            if isinstance(change, CreateTopic):
                unknown = await self._target.create(change)
            else:
                await self._target.grow(change)
        except (KafkaRefusal, ConnectionLost, BrokerUnreachable) as failure:
            return ChangeOutcome(change=change, failure=str(failure))
        return _made(change, unknown)

    async def _alter(self, changes: Sequence[ConfigChange]) -> list[ChangeOutcome]:
        wanted: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
        for change in changes:
            wanted[change.target][change.name] = change.value if isinstance(change, SetConfig) else None
        refused = await self._target.alter_each(wanted)
        return [
            ChangeOutcome(change=change, failure=refused.get(TopicConfig(change.target, change.name), ""))
            for change in changes
        ]

    async def _add_acls(self, changes: Sequence[AddAcl]) -> list[ChangeOutcome]:
        refused = await self._target.add_acls([change.binding for change in changes])
        return [ChangeOutcome(change=change, failure=refused.get(change.binding, "")) for change in changes]


def _made(change: CreateTopic | GrowTopic, unknown: Collection[str]) -> ChangeOutcome:
    """Return the outcome of a change that succeeded; `unknown`: configs that a new topic lacks."""
    if not unknown or not isinstance(change, CreateTopic):
        return ChangeOutcome(change=change)
    configs = {name: value for name, value in change.configs.items() if name not in unknown}
    settled = "; ".join(f"config {name}: {how_to_settle(name)}" for name in sorted(unknown))
    lacks = f"{change.target} was created without configs that the target does not know: {settled}"
    return ChangeOutcome(change=msgspec.structs.replace(change, configs=configs), lacks=lacks)


def _requests(changes: Sequence[ConfigChange]) -> list[list[ConfigChange]]:
    """Split changes so that each part fits into one request; one topic's changes stay together."""
    by_target: defaultdict[str, list[ConfigChange]] = defaultdict(list)
    for change in changes:
        by_target[change.target].append(change)
    groups = parts_by_weight(by_target.values(), len, ENTRIES_AT_ONCE)
    return [[change for group in some for change in group] for some in groups]
