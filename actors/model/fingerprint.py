"""The fingerprint of a copier: a digest of its code and settings. A change replaces running copiers, set by set.

Settings that copiers do not read (`NOT_READ_BY_COPIERS`) are not part of it: Metadata or the supervisor reads them. A
copier receives its lanes, and its part of the bandwidth, in its orders.
"""

import hashlib

import msgspec

from engine.config.settings import FlowConfig, MirrorConfig

NOT_READ_BY_COPIERS = (
    "naming",
    "selection",
    "topics",
    "topics_exclude",
    "refresh_topics_s",
    "refresh_topics",
    "copiers",
    "most_copiers",
    "target_drain_s",
    "shrink_after_s",
    "configs_exclude",
    "own_configs",
    "source_admin",
    "target_admin",
    "config_sync",
    "groups",
    "mm2_group",
    "rpo_s",
    "drills",
    "same_cluster",
    "heartbeats",
    "traffic",
    "places",
)
"""Fields of a flow that its copiers do not read."""


def fingerprint_of(version: str, config: MirrorConfig, flow: FlowConfig) -> str:
    """Return the digest of all that defines a flow's copiers: code version, flow settings, settings of both clusters.

    Placeholders of secrets are digested unresolved, so a changed password behind one changes nothing.
    """
    settings = {name: getattr(flow, name) for name in flow.__struct_fields__ if name not in NOT_READ_BY_COPIERS}
    clusters = [config.clusters[alias] for alias in flow.name]
    digest = hashlib.sha256(version.encode())
    digest.update(msgspec.json.encode(settings, order="deterministic"))
    for cluster in clusters:
        digest.update(msgspec.json.encode([cluster.bootstrap, cluster.security], order="deterministic"))
    return digest.hexdigest()[:16]
