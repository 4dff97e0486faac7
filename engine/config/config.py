"""Reads `mm2.properties` or `mirror.yaml` into a MirrorConfig, with MM2's precedence; ignores no key silently."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise, permutations, starmap
from pathlib import Path

import msgspec

from engine.base.errors import ANY, ConfigError, ConfigErrors
from engine.config.clients.read_login import cluster_key, count_as_read
from engine.config.config_errors import read_on
from engine.config.file.config_file import read_file
from engine.config.file.properties import Properties, Property
from engine.config.flow_config import HEARTBEATS_KEY, TOPIC_NAME, FlowReader
from engine.config.flow_keys import FlowKeys
from engine.config.http.http_config import read_http
from engine.config.placement_config import read_site
from engine.config.property_reader import PropertyReader
from engine.config.secrets import SECURITY_KEYS, check_security, is_secret
from engine.config.settings import PATTERNS, ClusterConfig, ConfigWarning, FlowConfig, HeartbeatConfig, MirrorConfig
from engine.config.spark_config import read_proof, read_spark
from engine.config.storage_config import read_audit_days, read_storage
from engine.config.telemetry_config import read_telemetry
from engine.config.unread import judge_unread
from policies.files.foreign_files import foreign_keys
from policies.keys.kafka_keys import Ruling
from policies.model import FlowName
from policies.own.own_policy import OwnPolicyError
from policies.topology import Loop, colliding_targets, find_loop, keeper_of, named_targets, witnesses

RELOAD = "raymirror.reload"
_ADDRESS = re.compile(
    r"(?:[0-9a-zA-Z._%\-]+://)?(?:(?P<host>[0-9a-zA-Z._%\-]+)|\[(?P<six>[0-9a-zA-Z:.%]+)\]):(?P<port>[0-9]{1,5})"
)
"""host:port, as Kafka reads it (Utils.HOST_PORT_PATTERN), but an IPv6 address needs brackets."""


def load_config(path: Path) -> MirrorConfig:
    """Read and check a configuration file. Raises ConfigError with file, line, key and what would be right."""
    return read_config(read_properties(path))


def read_properties(path: Path) -> Properties:
    """Parse a configuration file; its settings are not checked. Raises ConfigError."""
    try:
        return read_file(path)
    except OSError as error:
        raise ConfigError(str(path), 0, "file", f"cannot be read: {error.strerror}", "give a readable file") from None


def enabled_flows(properties: Properties) -> tuple[list[str], list[FlowName]]:
    """Return the aliases of the clusters and the enabled flows; all pairs if none is enabled. Raises ConfigError."""
    reader = PropertyReader(properties)
    aliases = _aliases(reader)
    pairs = [FlowName(*pair) for pair in permutations(aliases, 2)]
    if not pairs:
        right = "list the clusters on both sides, e.g. clusters = A, B"
        raise reader.error("clusters", "names one cluster only", right)
    return aliases, [pair for pair in pairs if reader.flow_enabled(str(pair))] or pairs


def read_config(properties: Properties) -> MirrorConfig:
    """Check parsed properties. Raises ConfigError, or ConfigErrors if several settings are wrong."""
    try:
        return _read_refusing(properties)
    except ConfigError as first:
        raise read_on(properties, first, _read_refusing)[0] from None


def load_partly(path: Path) -> MirrorConfig | None:
    """Read a file without its wrong settings, only to ask its clusters; None if nothing is left to read."""
    try:
        properties = read_file(path)
    except (OSError, ConfigError):
        return None
    try:
        return _read_refusing(properties)
    except ConfigError as first:
        return read_on(properties, first, _read_refusing)[1]


def _read_refusing(properties: Properties) -> MirrorConfig:
    return _read(PropertyReader(properties), properties, accepted=False)


def reread_config(properties: Properties) -> MirrorConfig:
    """Read the settings of a started mirror; only a start refuses keys that nobody reads. Raises ConfigError."""
    return _read(PropertyReader(properties), properties, accepted=True)


def read_with_rulings(properties: Properties) -> tuple[MirrorConfig, dict[str, Ruling]]:
    """Read settings, and say what becomes of each key that nothing reads, whatever that is. Raises ConfigError."""
    reader = PropertyReader(properties)
    return _read(reader, properties, accepted=True), reader.rulings


def plain_settings(properties: Properties) -> dict[str, str]:
    """Return the honoured settings as the file has them, with placeholders, without possible clear-text passwords.

    Raises ConfigError.
    """
    reader = PropertyReader(properties)
    _read(reader, properties, accepted=True)
    unread = set(reader.unread())
    found = {key: entry.value for key, entry in properties.entries.items()}
    return {key: value for key, value in found.items() if key not in unread and not is_secret(key, value)}


def read_kept(kept: Mapping[str, str], present: Properties) -> MirrorConfig:
    """Read settings that `plain_settings` returned, with the passwords of the present file. Raises ConfigError."""
    entries = {key: Property(key, value, present.line(key)) for key, value in kept.items()}
    entries |= {key: entry for key, entry in present.entries.items() if is_secret(key, entry.value)}
    return reread_config(Properties(present.file, entries, ()))


def _read(reader: PropertyReader, properties: Properties, *, accepted: bool) -> MirrorConfig:
    aliases = _aliases(reader)
    clusters = {alias: _cluster(reader, alias) for alias in aliases}
    _check_flow_keys(reader, aliases)
    flows, keys = _flows(reader, aliases)
    _check_logins(clusters, flows)
    try:
        _check_topology(reader, flows)
    except OwnPolicyError as failed:
        raise reader.error("clusters", str(failed), "repair the policy (docs/policies.md)").dependent(ANY) from failed
    telemetry = read_telemetry(reader)
    http = read_http(reader, telemetry, accepted=accepted)
    storage, audit_days = read_storage(reader), read_audit_days(reader)
    spark = read_spark(reader)
    proof = read_proof(reader, spark, storage)
    deployment_id = reader.text("raymirror.deployment.id", "")
    fence_command = reader.text("raymirror.dr.fence.command", "")
    move_command = reader.text("raymirror.move.command", "")
    is_watched = reader.choice(RELOAD, ("command", "watch")) == "watch"
    unread = judge_unread(reader, aliases, [flow.name for flow in flows], keys.asked, accepted=accepted)
    return MirrorConfig(
        file=properties.file,
        clusters=clusters,
        flows=flows,
        warnings=(*(ConfigWarning(trap.line, trap.key, trap.what) for trap in reader.traps), *reader.warnings, *unread),
        notes=tuple(reader.notes),
        places=_places(reader, flows),
        digest=_digest(properties),
        is_watched=is_watched,
        deployment_id=deployment_id,
        fence_command=fence_command,
        move_command=move_command,
        telemetry=telemetry,
        http=http,
        storage=storage,
        audit_days=audit_days,
        spark=spark,
        proof=proof,
    )


def _aliases(reader: PropertyReader) -> list[str]:
    foreign = None if reader.has("clusters") else foreign_keys(reader.names())
    if foreign is not None:
        raise reader.error("clusters", foreign.what, foreign.right)
    if is_secret("", reader.values().get("clusters", "")):
        raise reader.error("clusters", "names no aliases", "list the cluster aliases, e.g. clusters = A, B")
    aliases = list(dict.fromkeys(reader.list("clusters", required="list the cluster aliases, e.g. clusters = A, B")))
    for alias in aliases:
        if "->" in alias:
            raise reader.error(
                "clusters",
                f"alias {alias!r} contains ->",
                "write an alias without ->, which separates the two clusters of a flow",
            )
    return aliases


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
    keys = {name: cluster_key(reader, alias, name) for name in SECURITY_KEYS}
    places = {name: reader.where(found) for name, found in keys.items() if found is not None}
    security = {name: reader.unresolved(where.key) or "" for name, where in places.items()}
    places["bootstrap.servers"] = reader.where(key)
    cluster = ClusterConfig(
        alias=alias,
        bootstrap=bootstrap,
        security=security,
        places=_of_clients(reader) | {name: (where.key, where.line) for name, where in places.items()},
        file=reader.file,
        providers=reader.providers,
    )
    read_site(reader, alias)  # a bad name is an error even if no flow uses it
    return cluster


def _check_logins(clusters: Mapping[str, ClusterConfig], flows: Iterable[FlowConfig]) -> None:
    """Refuse a login of a cluster that cannot work, if any client uses it; its own was checked when it was read."""
    for cluster in clusters.values():
        clients = [client for flow in flows for client in flow.clients_at(cluster.alias)]
        if not clients or any(client.login is None for client in clients):
            check_security(cluster)


def _of_clients(reader: PropertyReader) -> dict[str, tuple[str, int]]:
    """Return the (key, line) of each security setting of a single client, by its key."""
    clients = ("consumer.", "producer.", "admin.", "producer.override.")
    ends = tuple(f".{client}{name}" for client in clients for name in SECURITY_KEYS)
    return {key: (key, reader.where(key).line) for key in reader.names() if key.endswith(ends)}


def _address(reader: PropertyReader, key: str, text: str) -> tuple[str, int]:
    if "@" in text:  # what is before it may be a password
        right = f"write host:port; a login goes into {key.removesuffix('bootstrap.servers')}sasl.jaas.config"
        raise reader.error(key, "an address has a user name before its host", right)
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 65536 or not _may_be_host(found["host"] or ""):
        raise reader.error(key, f"{text!r} is not an address", "write host:port, e.g. kafka-1:9092")
    return found["host"] or found["six"], int(found["port"])


def _may_be_host(name: str) -> bool:
    """Whether a name can be looked up: none of its labels is empty or too long (`a..b`)."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def _check_flow_keys(reader: PropertyReader, aliases: list[str]) -> None:
    """Refuse `A->B` keys of unknown clusters; an alias may contain dots, so the longest alias that fits counts."""
    for key, value in reader.values().items():
        if key in aliases and value.startswith("->"):
            errors = [_spaced(reader, key, one.line, one.value) for one in (*reader.lost(key), reader.entry(key))]
            raise errors[0] if len(errors) == 1 else ConfigErrors(*errors)
        source, arrow, behind = key.partition("->")
        target = max((alias for alias in aliases if behind.startswith(f"{alias}.")), key=len, default=None)
        if arrow and source in aliases and behind in aliases:
            raise reader.error(key, "names a flow, but no setting", f"write a setting of it, e.g. {key}.enabled = true")
        unknown = source if source not in aliases else behind.partition(".")[0] if target is None else None
        if arrow and unknown is not None:
            right = f"add it to clusters, or use one of {', '.join(aliases)}"
            raise reader.error(key, f"cluster {unknown!r} is not in clusters", right)
        if arrow and source == target:
            raise reader.error(key, "a flow from a cluster to itself", "name two different clusters, e.g. A->B")


def _spaced(reader: PropertyReader, key: str, line: int, value: str) -> ConfigError:
    """Return the error of one line with a space after an alias; all such lines of an alias have the same key."""
    right = "remove the space" if "${" in value else f"a space ends a key: write {key}->{value[2:].strip()}"
    return ConfigError(reader.file, line, key, "names a cluster, but no setting", right)


def _flows(reader: PropertyReader, aliases: list[str]) -> tuple[tuple[FlowConfig, ...], FlowKeys]:
    """Return the enabled flows, and the FlowKeys of one of them, which has every key that a flow reads."""
    names = [FlowName(*pair) for pair in permutations(aliases, 2)]
    enabled = [name for name in names if reader.flow_enabled(str(name))]
    if not enabled:
        example = f"{aliases[0]}->{aliases[1]}" if len(aliases) > 1 else "A->B"
        right = f"enable one, e.g. {example}.enabled = true"
        raise reader.error("clusters", "no flow is enabled", right).dependent("->", "enabled", *aliases)
    readers = [FlowReader(reader, name) for name in enabled]
    flows = tuple(flow_reader.read() for flow_reader in readers)
    for name in _off_with_keys(reader, names, enabled):
        readers[0].keys.count_as_honoured_for(name)
        count_as_read(reader, name)
    for flow in flows:
        _check_source_alias(reader, flow)
    return _with_heartbeats(reader, flows, names), readers[0].keys


def _off_with_keys(reader: PropertyReader, names: Iterable[FlowName], enabled: Collection[FlowName]) -> list[FlowName]:
    """Return flows that are off and have keys in the file; of the others, so many that each cluster is on both sides.

    Twenty clusters have 380 pairs of some 200 keys each; those of a cluster are the same in all of them.
    """
    own = [key for key in reader.names() if "->" in key]
    sources, targets, found = set[str](), set[str](), []
    for name in names:
        is_new = name.source not in sources or name.target not in targets
        if name not in enabled and (is_new or any(key.startswith(f"{name}.") for key in own)):
            sources.add(name.source)
            targets.add(name.target)
            found.append(name)
    return found


def _places(reader: PropertyReader, flows: Iterable[FlowConfig]) -> dict[str, tuple[str, int]]:
    names = ((flow.name, name) for flow in flows for name in PATTERNS)
    found = {f"{flow}.{name}": FlowKeys(reader, flow).flow(name) for flow, name in names}
    return {name: (key, reader.where(key).line) for name, key in found.items() if reader.is_plain(key)}


def _with_heartbeats(
    reader: PropertyReader, flows: tuple[FlowConfig, ...], pairs: list[FlowName]
) -> tuple[FlowConfig, ...]:
    """Assign each pair of clusters without a flow to some flow, which writes its heartbeats; MM2 writes them too."""
    names = [flow.name for flow in flows]
    more: dict[FlowName, list[HeartbeatConfig]] = {name: [] for name in names}
    places = {flow.name: dict(flow.places) for flow in flows}
    for pair in pairs:
        heartbeat = None if pair in names else FlowReader(reader, pair).heartbeat()
        if heartbeat is not None:
            keeper = keeper_of(pair, names)
            more[keeper].append(heartbeat)
            key = FlowKeys(reader, pair).flow(HEARTBEATS_KEY)
            places[keeper][f"{pair}.{HEARTBEATS_KEY}"] = key, reader.where(key).line
    return tuple(
        msgspec.structs.replace(flow, heartbeats=(*flow.heartbeats, *more[flow.name]), places=places[flow.name])
        for flow in flows
    )


def _check_source_alias(reader: PropertyReader, flow: FlowConfig) -> None:
    """Check that the source's alias fits into topic names: the positions topic, and copies with Default naming."""
    alias, separator = flow.name.source, flow.naming.separator
    if not TOPIC_NAME.fullmatch(alias):
        right = "name the source cluster with letters, digits, '.', '_' or '-' only"
        raise reader.error("clusters", f"{alias!r} is not allowed in a topic name", right)
    if separator in alias and flow.naming.shows_source:
        reader.warn(
            "clusters",
            f"alias {alias!r} contains the separator {separator!r}: the name of a copy no longer shows its source",
        )


def _check_topology(reader: PropertyReader, flows: tuple[FlowConfig, ...]) -> None:
    selections = [flow.selection for flow in flows]
    loop = find_loop(selections, witnesses(selections))
    if loop is not None:
        raise _loop_error(reader, flows, loop).dependent(ANY)
    for alias, topic, one, other in colliding_targets(named_targets(selections)):
        raise reader.error(
            FlowKeys(reader, other).flow("topics"),
            f"{one} and {other} both write topic {topic!r} on cluster {alias!r}",
            "give one of them DefaultReplicationPolicy or other topics",
        ).dependent(ANY)


def _loop_error(reader: PropertyReader, flows: tuple[FlowConfig, ...], loop: Loop) -> ConfigError:
    names = list(starmap(FlowName, pairwise(loop.clusters)))
    hidden = [flow for flow in flows if flow.name in names and not flow.naming.shows_source]
    if hidden:
        return reader.error(
            FlowKeys(reader, hidden[0].name).flow("replication.policy.class"),
            f"{hidden[0].naming.policy} in a loop: {loop}",
            "use DefaultReplicationPolicy for these flows, disable one, or give them topics that do not overlap",
        )
    return reader.error(
        "clusters",
        f"flows in a loop have different separators, or aliases contain one: {loop}",
        "set the same replication.policy.separator for all flows, one that no alias contains",
    )


def _digest(properties: Properties) -> str:
    """Return the SHA-256 of the keys and values of the file; order and comments do not matter."""
    values = {key: entry.value for key, entry in properties.entries.items()}
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()
