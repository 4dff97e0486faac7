"""What raymirror makes of a file: the effective values of a flow, named as those of MM2 in mm2_values.py."""

from engine.config.settings import FlowConfig, GroupConfig, MirrorConfig
from engine.config.tuning.client_tuning import RECONNECT, ClientTuning
from engine.wire.codecs import NAMES
from policies.naming import IDENTITY_CLASS, PACKAGE, DefaultNaming
from policies.start import Duration, Earliest, Latest, Start
from tests.harness.mm2_values import Values

NOT_COMPARED = {
    "exactly.once.support": "it only refuses a start",
    "transaction.boundary": "MM2's transactions end with a poll or an interval, raymirror's with a length of time",
    "transaction.boundary.interval.ms": "the same",
}
"""Keys that raymirror reads, but that make no value of their own here."""
_MM2_FILTERS = {"topic": "DefaultTopicFilter", "group": "DefaultGroupFilter", "config": "DefaultConfigPropertyFilter"}


def our_values(config: MirrorConfig, flow: FlowConfig) -> Values:
    """Return the effective values of a flow."""
    found = {
        "enabled": "true",
        "topics": _list(flow.topics),
        "topics.exclude": _list(flow.topics_exclude),
        "topic.filter.class": _filter("topic", flow.selection.own),
        "heartbeats.replication.enabled": _flag(_copies_heartbeats(flow)),
        "replication.factor": str(flow.replication_factor),
        "refresh.topics.enabled": _flag(flow.refresh_topics),
        "refresh.topics.interval.seconds": _whole(flow.refresh_topics_s),
        "tasks.max": str(flow.most_copiers),
        "config.properties.exclude": _list(flow.configs_exclude.patterns),
        "config.property.filter.class": _filter("config", flow.own_configs),
        "offset.storage.topic": flow.positions_topic,
        "offset.storage.partitions": str(flow.positions_partitions),
        "offset.storage.replication.factor": str(flow.positions_replication_factor),
        "offset.flush.interval.ms": _ms(flow.flush_s),
        "exactly.once.source.support": "enabled" if flow.commit_s else "disabled",
        "group.id": flow.mm2_group,
    }
    found |= _of_naming(flow) | _of_syncs(flow) | _of_configs(flow) | _of_groups(flow.groups) | _of_heartbeats(flow)
    found |= {f"consumer.{name}": value for name, value in _of_consumer(flow).items()}
    found |= {f"producer.{name}": value for name, value in _of_producer(flow).items()}
    for side, tuning in (("source", flow.source_admin), ("target", flow.target_admin)):
        found |= {f"{side}.admin.{name}": value for name, value in _of_admin(tuning).items()}
    return found | _of_security(config, flow)


def _of_naming(flow: FlowConfig) -> Values:
    naming, (source, target) = flow.naming, flow.name
    on_source = flow.syncs.cluster == source
    return {
        "replication.policy.class": f"{PACKAGE}{naming.policy}",
        "replication.policy.separator": naming.separator,
        "replication.policy.internal.topic.separator.enabled": _flag(_uses_separator_inside(naming)),
        "names.remote": naming.remote_topic(source, "t.u"),
        "names.heartbeats": naming.heartbeats_topic(),
        "names.checkpoints": naming.checkpoints_topic(source),
        "names.offset-syncs": flow.syncs.topic if on_source else naming.offset_syncs_topic(target),
    }


def _uses_separator_inside(naming: DefaultNaming) -> bool:
    inside = naming.checkpoints_topic("x") == f"x{naming.separator}checkpoints{naming.separator}internal"
    return inside or (naming.policy == IDENTITY_CLASS and not naming.separator)


def _of_syncs(flow: FlowConfig) -> Values:
    syncs = flow.syncs
    return {
        "emit.offset-syncs.enabled": _flag(syncs.enabled),
        "offset-syncs.topic.location": "source" if syncs.cluster == flow.name.source else "target",
        "offset-syncs.topic.replication.factor": str(syncs.replication_factor),
        "offset.lag.max": str(syncs.lag_max),
    }


def _of_configs(flow: FlowConfig) -> Values:
    sync = flow.config_sync
    return {
        "sync.topic.configs.enabled": _flag(sync.configs),
        "sync.topic.configs.interval.seconds": _whole(sync.configs_s),
        "sync.topic.acls.enabled": _flag(sync.acls),
        "sync.topic.acls.interval.seconds": _whole(sync.acls_s),
        "use.defaults.from": "source" if sync.source_defaults else "target",
    }


def _of_groups(groups: GroupConfig) -> Values:
    return {
        "groups": _list(groups.include),
        "groups.exclude": _list(groups.exclude),
        "group.filter.class": _filter("group", groups.own),
        "refresh.groups.enabled": _flag(groups.refresh),
        "refresh.groups.interval.seconds": _whole(groups.refresh_s),
        "emit.checkpoints.enabled": _flag(groups.checkpoints),
        "emit.checkpoints.interval.seconds": _whole(groups.checkpoints_s),
        "checkpoints.topic.replication.factor": str(groups.checkpoints_replication_factor),
        "sync.group.offsets.enabled": _flag(groups.commits),
        "sync.group.offsets.interval.seconds": _whole(groups.commits_s),
    }


def _of_heartbeats(flow: FlowConfig) -> Values:
    own = next((one for one in flow.heartbeats if one.pair == flow.name), None)
    found = {"emit.heartbeats.enabled": _flag(own is not None)}
    if own is not None:
        found["emit.heartbeats.interval.seconds"] = _whole(own.every_s)
        found["heartbeats.topic.replication.factor"] = str(own.replication_factor)
    return found


def _of_consumer(flow: FlowConfig) -> Values:
    fetch = flow.fetch
    return _of_client(flow.source_client) | {
        "isolation.level": "read_committed" if fetch.read_committed else "read_uncommitted",
        "auto.offset.reset": _start(flow.starts.otherwise),
        "client.rack": fetch.rack,
        "fetch.min.bytes": str(fetch.min_bytes),
        "fetch.max.wait.ms": _ms(fetch.max_wait_s),
        "fetch.max.bytes": str(fetch.max_bytes),
        "max.partition.fetch.bytes": str(flow.partition_fetch_bytes),
    }


def _of_producer(flow: FlowConfig) -> Values:
    hints = flow.rebatch_hints
    return _of_client(flow.target_client) | {
        "acks": "all",
        "max.in.flight.requests.per.connection": str(flow.max_in_flight),
        "max.request.size": str(flow.request_bytes),
        "compression.type": "none" if flow.codec is None else NAMES[flow.codec],
        "linger.ms": str(hints.linger_ms),
        "batch.size": str(hints.batch_bytes),
    }


def _of_client(tuning: ClientTuning) -> Values:
    found = _of_admin(tuning)
    del found["default.api.timeout.ms"]
    return found | {
        "retry.backoff.ms": _ms(tuning.retry.first_s),
        "retry.backoff.max.ms": _ms(tuning.retry.most_s),
        "metadata.max.age.ms": _ms(tuning.leaders_s),
    }


def _of_admin(tuning: ClientTuning) -> Values:
    reconnect = tuning.reconnect or RECONNECT
    lookup = "resolve_canonical_bootstrap_servers_only" if tuning.canonical_names else "use_all_dns_ips"
    return {
        "client.id": tuning.client_id,
        "client.dns.lookup": lookup,
        "socket.connection.setup.timeout.ms": _ms(tuning.setup_s),
        "socket.connection.setup.timeout.max.ms": _ms(tuning.most_setup_s),
        "reconnect.backoff.ms": _ms(reconnect.first_s),
        "reconnect.backoff.max.ms": _ms(reconnect.most_s),
        "connections.max.idle.ms": _ms(tuning.idle_s),
        "send.buffer.bytes": str(tuning.send_bytes),
        "receive.buffer.bytes": str(tuning.receive_bytes),
        "request.timeout.ms": _ms(tuning.answer_s),
        "default.api.timeout.ms": _ms(tuning.api_s),
    }


def _copies_heartbeats(flow: FlowConfig) -> bool:
    return flow.selection.heartbeats  # whatever the patterns say of them


def _of_security(config: MirrorConfig, flow: FlowConfig) -> Values:
    """Return addresses and security of each client, as the file has them."""
    source, target = flow.name
    clients = {
        "consumer": (source, flow.source_client),
        "producer": (target, flow.target_client),
        "source.admin": (source, flow.source_admin),
        "target.admin": (target, flow.target_admin),
    }
    found: Values = {}
    for role, (alias, tuning) in clients.items():
        cluster = config.clusters[alias]
        servers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap)
        security = cluster.for_client(tuning.login).security | {"bootstrap.servers": servers}
        found |= {f"{role}.security.{name}": value for name, value in security.items()}
    return found


def _start(start: Start) -> str:
    if isinstance(start, Duration):
        return f"by_duration:{start.duration_s:g}"
    return {Earliest: "earliest", Latest: "latest"}[type(start)]


def _filter(kind: str, own: object) -> str:
    return f"{PACKAGE}{_MM2_FILTERS[kind]}" if own is None else "own"


def _list(parts: tuple[str, ...]) -> str:
    return ", ".join(parts)


def _flag(value: bool) -> str:
    return str(value).lower()


def _whole(seconds: float) -> str:
    return str(int(seconds))


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))
