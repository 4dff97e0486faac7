"""Checks clusters while their configuration file still has mistakes: unreachable clusters, patterns without a match.

It reports only what no mistake in the file can change. The topics to create depend on most settings, so they are
checked when the file is right.
"""

from collections.abc import Sequence

import msgspec

from engine.base.errors import BrokerUnreachable, ClusterAway, ConfigError, ConnectionLost, KafkaRefusal
from engine.base.tasks import run_all
from engine.checks.creation_check import at_cluster
from engine.checks.idle_patterns import idle_topics
from engine.checks.preflight import CLIENT_ID, REACHABLE
from engine.config.secrets import SECURITY_KEYS
from engine.config.settings import ClusterConfig, ConfigWarning, MirrorConfig
from engine.services.clients import admin_tuning, client_for, opened

_REACHED_BY = ("bootstrap.servers", "config.providers", *SECURITY_KEYS)


class PartialCheck(msgspec.Struct, frozen=True):
    """`problems`: one sentence for each unreachable cluster. `doubts`: warnings about patterns."""

    problems: tuple[str, ...] = ()
    doubts: tuple[ConfigWarning, ...] = ()


async def check_partly(config: MirrorConfig, mistakes: Sequence[ConfigError]) -> PartialCheck:
    """Check the clusters that a file names; leave out each cluster whose connection settings may contain a mistake."""
    used = sorted({alias for flow in config.flows for alias in flow.name})
    known = [
        config.clusters[alias].for_client(admin_tuning(config, alias).login)
        for alias in used
        if not any(_may_concern(one, alias, config) for one in mistakes)
    ]
    topics: dict[str, list[str]] = {}
    absent: dict[str, str] = {}

    async def ask(cluster: ClusterConfig) -> None:
        try:
            topics[cluster.alias] = await _topics(cluster)
        except BrokerUnreachable as away:
            told = isinstance(away, ClusterAway)
            absent[cluster.alias] = str(away) if told else at_cluster(config, cluster.alias, str(away), REACHABLE)
        except (ConfigError, ConnectionLost, KafkaRefusal):
            pass  # asked again when the file is right

    await run_all(*map(ask, known))
    return PartialCheck(
        tuple(text for _, text in sorted(absent.items())), tuple(_idle(config, {one.key for one in mistakes}, topics))
    )


async def _topics(cluster: ClusterConfig) -> list[str]:
    """Raises ConfigError (a placeholder that does not resolve), BrokerUnreachable, ConnectionLost, KafkaRefusal."""
    client = client_for(cluster, CLIENT_ID)
    async with opened(client):
        return sorted((await client.metadata(None)).topics)


def _idle(config: MirrorConfig, wrong: set[str], topics: dict[str, list[str]]) -> list[ConfigWarning]:
    flows = [flow for flow in config.flows if flow.name.source in topics]
    found = [one for flow in flows for one in idle_topics(flow, topics[flow.name.source], config.places)]
    return [one for one in dict.fromkeys(found) if one.key not in wrong]


def _may_concern(mistake: ConfigError, alias: str, config: MirrorConfig) -> bool:
    """Whether a mistake may concern the connection to a cluster: a mistake in a setting of this or of all clusters.

    The error of a misspelt key names the intended key (`right`), so that name is compared too.
    """
    if mistake.key == "clusters" or mistake.key.startswith(f"{alias}."):
        return True
    if "->" in mistake.key or any(mistake.key.startswith(f"{other}.") for other in config.clusters):
        return False
    return any(name in f"{mistake.key} {mistake.right}" for name in _REACHED_BY)
