"""From `mm2.properties` to a MirrorConfig: MM2's precedence, every key honoured or named in a warning."""

import hashlib
from pathlib import Path

import msgspec

from engine.errors import ConfigError
from engine.flow_config import FlowReader
from engine.properties import Properties, load_properties
from engine.property_reader import PropertyReader
from engine.secrets import SECURITY_KEYS, check_security, is_secret
from engine.settings import ClusterConfig, ConfigWarning, FlowConfig, MirrorConfig
from policies.model import FlowName
from policies.topology import colliding_targets, find_loop, named_targets, witnesses


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
    keys = {name: reader.first_key(f"{alias}.{name}", name) for name in SECURITY_KEYS}
    places = {name: reader.where(found) for name, found in keys.items() if found is not None}
    cluster = ClusterConfig(
        alias=alias,
        bootstrap=bootstrap,
        security={name: reader.unresolved(where.key) or "" for name, where in places.items()},
        places={name: (where.key, where.line) for name, where in places.items()},
        file=reader.file,
        providers=reader.providers,
    )
    check_security(cluster)
    return cluster


def _address(reader: PropertyReader, key: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise reader.error(key, f"{text!r} is no address", "write host:port, e.g. kafka-1:9092")
    return host.strip("[]"), int(port)


def _flows(reader: PropertyReader, aliases: list[str]) -> list[FlowName]:
    """Return the enabled flows; only `A->B.enabled` counts, and its value is not trimmed (mm2-contract 1.4)."""
    enabled = []
    for key in reader.names():
        if "->" in key:
            flow, rest = _flow_of(reader, key, aliases)
            if rest == "enabled" and reader.flow_enabled(key):
                enabled.append(flow)
    return enabled


def _flow_of(reader: PropertyReader, key: str, aliases: list[str]) -> tuple[FlowName, str]:
    """Split `A->B.rest`; an alias may hold dots itself, so the longest that fits is meant."""
    source, _, behind = key.partition("->")
    target = max((alias for alias in aliases if behind.startswith(f"{alias}.")), key=len, default="")
    unknown = source if source not in aliases else "" if target else behind.partition(".")[0]
    if unknown or not target:
        right = f"add it to clusters, or use one of {', '.join(aliases)}"
        raise reader.error(key, f"cluster {unknown!r} is not in clusters", right)
    if source == target:
        raise reader.error(key, "a flow from a cluster to itself", "name two clusters, e.g. A->B")
    return FlowName(source, target), behind.removeprefix(f"{target}.")


def _check_topology(reader: PropertyReader, flows: tuple[FlowConfig, ...]) -> None:
    selections = [flow.selection for flow in flows]
    loop = find_loop(selections, witnesses(selections))
    if loop is not None:
        raise reader.error(
            "replication.policy.class",
            f"IdentityReplicationPolicy in a loop: {loop}",
            "use DefaultReplicationPolicy for these flows, disable one, or give them topics that do not overlap",
        )
    for alias, topic, one, other in colliding_targets(named_targets(selections)):
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
    """Return the sha256 of what the file says, without its secrets."""
    shown = {key: "" if is_secret(key) else entry.value for key, entry in properties.entries.items()}
    return hashlib.sha256(msgspec.json.encode(shown, order="sorted")).hexdigest()
