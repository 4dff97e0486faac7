"""Converts Strimzi's resources: KafkaMirrorMaker2 (v1beta2 and v1), KafkaConnector, KafkaConnect, KafkaMirrorMaker.

A KafkaMirrorMaker2 is what its operator makes of it: up to three connectors for a mirror, which `connectors` converts.
"""

from collections.abc import Iterable

import msgspec

from engine.convert.clients import SERVERS
from engine.convert.connectors import CHECKPOINT, HEARTBEAT, SOURCE
from engine.convert.draft import Draft
from engine.convert.inputs import WORKER, FoundConnector, FoundFile, Settings
from engine.convert.mm1 import carry_selection, convert_clients
from engine.convert.model import Given, Options
from engine.convert.nodes import Branch
from engine.convert.strimzi_logins import ClusterLogin

_PACKAGE = "org.apache.kafka.connect.mirror."
_CONNECTORS = {"sourceConnector": SOURCE, "checkpointConnector": CHECKPOINT, "heartbeatConnector": HEARTBEAT}
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
"""Fields of a mirror in the order of their strength: of two for one key the first wins."""
_TARGET_TOPICS = {
    "groupId": "group.id",
    "offsetStorageTopic": "offset.storage.topic",
    "configStorageTopic": "config.storage.topic",
    "statusStorageTopic": "status.storage.topic",
}
_OF_CLIENTS = ("consumer.", "producer.", "admin.")
_DEFAULT_GROUP = "mirrormaker2-cluster"
_DEFAULT_OFFSETS = "mirrormaker2-cluster-offsets"
_UNKNOWN = "raymirror does not know this field"
_OF_PODS = "it is about the pods of Connect; raymirror's processes run on Ray (deploy/README.md)"
_PODS = (
    "replicas",
    "version",
    "image",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "jvmOptions",
    "template",
    "logging",
    "clientRackInitImage",
    "build",
)
_OTHERWISE = {
    "metricsConfig": ("MM2's metrics have other names here", "raymirror.metrics.port offers raymirror's to Prometheus"),
    "jmxOptions": ("there is no JMX here", "raymirror.metrics.port offers metrics to Prometheus"),
    "tracing": ("Java interceptors cannot run here", "raymirror.otlp.endpoint sends metrics and traces"),
    "rack": ("the rack of a pod comes from a label of its node", "set SOURCE.consumer.client.rack"),
    "externalConfiguration": ("files and variables of the pods", "give the same to raymirror's nodes"),
}
_SPEC = ("connectCluster", "clusters", "target", "mirrors")
_CONNECTOR_FIELDS = ("config", "tasksMax", "state", "pause")
_ACTIONS = ("autoRestart", "version", "listOffsets", "alterOffsets")
_STATES = {"paused": "PAUSED", "stopped": "STOPPED"}


class FromResources(msgspec.Struct, frozen=True):
    """What resources contain for the conversion of connectors."""

    connectors: tuple[FoundConnector, ...] = ()
    workers: tuple[FoundFile, ...] = ()
    versions: dict[str, Given] = {}
    """The version of Kafka, for each flow of an MM2 whose resource says it."""


def read_resources(draft: Draft, resources: Iterable[Branch], options: Options) -> FromResources:
    """Carry the clusters of resources, and return their connectors and workers. Raises ConfigError."""
    connectors: list[FoundConnector] = []
    workers: list[FoundFile] = []
    versions: dict[str, Given] = {}
    for resource in resources:
        kind = resource.text("kind") or ""
        if kind == "KafkaMirrorMaker2":
            found = _mirror_maker_2(draft, resource, options)
            connectors += found
            spec = resource.branch("spec")
            if (version := spec.text("version")) is not None:
                said = Given(version, spec.at("version"))
                versions |= {one.name.rpartition(".")[0]: said for one in found}
        elif kind == "KafkaMirrorMaker":
            _mirror_maker_1(draft, resource, options)
        elif kind == "KafkaConnector":
            connectors.append(_connector(draft, resource))
        elif kind == "KafkaConnect":
            workers.append(_worker(draft, resource))
        else:
            name = resource.branch("metadata").text("name")
            draft.drop_needless(resource.at("kind"), f"{kind} {name or ''} is no mirror".replace("  ", " "))
    return FromResources(tuple(connectors), tuple(workers), versions)


def _mirror_maker_2(draft: Draft, resource: Branch, options: Options) -> list[FoundConnector]:
    spec = resource.branch("spec")
    _other_fields(draft, spec, _SPEC)
    clusters = {one.needed("alias", "name the cluster").text: one for one in spec.branches("clusters")}
    mirrors = spec.branches("mirrors")
    if not mirrors:
        raise spec.at("mirrors").error("no mirror is in it", "give a resource with spec.mirrors")
    found: list[FoundConnector] = []
    carried: set[str] = set()
    for mirror in mirrors:
        source, source_at = _cluster(spec, mirror, clusters, "source")
        target, target_at = _cluster(spec, mirror, clusters, "target")
        for cluster, is_target in ((source, False), (target, True)):
            alias = cluster.needed("alias", "name the cluster").text
            if alias not in carried:
                carried.add(alias)
                _carry_cluster(draft, alias, cluster, options, is_target=is_target)
        _worker_settings(draft, spec, target, clusters)
        found += _connectors(draft, mirror, source_at, target_at)
    return found


def _cluster(spec: Branch, mirror: Branch, clusters: dict[str, Branch], side: str) -> tuple[Branch, Given]:
    """Return the source or the target of a mirror, and its alias: v1 has it in place, v1beta2 in `clusters`."""
    place = (mirror if side == "source" else spec).get(side)
    if isinstance(place, Branch):
        return place, place.needed("alias", "name the cluster")
    alias = mirror.needed(f"{side}Cluster", f"name the {side} (v1beta2), or write it in place (v1)")
    if alias.text not in clusters:
        known = ", ".join(clusters) or "none is there"
        raise alias.origin.error(f"{alias.text!r} is not in spec.clusters", f"name one of them ({known})")
    return clusters[alias.text], alias


def _carry_cluster(draft: Draft, alias: str, cluster: Branch, options: Options, *, is_target: bool) -> None:
    draft.carry(f"{alias}.{SERVERS}", cluster.needed("bootstrapServers", "give host:port,..."))
    ClusterLogin(draft, alias, options).carry(cluster)
    for key, value in cluster.branch("config").values():
        if key.startswith(_OF_CLIENTS) and not is_target:
            draft.drop_needless(value.origin, "it has no effect in MM2 either", alias)
        else:
            draft.carry(f"{alias}.{key}", value)
    for name in cluster.entries.keys() - {"alias", "bootstrapServers", "tls", "authentication", "config"}:
        if name not in _TARGET_TOPICS:
            draft.drop(cluster.at(name), _UNKNOWN, alias)


def _worker_settings(draft: Draft, spec: Branch, target: Branch, clusters: dict[str, Branch]) -> None:
    """Carry group and topics of the Connect workers, which v1beta2 has in the `config` of `connectCluster`."""
    alias = target.needed("alias", "name the cluster").text
    for field, key in _TARGET_TOPICS.items():
        text = target.text(field)
        if text is not None:
            draft.carry(f"{alias}.{key}", Given(text, target.at(field)))
    connect = clusters.get(spec.text("connectCluster") or "", target)
    for key, default in (("group.id", _DEFAULT_GROUP), ("offset.storage.topic", _DEFAULT_OFFSETS)):
        if f"{alias}.{key}" in draft.settings:
            continue
        given = dict(connect.branch("config").values()).get(key)
        if given is not None:
            draft.carry(f"{alias}.{key}", given)
        else:
            draft.change(f"{alias}.{key}", default, target.origin, "Strimzi's default")


def _connectors(draft: Draft, mirror: Branch, source: Given, target: Given) -> list[FoundConnector]:
    flow = f"{source.text}->{target.text}"
    known = {*_CONNECTORS, *_PATTERNS, "source", "sourceCluster", "targetCluster"}
    for name in mirror.entries.keys() - known:
        draft.drop(mirror.at(name), _UNKNOWN, flow)
    patterns: Settings = {}
    for field, key in _PATTERNS.items():
        text = mirror.text(field)
        if text is not None and key in patterns:
            draft.drop_needless(mirror.at(field), f"{patterns[key].origin.key} is set instead", flow)
        elif text is not None:
            patterns[key] = Given(text, mirror.at(field))
    found = []
    groups_at = "checkpointConnector" if mirror.get("checkpointConnector") is not None else "sourceConnector"
    for field, class_name in _CONNECTORS.items():
        if mirror.get(field) is None:
            continue
        read = {key: value for key, value in patterns.items() if key.startswith("topics") or field == groups_at}
        place = mirror.branch(field)
        config = {
            "connector.class": Given(f"{_PACKAGE}{class_name}", place.origin),
            "source.cluster.alias": source,
            "target.cluster.alias": target,
            **dict(place.branch("config").values()),
            **read,
        }
        tasks = place.text("tasksMax")
        if tasks is not None:
            config["tasks.max"] = Given(tasks, place.at("tasksMax"))
        for name in place.entries.keys() - {*_CONNECTOR_FIELDS, *_ACTIONS}:
            draft.drop(place.at(name), _UNKNOWN, flow)
        for name in sorted(place.entries.keys() & {*_ACTIONS}):
            draft.drop_needless(place.at(name), "it is about Connect, not about what is copied", flow)
        found.append(FoundConnector(f"{flow}.{class_name}", place.origin, config, _state(place)))
    if not found:
        raise mirror.origin.error("the mirror has no connector", "give a mirror with sourceConnector")
    return found


def _state(place: Branch) -> Given | None:
    if place.text("state") is not None:
        state = (place.text("state") or "").lower()
        return Given(_STATES.get(state, "RUNNING"), place.at("state"))
    return Given("PAUSED", place.at("pause")) if place.text("pause") == "true" else None


def _other_fields(draft: Draft, spec: Branch, known: Iterable[str]) -> None:
    for name in sorted(spec.entries.keys() - set(known)):
        if name in _PODS:
            draft.drop_needless(spec.at(name), _OF_PODS)
        else:
            why, instead = _OTHERWISE.get(name, (_UNKNOWN, ""))
            draft.drop(spec.at(name), why, instead=instead)


# --- connectors and workers as resources of their own ----------------------------------------------------------------


def _connector(draft: Draft, resource: Branch) -> FoundConnector:
    spec = resource.branch("spec")
    name = resource.branch("metadata").text("name") or ""
    config = dict(spec.branch("config").values())
    config["connector.class"] = spec.needed("class", "name the connector's class")
    tasks = spec.text("tasksMax")
    if tasks is not None:
        config["tasks.max"] = Given(tasks, spec.at("tasksMax"))
    for field in sorted(spec.entries.keys() - {"class", *_CONNECTOR_FIELDS}):
        draft.drop_needless(spec.at(field), "it is about Connect, not about what is copied")
    return FoundConnector(name, resource.at("spec"), config, _state(spec))


def _worker(draft: Draft, resource: Branch) -> FoundFile:
    """Return the settings of a KafkaConnect; its login belongs to the workers, and connectors have their own."""
    spec = resource.branch("spec")
    settings = dict(spec.branch("config").values())
    settings[SERVERS] = spec.needed("bootstrapServers", "give host:port,...")
    for field, key in _TARGET_TOPICS.items():
        text = spec.text(field)
        if text is not None:
            settings[key] = Given(text, spec.at(field))
    _other_fields(draft, spec, ("bootstrapServers", "config", "tls", "authentication", *_TARGET_TOPICS))
    for field in ("tls", "authentication"):
        if spec.get(field) is not None:
            draft.drop_needless(spec.at(field), "the connector's own settings of this cluster count")
    return FoundFile(WORKER, resource.at("spec"), settings)


def _mirror_maker_1(draft: Draft, resource: Branch, options: Options) -> None:
    """Convert a KafkaMirrorMaker, which runs MirrorMaker 1 (Strimzi until 0.45)."""
    spec = resource.branch("spec")
    settings: dict[str, Settings] = {}
    for side, alias in (("consumer", options.source_alias or "source"), ("producer", options.target_alias or "target")):
        place = spec.branch(side)
        ClusterLogin(draft, alias, options).carry(place)
        settings[side] = dict(place.branch("config").values())
        settings[side][SERVERS] = place.needed("bootstrapServers", "give host:port,...")
    group = spec.branch("consumer").text("groupId")
    if group is not None:
        settings["consumer"]["group.id"] = Given(group, spec.branch("consumer").at("groupId"))
    origin = resource.at("spec")
    streams = spec.branch("consumer").text("numStreams")
    include = spec.text("include") or spec.text("whitelist") or options.whitelist
    chosen = msgspec.structs.replace(options, num_streams=streams or options.num_streams, whitelist=include)
    flow = convert_clients(draft, settings["consumer"], settings["producer"], chosen, origin)
    carry_selection(draft, flow, chosen, origin, "spec.include is missing")
    _other_fields(draft, spec, ("consumer", "producer", "include", "whitelist"))
    _client_fields(draft, spec, alias=flow)


def _client_fields(draft: Draft, spec: Branch, alias: str) -> None:
    known = {"bootstrapServers", "config", "tls", "authentication", "groupId", "numStreams"}
    for side in ("consumer", "producer"):
        place = spec.branch(side)
        for field in sorted(place.entries.keys() - known):
            draft.drop_needless(place.at(field), "raymirror commits and retries by itself", alias)
