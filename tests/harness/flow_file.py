"""The configuration of one flow `ALIAS->there`, as tests of operations between two clusters write it."""

from collections.abc import Mapping
from pathlib import Path

from deploy.local.cluster import EmbeddedCluster

QUIET = {"emit.heartbeats.enabled": "false", "heartbeats.replication.enabled": "false"}
"""Without heartbeats: others of the shared clusters have theirs, and they never rest."""
IDENTITY = {"replication.policy.class": "IdentityReplicationPolicy"}


def flow_settings(
    alias: str,
    source: EmbeddedCluster,
    target: EmbeddedCluster,
    more: Mapping[str, str] | None = None,
    *,
    to: str = "there",
) -> dict[str, str]:
    """Return the settings of a flow of all topics `ALIAS-t...` and groups `ALIAS-...`; those of `more` win."""
    flow = f"{alias}->{to}"
    return {
        "clusters": f"{alias}, {to}",
        f"{alias}.bootstrap.servers": source.bootstrap_servers,
        f"{to}.bootstrap.servers": target.bootstrap_servers,
        f"{flow}.enabled": "true",
        f"{flow}.topics": f"{alias}-t.*",
        f"{flow}.groups": f"{alias}-.*",
        "replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        **(more or {}),
    }


def write_settings(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a properties file."""
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return path
