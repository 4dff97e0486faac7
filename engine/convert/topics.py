"""Topic lists of other tools as patterns of `topics`, and what MM1, sinks and Replicator do not do."""

import re

from engine.convert.draft import Draft
from engine.convert.model import Given, Origin
from policies.patterns import literal

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_HEARTBEATS = "heartbeats"
_INTERNAL = r".*[\-\.]internal"
_BEFORE_4 = re.compile(r"[23]\.\d")
"""How a version of Kafka begins that is older than 4.0."""
_EXCLUDED_BEFORE_4 = rf"{_INTERNAL},.*\.replica,__.*"
"""The default of `topics.exclude` before Kafka 4.0."""
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


def excludes_what_the_tool_does(draft: Draft, flow: str, origin: Origin, tool: str) -> None:
    """Exclude no other topics than the tool, whose topics are carried already.

    MM2 excludes some names by default. Its Identity policy takes a name that ends in `heartbeats` for one of its own
    topics, and puts a prefix before it (IdentityReplicationPolicy): such topics would get another name.
    """
    key, topics = f"{flow}.topics.exclude", draft.settings.get(f"{flow}.topics")
    if key not in draft.settings:
        why = f"{tool} excludes no topic by default, and MM2 does. No topic that begins with __ or a dot is copied"
        draft.change(key, "", origin, why)
    policy = draft.settings.get(f"{flow}.replication.policy.class")
    if policy is None or policy.value != IDENTITY or (topics is not None and not _may_end_in_heartbeats(topics.value)):
        return
    there, source = draft.settings.pop(key), flow.partition("->")[0]
    draft.change(key, ",".join(filter(None, (there.value, f".*{_HEARTBEATS}"))), there.origin, there.why)
    draft.drop(
        origin,
        f"topics whose names end in {_HEARTBEATS}: {tool} keeps their names, and IdentityReplicationPolicy puts"
        f" {source}. before them; they are excluded",
        flow,
        "if there is such a topic, copy it with a mirror of its own",
    )


def _may_end_in_heartbeats(topics: str) -> bool:
    names = [literal(part.strip()) for part in re.split(r"[,|]", topics) if part.strip()]
    return any(name is None or name.endswith(_HEARTBEATS) for name in names)


def leave_out_internal(draft: Draft, flow: str, version: Given | None) -> None:
    """Exclude what an MM2 before Kafka 4.0 never copies (KIP-1074); note it for an MM2 of unknown age."""
    key = f"{flow}.topics.exclude"
    if version is None:
        draft.note(key, f"if this MM2 is older than Kafka 4.0, add {_INTERNAL}, which it never copies")
    elif _BEFORE_4.match(version.text):
        there = draft.settings.pop(key, None)
        text = _EXCLUDED_BEFORE_4 if there is None else ",".join(filter(None, (there.value, _INTERNAL)))
        why = f"an MM2 of Kafka {version.text} never copies topics that end in internal"
        draft.change(key, text, version.origin, f"{why}; {there.why}" if there is not None and there.why else why)


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
