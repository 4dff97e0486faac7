"""Returns the ACLs that a configuration needs, from the table of `policies/grants`. It asks no cluster."""

from collections.abc import Iterable, Iterator

from engine.base.errors import ConfigError
from engine.config.secrets import known_user
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.mm2.commit_records import TOPIC as COMMITS_TOPIC
from engine.core.offset_map.map_blocks import map_topic
from engine.core.refused.entries import quarantine_topic
from engine.core.reports.progress_sample import lag_topic, progress_topic
from engine.state.state import events_topic, state_topic
from policies.grants.feature_use import GrantFeature
from policies.grants.planning import Grant, GrantFacts, acl_names, grants_of
from policies.grants.resources import ResourceGroup
from policies.grants.rights import CLUSTER_NAME, EVERY, ResourceName
from policies.groups import DRILL_GROUPS
from policies.model import FlowName
from policies.naming import HEARTBEATS, DefaultNaming
from policies.own.own_naming import OwnNaming
from policies.sync.topic_faults import OnRenewal

_ALWAYS = (
    GrantFeature.COPYING,
    GrantFeature.STATE,
    GrantFeature.FENCING,
    GrantFeature.LIMITS,
    GrantFeature.DISKS,
    GrantFeature.TAKEOVER,
    GrantFeature.FAILOVER,
    GrantFeature.FAILBACK,
    GrantFeature.PREVIEW,
    GrantFeature.SWITCHOVER,
    GrantFeature.DRILL,
    GrantFeature.MOVE,
)
_ALL = (ResourceName(EVERY),)


def needed_grants(config: MirrorConfig) -> tuple[Grant, ...]:
    """Return the least rights with which everything in a configuration works."""
    return grants_of(one for flow in config.flows for one in _facts(config, flow))


def users_of(config: MirrorConfig) -> dict[str, str]:
    """Return raymirror's user name on each cluster; empty where only the brokers know it, or it cannot be read here."""
    return {alias: _user(config, alias) for alias in config.clusters}


def _user(config: MirrorConfig, alias: str) -> str:
    try:
        return known_user(config.clusters[alias])
    except ConfigError:  # a placeholder that only the mirror's machines can resolve
        return ""


def _facts(config: MirrorConfig, flow: FlowConfig) -> Iterator[GrantFacts]:
    yield GrantFacts(
        flow=flow.name,
        syncs_cluster=flow.syncs.cluster,
        features=frozenset(_features(config, flow)),
        names=_names(config, flow),
    )
    for one in flow.heartbeats:
        topic = (ResourceName(one.topic),)
        yield GrantFacts(
            flow=one.pair,
            syncs_cluster=one.pair.source,
            features=frozenset({GrantFeature.HEARTBEATS}),
            names={ResourceGroup.HEARTBEATS: topic},
        )


def _features(config: MirrorConfig, flow: FlowConfig) -> Iterator[GrantFeature]:
    groups, sync = flow.groups, flow.config_sync
    yield from _ALWAYS
    wanted = {
        GrantFeature.EXACTLY_ONCE: flow.commit_s > 0,
        GrantFeature.SAMPLES: flow.progress_s > 0,
        GrantFeature.SYNCS: flow.syncs.enabled,
        GrantFeature.CHECKPOINTS: groups.checkpoints,
        GrantFeature.ON_COMMIT: groups.on_commit and (groups.checkpoints or groups.commits),
        GrantFeature.COMMITS: groups.commits,
        GrantFeature.EARLIER_STINTS: not flow.naming.shows_source,
        GrantFeature.CONFIGS: sync.configs or sync.history,
        GrantFeature.ACLS: sync.acls,
        GrantFeature.RECREATED: any(rule.choice == OnRenewal.RECREATE.value for rule in flow.faults.renewals),
        GrantFeature.REFUSED: flow.faults.leaves_out,
        GrantFeature.REPLAY: flow.faults.leaves_out,
        GrantFeature.LAG_HISTORY: config.spark.on and config.storage is not None and flow.progress_s > 0,
        GrantFeature.PROOF: True,
        GrantFeature.DR_FAILBACK: not flow.naming.shows_source,
        GrantFeature.MAKE_ANEW: not flow.naming.shows_source,
    }
    yield from (feature for feature, is_on in wanted.items() if is_on)


def _names(config: MirrorConfig, flow: FlowConfig) -> dict[ResourceGroup, tuple[ResourceName, ...]]:
    (source, target), groups = flow.name, flow.groups
    topics, reverse = _topics(flow), (_positions_topic_of_reverse(config, flow), map_topic(target))
    return {
        ResourceGroup.TOPICS: topics,
        ResourceGroup.PRODUCED: topics,
        ResourceGroup.COPIES: tuple(dict.fromkeys(_copies(flow.naming, source, topics))),
        ResourceGroup.POSITIONS: (ResourceName(flow.positions_topic),),
        ResourceGroup.MAP: (ResourceName(map_topic(source)),),
        ResourceGroup.STATE: (ResourceName(state_topic(source)),),
        ResourceGroup.EVENTS: (ResourceName(events_topic(source)),),
        ResourceGroup.PROGRESS: (ResourceName(progress_topic(source)),),
        ResourceGroup.LAG: (ResourceName(lag_topic(source)),),
        ResourceGroup.SYNCS: (ResourceName(flow.syncs.topic),),
        ResourceGroup.QUARANTINE: (ResourceName(quarantine_topic(source)),),
        ResourceGroup.CHECKPOINTS: (ResourceName(flow.naming.checkpoints_topic(source)),),
        ResourceGroup.COMMITS: (ResourceName(COMMITS_TOPIC),),
        ResourceGroup.GROUPS: _ALL if groups.own is not None else acl_names(groups.include),
        ResourceGroup.MM2_GROUP: (ResourceName(flow.mm2_group),),
        ResourceGroup.IDS: (ResourceName(f"raymirror.{flow.name}.", is_prefix=True),),
        ResourceGroup.DRILL_GROUPS: (ResourceName(DRILL_GROUPS, is_prefix=True),),
        ResourceGroup.DRILL_TOPICS: (ResourceName(DRILL_GROUPS, is_prefix=True),),
        ResourceGroup.CLUSTER: (ResourceName(CLUSTER_NAME),),
        ResourceGroup.REVERSE_TOPICS: tuple(ResourceName(name) for name in (state_topic(target), *reverse)),
        ResourceGroup.REVERSE_MAPS: tuple(ResourceName(name) for name in (*reverse, quarantine_topic(target))),
        ResourceGroup.REVERSE_IDS: (ResourceName(f"raymirror.{target}->{source}.", is_prefix=True),),
    }


def _positions_topic_of_reverse(config: MirrorConfig, flow: FlowConfig) -> str:
    """Return the positions topic of the reverse flow: as it has it if it is enabled, else by its usual name."""
    back = FlowName(flow.name.target, flow.name.source)
    usual = f"mm2-offsets.{back.source}.internal"
    return next((one.positions_topic for one in config.flows if one.name == back), usual)


def _topics(flow: FlowConfig) -> tuple[ResourceName, ...]:
    if flow.selection.own is not None:
        return _ALL
    heartbeats = (ResourceName(HEARTBEATS),) if flow.selection.heartbeats else ()
    return (*acl_names(flow.topics), *heartbeats)


def _copies(naming: DefaultNaming, source: str, topics: Iterable[ResourceName]) -> Iterator[ResourceName]:
    """Yield the names of copies; what a policy of the user does to a prefix is not known."""
    for one in topics:
        if one.name == EVERY or one.is_prefix:
            begin = "" if one.name == EVERY else one.name
            name = "" if isinstance(naming, OwnNaming) else naming.remote_topic(source, begin)
            yield ResourceName(name, is_prefix=True) if name else ResourceName(EVERY)
        else:
            yield ResourceName(naming.remote_topic(source, one.name))
