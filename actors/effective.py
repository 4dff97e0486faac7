"""What of a configuration holds for one flow, and for the mirror beside its flows: digests that can be compared.

Two files may say the same in other words: another line, another order, a default that is written down. What is compared
here is what the engine is given. A digest of a password stays in the memory of the process that made it.
"""

import hashlib
import re
from collections.abc import Collection
from typing import Any

import msgspec

from engine.settings import ClusterConfig, FlowConfig, MirrorConfig

WHERE = ("places",)
"""Fields that say where in the file something stands: an inserted line changes nothing that is done."""
HEARTBEATS, BESIDE = "heartbeats", "heartbeats beside"
"""Of the flow's own pair of clusters, and of pairs that are no flow and that it looks after: these may go to another
flow whenever flows come and go, and nothing of the flow's copying depends on them.
"""
SOURCE, TARGET, AUDIT, SYNCS = "source cluster", "target cluster", "audit trail", "place of offset syncs"
MIRROR_WIDE = ("telemetry", "storage", "audit_days", "spark", "proof", "deployment_id")


def settings_of(config: MirrorConfig, flow: FlowConfig) -> dict[str, str]:
    """Give a digest of everything that holds for a flow: its fields by name, both clusters, where its audit goes."""
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
    """Give a digest of each part of the configuration that belongs to no flow."""
    return {name: digest(getattr(config, name)) for name in MIRROR_WIDE}


def spark_part(config: MirrorConfig) -> str:
    """Give the digest of all that Spark's jobs are made of: the whole file but its metrics; empty where it is off."""
    if not config.spark.on:
        return ""
    flows = {str(flow.name): settings_of(config, flow) for flow in config.flows}
    return digest((flows, config.spark, config.storage, config.proof))


def changed(before: dict[str, str], after: dict[str, str]) -> frozenset[str]:
    """Name what differs between two tables of digests."""
    return frozenset(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def digest(value: object) -> str:
    """Give the sha256 of a value of any of the settings' types."""
    return hashlib.sha256(msgspec.json.encode(value, enc_hook=_plain, order="deterministic")).hexdigest()


def only(settings: dict[str, str], *, without: Collection[str]) -> dict[str, str]:
    """Give all settings but some."""
    return {name: one for name, one in settings.items() if name not in without}


def _reached(cluster: ClusterConfig) -> tuple[object, ...]:
    """Give what connections to a cluster are made of."""
    return cluster.bootstrap, cluster.security, cluster.providers


def _plain(value: Any) -> object:
    """Give what a policy object is made of: patterns, a separator, a class."""
    if isinstance(value, re.Pattern):
        return value.pattern, value.flags
    return type(value).__name__, vars(value)
