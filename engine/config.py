"""From `mm2.properties` to a MirrorConfig: MM2's precedence, every key honoured or named in a warning."""

import hashlib
from pathlib import Path

from engine.errors import ConfigError
from engine.flow_config import FlowReader
from engine.properties import Properties, load_properties
from engine.property_reader import PropertyReader
from engine.settings import ClusterConfig, ConfigWarning, FlowConfig, MirrorConfig
from policies.model import FlowName
from policies.selection import colliding_targets, identity_loop

CLIENT_COMMON = ("bootstrap.servers", "security.protocol", "ssl.", "sasl.")
_META = ".^$*+?{}[]\\|()"


def load_config(path: Path) -> MirrorConfig:
    """Read and check a configuration file. Raises ConfigError naming file, line, key and what would be right."""
    try:
        properties = load_properties(path)
    except OSError as error:
        raise ConfigError(str(path), 0, "file", f"cannot be read: {error.strerror}", "give a readable file") from None
    return read_config(properties)


def read_config(properties: Properties) -> MirrorConfig:
    """Check parsed properties. Raises ConfigError."""
    reader = PropertyReader(properties)
    aliases = reader.list("clusters", required="list the cluster aliases, e.g. clusters = A, B")
    clusters = {alias: _cluster(reader, alias) for alias in aliases}
    flows = tuple(FlowReader(reader, name).read() for name in _flows(reader, aliases))
    if not flows:
        raise reader.error(
            "clusters", "no flow is enabled", f"enable one, e.g. {aliases[0]}->{aliases[-1]}.enabled = true"
        )
    _check_topology(reader, flows)
    return MirrorConfig(
        file=properties.file,
        clusters=clusters,
        flows=flows,
        warnings=_warnings(reader),
        digest=_digest(properties),
        deployment_id=reader.text("raymirror.deployment.id", ""),
    )


def _cluster(reader: PropertyReader, alias: str) -> ClusterConfig:
    key = reader.first_key(f"{alias}.bootstrap.servers", "bootstrap.servers")
    if key is None:
        raise reader.error(
            f"{alias}.bootstrap.servers",
            "missing",
            f"name the brokers of cluster {alias!r}, e.g. host1:9092,host2:9092",
        )
    bootstrap = tuple(_address(reader, key, text) for text in reader.list(key))
    if not bootstrap:
        raise reader.error(key, "empty", "name at least one broker as host:port")
    security: dict[str, str] = {}
    for prefix in ("", f"{alias}."):
        security |= reader.with_prefix(prefix, CLIENT_COMMON[1:])
    return ClusterConfig(alias, bootstrap, security, reader.file)


def _address(reader: PropertyReader, key: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise reader.error(key, f"{text!r} is no address", "write host:port, e.g. kafka-1:9092")
    return host.strip("[]"), int(port)


def _flows(reader: PropertyReader, aliases: list[str]) -> list[FlowName]:
    """Return the enabled flows; only `A->B.enabled` counts, and its value is not trimmed (mm2-contract 1.4)."""
    found: list[FlowName] = []
    for key in reader.names():
        name, arrow, rest = key.partition("->")
        if not arrow:
            continue
        target = next((alias for alias in sorted(aliases, key=len, reverse=True) if rest.startswith(f"{alias}.")), None)
        unknown = name if name not in aliases else rest.split(".")[0] if target is None else None
        if unknown is not None:
            raise reader.error(
                key,
                f"cluster {unknown!r} is not in clusters",
                f"add it to clusters, or use one of {', '.join(aliases)}",
            )
        if rest == f"{target}.enabled":
            flow = FlowName(name, rest.removesuffix(".enabled"))
            if reader.flow_enabled(key):
                found.append(flow)
    return found


def _check_topology(reader: PropertyReader, flows: tuple[FlowConfig, ...]) -> None:
    loop = identity_loop({flow.name: flow.naming for flow in flows})
    if loop is not None:
        raise reader.error(
            "replication.policy.class",
            f"identity naming in the loop {' -> '.join(loop)} would copy copies for ever",
            "use DefaultReplicationPolicy for one of these flows, or disable one",
        )
    literal = {
        flow.name: {
            topic: flow.naming.remote_topic(flow.name.source, topic)
            for topic in flow.topics
            if not any(char in topic for char in _META) and flow.selection.wants(topic)
        }
        for flow in flows
    }
    for alias, topic, one, other in colliding_targets(literal):
        raise reader.error(
            f"{other}.topics",
            f"{one} and {other} both write topic {topic!r} on cluster {alias!r}",
            "give one of them DefaultReplicationPolicy or other topics",
        )


def _warnings(reader: PropertyReader) -> tuple[ConfigWarning, ...]:
    traps = [ConfigWarning(trap.line, trap.key, trap.what) for trap in reader.traps]
    unread = sorted(reader.unread())
    if unread:
        traps.append(ConfigWarning(0, "not honoured yet", ", ".join(unread)))
    return (*traps, *reader.warnings)


def _digest(properties: Properties) -> str:
    content = "\n".join(f"{key}={entry.value}" for key, entry in sorted(properties.entries.items()))
    return hashlib.sha256(content.encode()).hexdigest()
