"""Topic lists of other tools as patterns of `topics`, and what MM1, sinks and Replicator do not do."""

import re

from engine.convert.draft import Draft
from engine.convert.model import Given, Origin

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_NAME = re.compile(r"[A-Za-z0-9._\-]+")
_EVERYTHING_ELSE = {
    "heartbeats.replication.enabled": "heartbeats",
    "emit.checkpoints.enabled": "checkpoints",
    "emit.offset-syncs.enabled": "offset syncs",
    "sync.topic.configs.enabled": "sync of topic configs",
    "sync.topic.acls.enabled": "sync of ACLs",
}


def literal_pattern(name: str) -> str:
    """Return the pattern that matches one topic name; what cannot be a name is taken for a pattern."""
    return name.replace(".", r"\.") if _NAME.fullmatch(name) else name


def literal_patterns(text: str) -> str:
    """Return a comma-separated list of topic names as a list of patterns."""
    return ",".join(literal_pattern(name.strip()) for name in text.split(",") if name.strip())


def mm1_patterns(text: str) -> str:
    """Return MM1's `--whitelist` as a list of patterns: it drops spaces and quotes, and a comma means `|`.

    Source: kafka.consumer.TopicFilter and kafka.utils.TopicFilter of Kafka 0.8 to 3.9.
    """
    return text.replace(" ", "").strip("\"'").strip(",")


def carry_regex(draft: Draft, flow: str, value: Given, names: list[str]) -> None:
    """Carry one regular expression as `topics`, behind patterns for single names."""
    if "," in value.text:
        draft.drop(
            value.origin,
            "a comma separates patterns here, so this expression would be cut at it",
            flow,
            "write it without a comma: a{1,2} as aa?, [a,b] as [ab]",
            empties=(f"{flow}.topics",),
        )
        return
    draft.carry(f"{flow}.topics", Given(",".join([*names, value.text]), value.origin))


def names_stay(draft: Draft, flow: str, origin: Origin, tool: str) -> None:
    """Let topics keep their names."""
    draft.change(f"{flow}.replication.policy.class", IDENTITY, origin, f"{tool} keeps the names of topics")


def does_only_copy(draft: Draft, flow: str, origin: Origin, tool: str, but: tuple[str, ...] = ()) -> None:
    """Switch off what MM2 does besides copying and this tool does not, heartbeats too; `but` stays as it is."""
    no_heartbeats(draft, origin, f"{tool} writes no heartbeats")
    for key, what in _EVERYTHING_ELSE.items():
        if key not in but:
            draft.change(f"{flow}.{key}", "false", origin, f"{tool} has no {what}")


def no_heartbeats(draft: Draft, origin: Origin, why: str) -> None:
    """Switch heartbeats off for every pair of clusters."""
    draft.change("emit.heartbeats.enabled", "false", origin, why)


def new_flow(draft: Draft, source: tuple[str, Origin], target: tuple[str, Origin]) -> str:
    """Switch a flow on, and return its name. Raises ConfigError for an alias that cannot be one."""
    for alias, origin in (source, target):
        if not _NAME.fullmatch(alias):
            raise origin.error(f"{alias!r} is no alias", "name a cluster with letters, digits, '.', '_' or '-'")
    flow = f"{source[0]}->{target[0]}"
    if source[0] == target[0]:
        raise target[1].error(
            f"source and target have one alias, {source[0]!r}", "name them with --source-alias and --target-alias"
        )
    draft.add_flow(flow, target[1])
    return flow
