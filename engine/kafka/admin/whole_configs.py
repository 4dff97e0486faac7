"""Changes single configs of topics on brokers that can only replace all of them (AlterConfigs, before Kafka 2.3).

AlterConfigs removes every config of a topic that the request does not name. So raymirror reads the topic's own configs,
merges the change, and writes all of them. What somebody else changes between the two requests is undone; a round trip
lies between them. Where a config cannot be read (sensitive, or of unknown origin), the topic is left as it is.
"""

from collections.abc import Mapping

from engine.kafka.protocol.admin_codec import Described
from engine.kafka.protocol.faults import NONE, error_name
from policies.sync.topic_configs import TOPIC_OVERRIDE, ConfigEntry

_UNKNOWN_ORIGIN = 0
"""Kafka's ConfigSource.UNKNOWN: the broker does not say whether the topic has the config."""
Changes = Mapping[str, str | None]


def merged(present: Mapping[str, ConfigEntry], changes: Changes) -> dict[str, str] | str:
    """Return all configs that a topic has after the changes (None removes one), or why they cannot be known."""
    untold = sorted(name for name, entry in present.items() if entry.source == _UNKNOWN_ORIGIN)
    if untold:
        return f"the brokers do not say whether the topic itself has {untold[0]}, and AlterConfigs would remove it"
    own = {name: entry for name, entry in present.items() if entry.source == TOPIC_OVERRIDE}
    unseen = sorted(name for name, entry in own.items() if entry.sensitive and name not in changes)
    if unseen:
        return f"the brokers do not show the value of {unseen[0]}, and AlterConfigs would remove it"
    changed: dict[str, str | None] = {name: entry.value for name, entry in own.items()}
    changed.update(changes)
    return {name: value for name, value in changed.items() if value is not None}


def plan_whole(
    described: list[Described], changes: Mapping[str, Changes]
) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return all configs of each topic after its changes, and why other topics cannot change."""
    whole: dict[str, dict[str, str]] = {}
    refused: dict[str, str] = {}
    for one in described:
        if one.error_code != NONE:
            told = f": {one.message}" if one.message else ""
            refused[one.topic] = f"reading them: {error_name(one.error_code)}{told}; needed: DescribeConfigs"
            continue
        found = merged(one.configs, changes[one.topic])
        if isinstance(found, str):
            refused[one.topic] = f"{found}; change the topic with the cluster's own tools"
        else:
            whole[one.topic] = found
    return whole, refused
