"""Converts MM2's connectors of a Connect cluster: up to three for a flow, and the settings of the Connect workers.

MM2 reads each key in some of its connectors only (MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig).
A flow has one value of a key here, so the value of the connector that reads it counts.
"""

from collections.abc import Collection, Iterable, Sequence

from engine.convert.clients import SERVERS, is_connection
from engine.convert.draft import Draft
from engine.convert.inputs import FoundConnector, FoundFile
from engine.convert.model import Given, Options, Origin, option
from engine.convert.topics import new_flow, no_heartbeats

SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
_CLASSES = (SOURCE, CHECKPOINT, HEARTBEAT)
_OWNERS = {
    CHECKPOINT: (
        "groups",
        "group.filter.class",
        "refresh.groups.",
        "emit.checkpoints.",
        "sync.group.offsets.",
        "checkpoints.topic.",
    ),
    HEARTBEAT: ("emit.heartbeats.", "heartbeats.topic."),
}
"""The keys that only these connectors read, or how they begin; the source connector reads every other key."""
_MUST_AGREE = (
    "topics",
    "topics.exclude",
    "topic.filter.class",
    "offset-syncs.topic.location",
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
)
"""Keys of which the checkpoint connector reads its own value, which should be that of the source connector."""
OLD_NAMES = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Names that MM2 reads until 3.9 -> the names since 2.8."""
_IDENTIFIES = ("name", "connector.class", "source.cluster.alias", "target.cluster.alias")
_OF_CLIENTS = ("consumer.", "producer.", "admin.")
_NO_EFFECT = "it has no effect in MM2 either"
_DEFAULT_TARGET = "target"
_POSITIONS = "offset.storage.topic"
_POSITIONS_FILE = "offset.storage.file.filename"


class _Mirrored:
    """The connectors of one pair of clusters."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.source, self.target = name.split("->")
        self.connectors: dict[str, FoundConnector] = {}


def convert_mirror_connectors(
    draft: Draft, connectors: Iterable[FoundConnector], workers: Sequence[FoundFile], options: Options
) -> None:
    """Convert connectors of MM2's classes. Raises ConfigError if clusters or aliases are missing."""
    flows: dict[str, _Mirrored] = {}
    for connector in connectors:
        name = _flow_of(draft, connector, options)
        flow = flows.setdefault(name, _Mirrored(name))
        if connector.class_name in flow.connectors:
            _second(draft, flow, connector)
        else:
            flow.connectors[connector.class_name] = connector
    for flow in flows.values():
        _convert(draft, flow)
    for worker in workers:
        target = _target_of(worker, flows.values(), draft)
        convert_worker(
            draft, worker, target, covered=_converters(flow for flow in flows.values() if flow.target == target)
        )
    standalone = any(_POSITIONS_FILE in worker.settings for worker in workers)
    for flow in flows.values():
        _positions(draft, flow, standalone=standalone)
        needed_servers(draft, flow.source, flow.target, options, next(iter(flow.connectors.values())).origin)


def _flow_of(draft: Draft, connector: FoundConnector, options: Options) -> str:
    config, origin = connector.config, connector.origin
    source, target = config.get("source.cluster.alias"), config.get("target.cluster.alias")
    if source is None and options.source_alias:
        source = Given(options.source_alias, option("source-alias"))
    if target is None:
        target = Given(options.target_alias or _DEFAULT_TARGET, option("target-alias"))
    if source is None:
        raise origin.error("source.cluster.alias is missing", "give it with --source-alias")
    return new_flow(draft, (source.text.strip(), source.origin), (target.text.strip(), target.origin))


def _second(draft: Draft, flow: _Mirrored, second: FoundConnector) -> None:
    """Drop a second connector of one class for one pair of clusters: a flow continues at the positions of one."""
    first = flow.connectors[second.class_name]
    draft.drop(
        second.origin,
        f"a second {second.class_name} from {flow.source} to {flow.target}: a flow has the settings and the positions"
        f" of one connector, here of {first.name!r}",
        flow.name,
        f"its topics may be added to {flow.name}.topics; raymirror.start says where they begin",
    )


def _owner(key: str) -> str:
    return next((name for name, starts in _OWNERS.items() if key.startswith(starts)), SOURCE)


def _convert(draft: Draft, flow: _Mirrored) -> None:
    source = flow.connectors.get(SOURCE)
    first = source or next(iter(flow.connectors.values()))
    if source is None:
        draft.drop(
            first.origin,
            f"there is no MirrorSourceConnector from {flow.source} to {flow.target}, and a flow copies records",
            flow.name,
            f"set {flow.name}.topics to copy topics; checkpoints need copied topics",
            empties=(f"{flow.name}.topics",),
        )
    for name in _CLASSES:
        if name in flow.connectors:
            _carry_connector(draft, flow, flow.connectors[name])
    if CHECKPOINT not in flow.connectors:
        why = "there is no MirrorCheckpointConnector"
        draft.change(f"{flow.name}.emit.checkpoints.enabled", "false", first.origin, why)
    no_heartbeats(draft, first.origin, "connectors write heartbeats only where there is a MirrorHeartbeatConnector")
    if HEARTBEAT in flow.connectors:
        beats = flow.connectors[HEARTBEAT].origin
        draft.change(f"{flow.name}.emit.heartbeats.enabled", "true", beats, "there is a MirrorHeartbeatConnector")


def _carry_connector(draft: Draft, flow: _Mirrored, connector: FoundConnector) -> None:
    reader = connector.class_name
    config = {key: value for key, value in connector.config.items() if key not in _IDENTIFIES}
    for old, new in OLD_NAMES.items():
        if old in config and new in config:
            draft.drop_needless(config.pop(old).origin, f"{new} is set instead", flow.name)
    for key, value in config.items():
        side, _, setting = key.partition(".cluster.")
        if side in ("source", "target") and setting:
            _carry_cluster(draft, flow.source if side == "source" else flow.target, setting, value)
        elif key == "enabled":
            _carry_enabled(draft, flow, value, reader)
        elif key == "offsets.storage.topic" and reader == SOURCE:
            draft.carry(f"{flow.target}.{_POSITIONS}", value, "the topic of this connector's positions")
        else:
            _carry_key(draft, flow, key, value, reader)
    if connector.state is not None and connector.state.text in ("PAUSED", "STOPPED"):
        draft.drop(
            connector.state.origin,
            f"connector {connector.name!r} is {connector.state.text}, which is no setting",
            flow.name,
            f"after the start: raymirror pause '{flow.name}'",
        )


def _carry_cluster(draft: Draft, alias: str, setting: str, value: Given) -> None:
    if setting.startswith(_OF_CLIENTS):
        draft.drop_needless(value.origin, _NO_EFFECT, alias)
    else:
        draft.carry(f"{alias}.{setting}", value)


def _carry_enabled(draft: Draft, flow: _Mirrored, value: Given, reader: str) -> None:
    """The source connector copies nothing if it is not enabled; the flow must be enabled to load (`clusters`)."""
    if value.text.strip().lower() != "true" and reader == SOURCE:
        why = "the connector is switched off"
        draft.drop(value.origin, why, flow.name, "remove the empty topics", empties=(f"{flow.name}.topics",))


def _carry_key(draft: Draft, flow: _Mirrored, name: str, value: Given, reader: str) -> None:
    key = OLD_NAMES.get(name, name)
    owner = _owner(key)
    counts = flow.connectors.get(owner)
    if owner == reader or (owner == SOURCE and counts is None and reader == CHECKPOINT):
        draft.carry(f"{flow.name}.{key}", value, "" if key == name else f"Kafka 4.0 and newer do not read {name}")
        return
    if owner != SOURCE:
        draft.drop_needless(value.origin, f"MM2 reads it in a {owner} only", flow.name)
        return
    theirs = _other(counts, key, name)
    if theirs is not None and theirs.text.strip() == value.text.strip():
        return
    if reader == CHECKPOINT and key in _MUST_AGREE:
        there = f"is {theirs.text.strip()!r}" if theirs and "${" not in theirs.text else "is another, or not set"
        draft.drop(value.origin, f"in the {SOURCE} it {there}, and a flow has one value", flow.name)
    else:
        draft.drop_needless(value.origin, f"the value of the {SOURCE} counts", flow.name)


def _other(connector: FoundConnector | None, *keys: str) -> Given | None:
    """Return the value of another connector under the new or the old name of a key."""
    return None if connector is None else next((connector.config[key] for key in keys if key in connector.config), None)


def _positions(draft: Draft, flow: _Mirrored, *, standalone: bool) -> None:
    """Say where the positions of the source connector are, so that the flow continues at them."""
    source = flow.connectors.get(SOURCE)
    if source is None:
        return
    if source.name:
        key = f"{flow.name}.raymirror.connector.name"
        draft.change(key, source.name, source.origin, "positions in Connect's topic have it in their keys")
    else:
        draft.drop(
            source.origin,
            "the name of the connector, which the keys of its positions contain",
            flow.name,
            f"set {flow.name}.raymirror.connector.name, or raymirror copies everything again",
        )
    if f"{flow.target}.{_POSITIONS}" not in draft.settings and not standalone:
        draft.drop(
            source.origin,
            "the topic with the positions of the connector is named in the file of the Connect workers",
            flow.target,
            "give that file too (connect-distributed.properties), or set"
            f" {flow.target}.offset.storage.topic and {flow.target}.group.id; else raymirror copies everything again",
        )


# --- workers ---------------------------------------------------------------------------------------------------------


def _target_of(worker: FoundFile, flows: Iterable[_Mirrored], draft: Draft) -> str:
    """Return the alias of the cluster that a worker writes to. Raises ConfigError if it cannot be told."""
    targets = list(dict.fromkeys(flow.target for flow in flows))
    if len(targets) == 1:
        return targets[0]
    servers = worker.settings.get(SERVERS)
    for target in targets:
        theirs = draft.settings.get(f"{target}.{SERVERS}")
        if servers is not None and theirs is not None and theirs.value.strip() == servers.text.strip():
            return target
    raise worker.origin.error(
        f"it is not clear which of {', '.join(targets)} these workers write to",
        "convert the connectors of each Connect cluster with its own file of workers",
    )


def _converters(flows: Iterable[_Mirrored]) -> set[str]:
    """Return the converters that every source connector sets itself, so that those of the workers do not matter."""
    sources = [flow.connectors[SOURCE].config for flow in flows if SOURCE in flow.connectors]
    keys = {key for config in sources for key in config if key.endswith(".converter")}
    return {key for key in keys if all(key in config for config in sources)}


def convert_worker(
    draft: Draft, worker: FoundFile, target: str, *, source: str = "", covered: Collection[str] = ()
) -> None:
    """Carry the settings of Connect workers to the cluster that they write to.

    `source`: the cluster that the workers belong to, if that is not the target (a sink connector's worker).
    `covered`: settings that the connectors have themselves.
    """
    own = source or target
    secured = any(is_connection(key.removeprefix(f"{own}.")) and key != f"{own}.{SERVERS}" for key in draft.settings)
    servers = f"{own}.{SERVERS}" in draft.settings
    for key, value in worker.settings.items():
        if key.startswith("config.providers"):
            _declare(draft, key, value)
        elif key == _POSITIONS_FILE and not source:
            draft.drop(
                value.origin,
                "the positions of a standalone worker are in a file, which raymirror does not read",
                target,
                "raymirror.start says where topics begin",
            )
        elif servers if key == SERVERS else is_connection(key) and secured:
            _same_or_needless(draft, own, key, value)
        elif key in covered:
            draft.drop_needless(value.origin, "the connectors have their own", target)
        elif key.startswith("consumer.") and not source:
            draft.drop_needless(value.origin, "only sink connectors read it", target)
        elif source and not is_connection(key) and not key.startswith("consumer."):
            draft.drop_needless(value.origin, "Connect's own clients and topics are not needed", own)
        else:
            draft.carry(f"{own}.{key}", value)


def _same_or_needless(draft: Draft, alias: str, key: str, value: Given) -> None:
    there = draft.settings.get(f"{alias}.{key}")
    if there is None or there.value.strip() != value.text.strip():
        draft.drop_needless(value.origin, "the connector's own settings of this cluster count", alias)


def _declare(draft: Draft, key: str, value: Given) -> None:
    name, _, rest = key.removeprefix("config.providers").removeprefix(".").partition(".")
    if rest == "class":
        draft.declare(name, value.text.strip())
    elif rest:
        draft.drop_needless(value.origin, "providers take no parameters here")


def needed_servers(draft: Draft, source: str, target: str, options: Options, origin: Origin) -> None:
    """Add addresses from the command line. Raises ConfigError if a cluster has none."""
    for side, alias, given in (
        ("source", source, options.source_bootstrap),
        ("target", target, options.target_bootstrap),
    ):
        key = f"{alias}.{SERVERS}"
        if given is not None:
            draft.replace(key, Given(given, option(f"{side}-bootstrap")))
        elif key not in draft.settings:
            raise origin.error(
                f"the addresses of cluster {alias!r} are missing", f"give them with --{side}-bootstrap host:port,..."
            )
