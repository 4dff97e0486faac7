"""What clusters tell although the file that names them has mistakes: which are away, and which patterns match nothing.

Only what no mistake can change is told. What would be created hangs on most settings, so it is judged when the file is
right.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from engine.clients import client_for
from engine.creation_check import at_cluster
from engine.errors import BrokerUnreachable, ClusterAway, ConfigError, ConnectionLost, KafkaRefusal
from engine.idle_patterns import idle_topics
from engine.preflight import CLIENT_ID, REACHABLE
from engine.secrets import SECURITY_KEYS
from engine.settings import ClusterConfig, ConfigWarning, MirrorConfig
from engine.tasks import run_all

_REACHED_BY = ("bootstrap.servers", "config.providers", *SECURITY_KEYS)


class PartialCheck(msgspec.Struct, frozen=True):
    """Clusters that are away, a sentence each, and doubts about patterns."""

    problems: tuple[str, ...] = ()
    doubts: tuple[ConfigWarning, ...] = ()


async def check_partly(config: MirrorConfig, mistakes: Sequence[ConfigError]) -> PartialCheck:
    """Ask the clusters of what can be read of a file; one whose way in may be among the mistakes is left out."""
    used = sorted({alias for flow in config.flows for alias in flow.name})
    known = [config.clusters[alias] for alias in used if not any(_may_concern(one, alias, config) for one in mistakes)]
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
    async with AsyncExitStack() as stack:
        stack.push_async_callback(client.close)
        await client.open()
        return sorted((await client.metadata(None)).topics)


def _idle(config: MirrorConfig, wrong: set[str], topics: dict[str, list[str]]) -> list[ConfigWarning]:
    flows = [flow for flow in config.flows if flow.name.source in topics]
    found = [one for flow in flows for one in idle_topics(flow, topics[flow.name.source], config.places)]
    return [one for one in dict.fromkeys(found) if one.key not in wrong]


def _may_concern(mistake: ConfigError, alias: str, config: MirrorConfig) -> bool:
    """Whether a mistake may keep us from reaching a cluster: one in its own settings, or in one that holds for all.

    A misspelt key says itself which one was meant.
    """
    if mistake.key == "clusters" or mistake.key.startswith(f"{alias}."):
        return True
    if "->" in mistake.key or any(mistake.key.startswith(f"{other}.") for other in config.clusters):
        return False
    return any(name in f"{mistake.key} {mistake.right}" for name in _REACHED_BY)
