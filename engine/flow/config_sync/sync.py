"""Syncs the configs and ACLs of one flow: reads both clusters, has `policies` plan, applies the plan.

    topics of both -> configs of both (snapshot.py) -> plan_configs; at the same time ACLs of both -> plan_acls
      -> create and grow (by command only: discovery does it in a mirror) -> alter configs -> add ACLs

The loop of a mirror (`flow/config_sync/loop.py`) and `raymirror plan` and `apply` do the same; they differ in `Scope`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from engine.base.errors import BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.flow.config_sync.snapshot import Snapshots
from engine.flow.ports.settings_port import NoAuthorizer, Settings
from policies.shared_clusters import feeds_itself
from policies.sync.acl_sync import AclPlan, AclRules, AddAcl, Binding, KeptAcl, Resource, plan_acls
from policies.sync.config_sync import (
    Change,
    ConfigChange,
    ConfigPlan,
    Conflict,
    CreateTopic,
    DropConfig,
    GrowTopic,
    KeptOverride,
    Known,
    SetConfig,
    TopicState,
    own_configs,
    plan_configs,
)
from policies.sync.topic_configs import ConfigRules, WantedConfigs


class ConfigSyncOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a flow's copies are kept in step; `within_one`: source and target are one cluster."""

    replication_factor: int
    configs: ConfigRules
    acls: AclRules
    within_one: bool = False


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison covers. `shapes`: with configs, also missing topics and partitions. `left`: also overrides of
    copies that the source does not have, for which all configs of every copy are read.
    """

    configs: bool = True
    acls: bool = True
    shapes: bool = True
    left: bool = False


class SyncPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to make, in order, and what is left as it is: conflicts, overrides and bindings.

    `unread`: topics or parts that could not be read, and why. `no_authorizer`: clusters that have no authorizer.
    `uncopied`: how many source topics had no copy yet when configs were compared.
    """

    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left: tuple[KeptOverride, ...] = ()
    left_acls: tuple[KeptAcl, ...] = ()
    topics: int = 0
    unread: dict[str, str] = {}
    no_authorizer: tuple[str, ...] = ()
    uncopied: int = 0


class ChangeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One change that was tried; `failure` is empty if it succeeded."""

    change: Change
    failure: str = ""


class ConfigSync:
    """Compares and applies; remembers between two comparisons which configs source topics set themselves."""

    def __init__(self, options: ConfigSyncOptions, source: Settings, target: Settings) -> None:
        self.options = options
        self._source, self._target = source, target
        self._snapshots = Snapshots(source, target, options.acls.selection)
        self._known: Known = {}

    async def compare(self, scope: Scope) -> SyncPlan:
        """Compare both clusters; changes nothing. Raises ConnectionLost, BrokerUnreachable."""
        topics = await self._copied()
        plan, uncopied, unread = ConfigPlan(), 0, dict[str, str]()
        acls, no_authorizer = AclPlan(), tuple[str, ...]()

        async def configs() -> None:
            nonlocal plan, uncopied
            if scope.configs:
                plan, uncopied = await self._plan_configs(topics, scope, unread)

        async def bindings() -> None:
            nonlocal acls, no_authorizer
            if scope.acls:
                acls, no_authorizer = await self._plan_acls(list(topics), unread)

        await run_all(configs(), bindings())
        return SyncPlan(
            changes=(*plan.changes, *acls.changes),
            conflicts=plan.conflicts,
            left=plan.left,
            left_acls=acls.left,
            topics=plan.topics,
            unread=unread,
            no_authorizer=no_authorizer,
            uncopied=uncopied,
        )

    async def _copied(self) -> dict[str, TopicState]:
        selection, within_one = self.options.acls.selection, self.options.within_one
        found = await self._source.topics(None)
        return {
            name: state
            for name, state in sorted(found.items())
            if selection.wants(name) and not (within_one and feeds_itself(selection, name))
        }

    async def _plan_configs(
        self, topics: Mapping[str, TopicState], scope: Scope, unread: dict[str, str]
    ) -> tuple[ConfigPlan, int]:
        """Plan for the topics whose configs both clusters answered, and count those without a copy.

        The other topics are added to `unread`.
        """
        target_topic, rules = self.options.acls.selection.target_topic, self.options.configs
        whole = scope.left or rules.remove_foreign
        wanted = WantedConfigs(rules)  # one for reading, planning and remembering
        taken = await self._snapshots.take(topics, self._known, wanted, whole=whole)
        unread |= taken.unread
        told = {topic: state for topic, state in taken.source.items() if target_topic(topic) not in unread}
        copied = {topic: state for topic, state in told.items() if target_topic(topic) in taken.target}
        source, uncopied = told if scope.shapes else copied, len(told) - len(copied)
        replicas = self.options.replication_factor
        plan = plan_configs(source, taken.target, target_topic, replicas, rules, self._known, wanted)
        self._remember(topics, own_configs(source, wanted), plan)
        if scope.shapes:
            return plan, uncopied
        changes = tuple(one for one in plan.changes if not isinstance(one, CreateTopic | GrowTopic))
        return msgspec.structs.replace(plan, changes=changes), uncopied

    def _remember(self, topics: Mapping[str, TopicState], own: Known, plan: ConfigPlan) -> None:
        """Keep what the source sets now, and what is still to be removed from copies: removing may fail."""
        known = {topic: configs for topic, configs in self._known.items() if topic in topics}
        known |= own
        for change in plan.changes:
            if isinstance(change, DropConfig):
                known[change.topic] = {**known[change.topic], change.name: change.before}
        self._known = known

    async def _plan_acls(self, topics: Sequence[str], unread: dict[str, str]) -> tuple[AclPlan, tuple[str, ...]]:
        try:
            source = await self._acls(self._source)
            target = await self._acls(self._target) if source else set[Binding]()
        except NoAuthorizer as missing:
            return AclPlan(), (missing.cluster,)
        except KafkaRefusal as refusal:
            unread["ACLs"] = str(refusal)
            return AclPlan(), ()
        return plan_acls(source, target, self.options.acls, topics), ()

    async def _acls(self, cluster: Settings) -> set[Binding]:
        found = await cluster.acls(Resource.TOPIC)
        return found | await cluster.acls(Resource.GROUP) if self.options.acls.groups is not None else found

    async def apply(self, changes: Sequence[Change]) -> list[ChangeOutcome]:
        """Apply a plan, in order; a failure does not stop the rest. Failures of a cluster are returned, not raised."""
        outcomes = [await self._shape(one) for one in changes if isinstance(one, CreateTopic | GrowTopic)]
        outcomes += await self._alter([one for one in changes if isinstance(one, SetConfig | DropConfig)])
        return outcomes + await self._add_acls([one for one in changes if isinstance(one, AddAcl)])

    async def _shape(self, change: CreateTopic | GrowTopic) -> ChangeOutcome:
        try:
            if isinstance(change, CreateTopic):
                await self._target.create(change)
            else:
                await self._target.grow(change)
        except (KafkaRefusal, ConnectionLost, BrokerUnreachable) as failure:
            return ChangeOutcome(change=change, failure=str(failure))
        return ChangeOutcome(change=change)

    async def _alter(self, changes: Sequence[ConfigChange]) -> list[ChangeOutcome]:
        wanted: defaultdict[str, dict[str, str | None]] = defaultdict(dict)
        for change in changes:
            wanted[change.target][change.name] = change.value if isinstance(change, SetConfig) else None
        refused = await self._target.alter(wanted) if wanted else {}
        return [ChangeOutcome(change=change, failure=refused.get(change.target, "")) for change in changes]

    async def _add_acls(self, changes: Sequence[AddAcl]) -> list[ChangeOutcome]:
        bindings = [change.binding for change in changes]
        refused = await self._target.add_acls(bindings) if bindings else {}
        return [ChangeOutcome(change=change, failure=refused.get(change.binding, "")) for change in changes]
