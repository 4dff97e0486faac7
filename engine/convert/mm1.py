"""Converts MirrorMaker 1 and uReplicator: a consumer, a producer, and topics from the command line.

Sources: kafka.tools.MirrorMaker (Kafka 0.8 to 3.9), WorkerConf and ControllerConf of uReplicator 2.
"""

from collections.abc import Sequence

from engine.convert.clients import SERVERS, carry_client
from engine.convert.connectors import needed_servers
from engine.convert.draft import Draft
from engine.convert.inputs import CLUSTERS, CONSUMER, HELIX, MAPPING, PRODUCER, FoundFile, Inputs, Settings
from engine.convert.model import Given, Options, Origin, option
from engine.convert.topics import (
    does_only_copy,
    excludes_what_the_tool_does,
    literal_pattern,
    mm1_patterns,
    names_stay,
    new_flow,
)

_ROLES = (CONSUMER, PRODUCER)
UNNEEDED = {
    "new.consumer": "there is one kind of consumer",
    "offset.commit.interval.ms": "raymirror writes positions as offset.flush.interval.ms says",
    "abort.on.send.failure": "a partition waits while the target refuses its records, and nothing is skipped",
    "consumer.rebalance.listener": "raymirror copies without a consumer group",
    "rebalance.listener.args": "raymirror copies without a consumer group",
    "message.handler.args": "--message.handler decides",
}
"""Options of its command line that mean nothing here, and why."""
_WHITELIST = "give the topics as MirrorMaker 1 got them: --whitelist PATTERNS"
_GROUP_WHY = (
    "raymirror keeps positions of its own, and does not continue at the offsets that this group committed on the source"
)
_GROUP_RIGHT = (
    "for topics where no record may come twice or be left out, set raymirror.start = TOPIC@PARTITION:OFFSET;... from"
    " kafka-consumer-groups.sh --describe of that group, after the old mirror has stopped"
)


def convert_mm1(draft: Draft, inputs: Inputs, options: Options, tool: str) -> None:
    """Convert the files of MirrorMaker 1 or uReplicator (`tool`). Raises ConfigError if a cluster has no address."""
    settings = {role: _only(inputs, role) for role in _ROLES}
    clusters = _servers(inputs.of(CLUSTERS))
    origin = (inputs.of(CONSUMER) or inputs.of(PRODUCER) or inputs.of(CLUSTERS))[0].origin
    if not clusters:
        for role in _ROLES:
            if not settings[role] and not (options.source_bootstrap if role == CONSUMER else options.target_bootstrap):
                raise origin.error(
                    f"the {role}'s file is missing",
                    "give the consumer's and the producer's file; --consumer.config and --producer.config name them",
                )
    flow = convert_clients(draft, settings[CONSUMER], settings[PRODUCER], options, origin, clusters, tool)
    _topics(draft, flow, options, origin, inputs)
    _mapped(draft, flow, inputs.of(MAPPING))
    for name in options.unneeded:
        draft.drop_needless(option(name), UNNEEDED[name])
    for file in inputs.of(HELIX):
        for value in file.settings.values():
            draft.drop_needless(value.origin, "raymirror needs no ZooKeeper, Helix or controller")


def convert_clients(
    draft: Draft,
    consumer: Settings,
    producer: Settings,
    options: Options,
    origin: Origin,
    clusters: Settings | None = None,
    tool: str = "MirrorMaker 1",
) -> str:
    """Convert a consumer and a producer into a flow that does what they did; return it. Raises ConfigError.

    `clusters`: addresses of clusters by their names, as uReplicator has them.
    """
    source = options.source_alias or "source"
    target = options.target_alias or "target"
    flow = new_flow(draft, (source, option("source-alias")), (target, option("target-alias")))
    for alias in (source, target):
        if clusters and alias in clusters:
            draft.carry(f"{alias}.{SERVERS}", clusters[alias])
    if clusters and not (consumer and producer) and not {source, target} <= clusters.keys():
        raise origin.error(
            f"it is not clear which of {', '.join(clusters)} is the source and which the target",
            "name them with --source-alias and --target-alias",
        )
    group = consumer.get("group.id")
    carry_client(draft, [pair for pair in consumer.items() if pair[0] != "group.id"], source, f"{source}.consumer")
    carry_client(draft, producer.items(), target, f"{target}.producer")
    needed_servers(draft, source, target, options, origin)
    if group is not None:
        draft.drop(group.origin, _GROUP_WHY, flow, _GROUP_RIGHT)
    start = f"{source}.consumer.auto.offset.reset"
    if start not in draft.settings:
        draft.change(start, "latest", origin, "Kafka's consumers begin at the end by default")
    names_stay(draft, flow, origin, tool)
    does_only_copy(draft, flow, origin, tool)
    draft.change(f"{flow}.replication.factor", "-1", origin, "topics were created with the target's default")
    if options.num_streams is not None:
        draft.carry(f"{flow}.tasks.max", Given(options.num_streams, option("num.streams")))
    return flow


def _only(inputs: Inputs, role: str) -> Settings:
    files = inputs.of(role)
    if len(files) > 1:
        raise files[1].origin.error(f"a second {role}'s file", f"give one; the first is {files[0].origin.file}")
    return files[0].settings if files else {}


def _topics(draft: Draft, flow: str, options: Options, origin: Origin, inputs: Inputs) -> None:
    if options.message_handler is not None:
        draft.drop(
            option("message.handler"),
            "a Java class that changes, filters or renames records cannot run here",
            flow,
            empties=(f"{flow}.topics",),
        )
    kept = "the controller keeps them" if inputs.of(HELIX) or inputs.of(CLUSTERS) else "no file has them"
    carry_selection(draft, flow, options, origin, kept)


def carry_selection(draft: Draft, flow: str, options: Options, origin: Origin, kept: str) -> None:
    """Carry MM1's `--whitelist` or `--blacklist`; without either nothing is selected. `kept`: where topics are then."""
    for text, key, name in (
        (options.whitelist, "topics", "whitelist"),
        (options.blacklist, "topics.exclude", "blacklist"),
    ):
        if text is not None:
            draft.carry(f"{flow}.{key}", Given(mm1_patterns(text), option(name)))
    if options.whitelist is None and options.blacklist is None:
        draft.drop(origin, f"the topics: {kept}", flow, _WHITELIST, empties=(f"{flow}.topics",))
    excludes_what_the_tool_does(draft, flow, origin, "MirrorMaker 1")


def _servers(files: Sequence[FoundFile]) -> Settings:
    """Return the addresses of uReplicator's clusters; those for TLS only if a cluster has no others."""
    found: Settings = {}
    for prefix in ("secure.kafka.cluster.servers.", "kafka.cluster.servers."):
        for file in files:
            found |= {k.removeprefix(prefix): v for k, v in file.settings.items() if k.startswith(prefix)}
    return found


def _mapped(draft: Draft, flow: str, files: Sequence[FoundFile]) -> None:
    """Drop renamed topics, and exclude them: under their own name they would be copied to another topic."""
    renamed = [
        (topic, value) for file in files for topic, value in file.settings.items() if value.text.strip() != topic
    ]
    for _, value in renamed:
        draft.drop(
            value.origin,
            f"raymirror gives no single topic another name ({value.text.strip()}); the topic is excluded",
            flow,
            "copy it with a mirror of its own and DefaultReplicationPolicy, or under its own name",
        )
    if renamed:
        key = f"{flow}.topics.exclude"
        excluded = ",".join(literal_pattern(topic) for topic, _ in renamed)
        before = draft.settings.get(key)
        both = ",".join(filter(None, (before.value if before else "", excluded)))
        draft.replace(key, Given(both, renamed[0][1].origin))
