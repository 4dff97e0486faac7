"""Plans a round from what was read: the same function for the loop, for a part of the topics on Spark, and for a
second look before a write. Pure: no I/O.

    topics with configs of both clusters (Snapshot) + memory -> plan_snapshot -> Compared: plan, conflicts, new memory
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from engine.flow.config_history.look import ConfigLook, look_of, merged_looks
from engine.flow.config_sync.snapshot import Snapshot
from policies.sync.acl_sync import AclPlan, AclRules, AddAcl, KeptAcl
from policies.sync.config_sync import (
    Change,
    ConfigPlan,
    Conflict,
    CreateTopic,
    DropConfig,
    GrowTopic,
    KeptOverride,
    Known,
    own_configs,
    plan_configs,
)
from policies.sync.topic_configs import ConfigRules, WantedConfigs

ACLS = "ACLs"
"""The key of `SyncPlan.unread` for the ACLs."""


class ConfigSyncOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The rules by which a flow's copies are kept in step; `within_one`: source and target are one cluster."""

    replication_factor: int
    configs: ConfigRules
    acls: AclRules
    within_one: bool = False


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison covers. `shapes`: with configs, also missing topics and partitions. `left`: also overrides of
    copies that the source does not have, for which all configs of every copy are read. `early`: it is done before its
    time, because topics had no copy yet.
    """

    configs: bool = True
    acls: bool = True
    shapes: bool = True
    left: bool = False
    early: bool = False


class SyncPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to make, in order, and what is left as it is: conflicts, overrides and bindings.

    `unread`: topics or parts that could not be read, and why. `no_authorizer`: clusters that have no authorizer.
    `uncopied`: how many source topics had no copy yet when configs were compared. `handed_over`: topics whose producers
    write to the copies since a move, so that these are left as they are. `look`: all configs that both sides set, if it
    was asked for.
    """

    changes: tuple[Change, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left: tuple[KeptOverride, ...] = ()
    left_acls: tuple[KeptAcl, ...] = ()
    topics: int = 0
    unread: dict[str, str] = {}
    no_authorizer: tuple[str, ...] = ()
    uncopied: int = 0
    handed_over: tuple[str, ...] = ()
    look: ConfigLook | None = None


def without_topics(plan: SyncPlan, topics: Collection[str]) -> SyncPlan:
    """Return a plan that leaves the configs of the copies of some source topics as they are."""
    changes = tuple(one for one in plan.changes if isinstance(one, AddAcl) or one.topic not in topics)
    conflicts = tuple(one for one in plan.conflicts if one.topic not in topics)
    handed_over = tuple(sorted(topics))
    return msgspec.structs.replace(plan, changes=changes, conflicts=conflicts, handed_over=handed_over)


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """The plan for some topics, those that could not be read and why, how many had no copy, and the memory after it.

    `look`: what the history of configs gets, if the snapshot was whole.
    """

    plan: ConfigPlan = ConfigPlan()
    unread: dict[str, str] = {}
    uncopied: int = 0
    known: dict[str, Mapping[str, str]] = {}
    look: ConfigLook | None = None


def plan_snapshot(
    topics: Collection[str],
    taken: Snapshot,
    known: Known,
    options: ConfigSyncOptions,
    wanted: WantedConfigs,
    *,
    shapes: bool,
) -> Compared:
    """Plan for those of `topics` whose configs both clusters answered.

    `known`: the memory, of any topics. `wanted`: the cache of this comparison. `shapes`: also create and grow copies.
    """
    target_topic = options.acls.selection.target_topic
    told = {topic: state for topic, state in taken.source.items() if target_topic(topic) not in taken.unread}
    copied = {topic: state for topic, state in told.items() if target_topic(topic) in taken.target}
    source = told if shapes else copied
    plan = plan_configs(source, taken.target, target_topic, options.replication_factor, options.configs, known, wanted)
    if not shapes:
        plan = msgspec.structs.replace(plan, changes=tuple(one for one in plan.changes if not _is_shape(one)))
    look = look_of(topics, taken.source, taken.target, taken.unread, target_topic) if taken.whole else None
    return Compared(
        plan=plan,
        look=look,
        unread=taken.unread,
        uncopied=len(told) - len(copied),
        known=_memory(topics, known, own_configs(source, wanted), plan),
    )


def _memory(topics: Iterable[str], known: Known, own: Known, plan: ConfigPlan) -> dict[str, Mapping[str, str]]:
    """Return what the source sets now, and what is still to be removed from copies: removing may fail."""
    found = {topic: known[topic] for topic in topics if topic in known} | dict(own)
    for change in plan.changes:
        if isinstance(change, DropConfig):
            found[change.topic] = {**found.get(change.topic, {}), change.name: change.before}
    return {topic: configs for topic, configs in found.items() if configs}


def sync_plan(found: Compared, acls: AclPlan, acls_unread: str, no_authorizer: tuple[str, ...]) -> SyncPlan:
    """Put the plans for configs and for ACLs together."""
    return SyncPlan(
        changes=(*found.plan.changes, *acls.changes),
        conflicts=found.plan.conflicts,
        left=found.plan.left,
        left_acls=acls.left,
        topics=found.plan.topics,
        unread={**found.unread, ACLS: acls_unread} if acls_unread else found.unread,
        no_authorizer=no_authorizer,
        uncopied=found.uncopied,
        look=found.look,
    )


def merged(parts: Iterable[Compared]) -> Compared:
    """Put the plans of disjoint topics together, in the order that one plan for all of them has."""
    found = list(parts)
    changes = [change for one in found for change in one.plan.changes]
    return Compared(
        plan=ConfigPlan(
            changes=tuple(sorted(changes, key=_place)),
            conflicts=tuple(sorted((c for one in found for c in one.plan.conflicts), key=lambda c: c.topic)),
            left=tuple(sorted((kept for one in found for kept in one.plan.left), key=lambda kept: kept.target)),
            topics=sum(one.plan.topics for one in found),
        ),
        unread={name: why for one in found for name, why in sorted(one.unread.items())},
        uncopied=sum(one.uncopied for one in found),
        known={topic: configs for one in found for topic, configs in one.known.items()},
        look=merged_looks(looks) if (looks := [one.look for one in found if one.look is not None]) else None,
    )


def _place(change: Change) -> tuple[bool, str]:
    """Sort as a plan does: shapes first, topic by topic; what concerns one topic stays in its order."""
    return not _is_shape(change), change.binding.name if isinstance(change, AddAcl) else change.topic


def _is_shape(change: Change) -> bool:
    return isinstance(change, CreateTopic | GrowTopic)


def handed_over(known: Known, handed: Known) -> dict[str, Mapping[str, str]]:
    """Add to a memory what an earlier process remembered; what this process has read itself is newer."""
    return {topic: {**handed.get(topic, {}), **known.get(topic, {})} for topic in known.keys() | handed.keys()}
