"""Converts a sink connector that mirrors: it runs at the source, and writes topics of that cluster to one target.

KIP-382 names such a `MirrorSinkConnector`; Apache Kafka has none, other distributions have. Its keys are those of
MM2's source connector, but `topics` has names and not patterns, as for every sink connector (SinkConnectorConfig).
"""

from collections.abc import Sequence

from engine.convert.connectors import convert_worker, needed_servers
from engine.convert.draft import Draft
from engine.convert.inputs import FoundConnector, FoundFile
from engine.convert.model import Given, Options, option
from engine.convert.topics import carry_regex, does_only_copy, excludes_what_the_tool_does, literal_patterns, new_flow

SINK = "MirrorSinkConnector"
_IDENTIFIES = ("name", "connector.class", "source.cluster.alias", "target.cluster.alias")
_CLIENTS = {
    "consumer.override.": "source.consumer.",
    "source.consumer.": "source.consumer.",
    "target.producer.": "producer.override.",
    "producer.override.": "producer.override.",
}


def convert_sink(draft: Draft, connector: FoundConnector, workers: Sequence[FoundFile], options: Options) -> None:
    """Convert a sink connector. Raises ConfigError if a cluster has no address."""
    config, origin = connector.config, connector.origin
    source = config.get("source.cluster.alias") or Given(options.source_alias or "source", option("source-alias"))
    target = config.get("target.cluster.alias") or Given(options.target_alias or "target", option("target-alias"))
    flow = new_flow(draft, (source.text.strip(), source.origin), (target.text.strip(), target.origin))
    aliases = {"source": source.text.strip(), "target": target.text.strip()}
    for key, value in config.items():
        if key not in _IDENTIFIES:
            _carry(draft, flow, aliases, key, value)
    for worker in workers:
        convert_worker(draft, worker, aliases["target"], source=aliases["source"])
    needed_servers(draft, aliases["source"], aliases["target"], options, origin)
    if not {"topics", "topics.regex"} & config.keys():
        draft.drop(origin, "the connector names no topics", flow, "set the topics", empties=(f"{flow}.topics",))
    draft.drop(
        origin,
        f"the consumer group of the connector (connect-{connector.name or 'NAME'}): raymirror keeps positions of its"
        " own, and does not continue at the offsets that this group committed on the source",
        flow,
        "raymirror.start says where topics begin",
    )
    excludes_what_the_tool_does(draft, flow, origin, "a sink connector")
    does_only_copy(draft, flow, origin, "a sink connector")


def _carry(draft: Draft, flow: str, aliases: dict[str, str], key: str, value: Given) -> None:
    side, _, setting = key.partition(".cluster.")
    client = next((start for start in _CLIENTS if key.startswith(start)), None)
    if side in aliases and setting:
        draft.carry(f"{aliases[side]}.{setting}", value)
    elif key == "topics":
        text = literal_patterns(value.text)
        draft.carry(f"{flow}.topics", Given(text, value.origin), _names(value, text))
    elif key == "topics.regex":
        carry_regex(draft, flow, value, [])
    elif client is not None:
        name = key.removeprefix(client)
        draft.carry(f"{flow}.{_CLIENTS[client]}{name}", value)
    elif key == "group.id" or key.startswith("errors.deadletterqueue."):
        draft.drop_needless(
            value.origin,
            "raymirror copies without a consumer group; raymirror.refused = quarantine keeps what the target refuses",
            flow,
        )
    else:
        draft.carry(f"{flow}.{key}", value)


def _names(value: Given, text: str) -> str:
    return "a dot of a name is written as \\. in a pattern" if text != value.text else ""
