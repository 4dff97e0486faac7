"""Reads what a round compares besides the configs of topics: which topics are copied, and the ACLs of both clusters."""

from collections.abc import Sequence

import msgspec

from engine.base.errors import KafkaRefusal
from engine.flow.config_sync.planning import ConfigSyncOptions
from engine.flow.ports.settings_port import NoAuthorizer, Settings
from policies.shared_clusters import feeds_itself
from policies.sync.acl_sync import AclPlan, Binding, Resource, plan_acls
from policies.sync.config_sync import TopicState


class ComparedAcls(msgspec.Struct, frozen=True, kw_only=True):
    """The plan for ACLs; `no_authorizer`: clusters without ACLs. `unread`: why they could not be read."""

    plan: AclPlan = AclPlan()
    no_authorizer: tuple[str, ...] = ()
    unread: str = ""


async def copied_topics(
    source: Settings, options: ConfigSyncOptions, names: Sequence[str] | None = None
) -> dict[str, TopicState]:
    """Return the topics that the flow copies, without configs; with `names`, those of them.

    Raises ConnectionLost, BrokerUnreachable.
    """
    selection, within_one = options.acls.selection, options.within_one
    found = await source.topics(names)
    return {
        name: state
        for name, state in sorted(found.items())
        if selection.wants(name) and not (within_one and feeds_itself(selection, name))
    }


async def compare_acls(
    source: Settings, target: Settings, options: ConfigSyncOptions, topics: Sequence[str]
) -> ComparedAcls:
    """Compare the ACLs of both clusters; `topics`: those that are copied. Raises ConnectionLost, BrokerUnreachable."""
    try:
        theirs = await _acls(source, options)
        ours = await _acls(target, options) if theirs else set[Binding]()
    except NoAuthorizer as missing:
        return ComparedAcls(no_authorizer=(missing.cluster,))
    except KafkaRefusal as refusal:
        return ComparedAcls(unread=str(refusal))
    return ComparedAcls(plan=plan_acls(theirs, ours, options.acls, topics))


async def _acls(cluster: Settings, options: ConfigSyncOptions) -> set[Binding]:
    found = await cluster.acls(Resource.TOPIC)
    return found | await cluster.acls(Resource.GROUP) if options.acls.groups is not None else found
