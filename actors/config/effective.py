"""Computes comparable digests of the settings of one flow, and of the mirror's settings that belong to no flow.

Two files with different text may have the same meaning: another line, another order, a default that is written out. So
a digest covers what the engine receives. A digest of a password stays in the memory of the process that computed it.
"""

import hashlib
import re
from collections.abc import Collection
from typing import Any

import msgspec

from engine.config.settings import ClusterConfig, FlowConfig, MirrorConfig
from policies.own.own_policy import OwnPolicy

WHERE = ("places",)
"""Fields that say where a setting is in the file: an inserted line does not change the mirror."""
HEARTBEATS = "heartbeats"
"""Heartbeats of the flow's own pair of clusters."""
BESIDE = "heartbeats beside"
"""Heartbeats of pairs of clusters without a flow that this flow serves. When flows are added or removed, another flow
may serve them; the copying does not depend on them.
"""
SOURCE, TARGET, AUDIT, SYNCS = "source cluster", "target cluster", "audit trail", "place of offset syncs"
HTTP = "http"
MIRROR_WIDE = (
    "telemetry",
    "storage",
    "audit_days",
    "spark",
    "proof",
    "deployment_id",
    "is_watched",
    "fence_command",
    "move_command",
)


def settings_of(config: MirrorConfig, flow: FlowConfig) -> dict[str, str]:
    """Return a digest of each setting of a flow: its fields by name, both clusters, where its audit goes."""
    fields = {name: getattr(flow, name) for name in flow.__struct_fields__ if name not in WHERE}
    own = [one for one in flow.heartbeats if one.pair == flow.name]
    around: dict[str, object] = {
        HEARTBEATS: own,
        BESIDE: [one for one in flow.heartbeats if one not in own],
        SOURCE: _reached(config.clusters[flow.name.source]),
        TARGET: _reached(config.clusters[flow.name.target]),
        AUDIT: (config.storage, config.audit_days),
        SYNCS: flow.syncs.cluster,
    }
    return {name: digest(value) for name, value in (fields | around).items()}


def settings_of_mirror(config: MirrorConfig) -> dict[str, str]:
    """Return a digest of each part of the configuration that belongs to no flow."""
    return {name: digest(getattr(config, name)) for name in MIRROR_WIDE} | {HTTP: digest(config.http.meaning)}


def spark_part(config: MirrorConfig) -> str:
    """Return the digest of the settings of Spark's jobs: the whole file except metrics; empty if Spark is off."""
    if not config.spark.on:
        return ""
    flows = {str(flow.name): settings_of(config, flow) for flow in config.flows}
    return digest((flows, config.spark, config.storage, config.proof))


def changed(before: dict[str, str], after: dict[str, str]) -> frozenset[str]:
    """Name the settings that differ between two tables of digests."""
    return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def digest(value: object) -> str:
    """Return the sha256 of a value of any of the settings' types."""
    return hashlib.sha256(msgspec.json.encode(value, enc_hook=_plain, order="deterministic")).hexdigest()


def only(settings: dict[str, str], *, without: Collection[str]) -> dict[str, str]:
    """Return all settings except some."""
    return {name: one for name, one in settings.items() if name not in without}


def _reached(cluster: ClusterConfig) -> tuple[object, ...]:
    """Return the settings that connections to a cluster depend on."""
    return cluster.bootstrap, cluster.security, cluster.providers


def _plain(value: Any) -> object:
    """Return the parts of a policy object: patterns, a separator, a class."""
    if isinstance(value, re.Pattern):
        return value.pattern, value.flags
    if isinstance(value, OwnPolicy):
        return value.identity
    return type(value).__name__, vars(value)
