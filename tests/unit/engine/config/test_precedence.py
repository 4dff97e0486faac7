"""The precedence of levels, for every key that a flow reads."""

from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from engine.base.clock import Backoff
from engine.config.settings import FlowConfig, HeartbeatConfig, SyncsConfig
from policies.naming import IdentityNaming
from policies.shared_clusters import OneCluster
from policies.start import Earliest, Latest
from policies.sync.topic_faults import OnGap, OnRefused, OnRenewal
from policies.traffic import Priority
from tests.unit.engine.config_files import flow

FLOW = ("A->B.{}", "{}")
STORAGE = ("{}", "B.{}")
WORKER = ("B.{}",)
FILTER = ("A->B.{}",)
CONSUMER = ("A->B.source.consumer.{}", "A.consumer.{}", "A->B.consumer.{}")
PRODUCER = ("A->B.producer.override.{}", "B.producer.{}")
SOURCE_ADMIN = ("A->B.source.admin.{}", "A.admin.{}", "A->B.admin.{}")
TARGET_ADMIN = ("A->B.target.admin.{}", "B.admin.{}", "A->B.admin.{}")
PLACES = {
    FLOW: ("A.{}", "B.{}", "B->A.{}", "A->B.source.{}"),
    STORAGE: ("A.{}", "A->B.{}"),
    WORKER: ("{}", "A.{}", "A->B.{}"),
    FILTER: ("{}", "A.{}", "B.{}", "B->A.{}"),
    CONSUMER: ("{}", "consumer.{}", "B.consumer.{}", "A.{}", "A->B.{}", "A->B.target.consumer.{}"),
    PRODUCER: ("{}", "producer.{}", "A.producer.{}", "A->B.producer.{}", "producer.override.{}"),
    SOURCE_ADMIN: ("{}", "admin.{}", "B.admin.{}", "A.{}", "A->B.target.admin.{}", "B->A.admin.{}"),
    TARGET_ADMIN: ("{}", "admin.{}", "A.admin.{}", "B.{}", "A->B.source.admin.{}", "B->A.admin.{}"),
}
"""Where each layer is not looked for."""


def fetch(name: str, found: FlowConfig) -> object:
    return getattr(found.fetch, name)


def own_heartbeats(found: FlowConfig) -> list[HeartbeatConfig]:
    return [heartbeat for heartbeat in found.heartbeats if heartbeat.pair == found.name]


def tuned(client: str, field: str, found: FlowConfig) -> object:
    return getattr(getattr(found, client), field)


CLIENTS = {
    CONSUMER: "source_client",
    PRODUCER: "target_client",
    SOURCE_ADMIN: "source_admin",
    TARGET_ADMIN: "target_admin",
}
Tuned = tuple[str, str, tuple[str, str], tuple[object, object]]
TUNING: list[Tuned] = [
    ("client.id", "client_id", ("x", "y"), ("x", "y")),
    (
        "client.dns.lookup",
        "canonical_names",
        ("resolve_canonical_bootstrap_servers_only", "use_all_dns_ips"),
        (True, False),
    ),
    ("socket.connection.setup.timeout.ms", "setup_s", ("4000", "5000"), (4.0, 5.0)),
    ("socket.connection.setup.timeout.max.ms", "most_setup_s", ("4000", "5000"), (4.0, 5.0)),
    ("reconnect.backoff.ms", "reconnect", ("400", "5000"), (Backoff(0.4, 1.0), Backoff(5.0, 5.0))),
    ("reconnect.backoff.max.ms", "reconnect", ("20", "5000"), (Backoff(0.02, 0.02), Backoff(0.05, 5.0))),
    ("connections.max.idle.ms", "idle_s", ("4000", "-1"), (4.0, 0.0)),
    ("send.buffer.bytes", "send_bytes", ("4000", "5000"), (4000, 5000)),
    ("receive.buffer.bytes", "receive_bytes", ("4000", "5000"), (4000, 5000)),
    ("request.timeout.ms", "answer_s", ("4000", "5000"), (4.0, 5.0)),
]
"""Keys that every client has: name, field, two values, what they mean."""
ASKING: list[Tuned] = [
    ("retry.backoff.ms", "retry", ("40", "5000"), (Backoff(0.04, 1.0), Backoff(5.0, 5.0))),
    ("retry.backoff.max.ms", "retry", ("40", "5000"), (Backoff(0.04, 0.04), Backoff(0.1, 5.0))),
    ("metadata.max.age.ms", "leaders_s", ("4000", "5000"), (4.0, 5.0)),
]
"""Keys of the clients that copy."""

Row = tuple[str, tuple[str, ...], tuple[str, str], Callable[[FlowConfig], object], tuple[object, object]]
KEYS: list[Row] = [
    ("topics", FLOW, ("x", "y"), lambda found: found.topics, (("x",), ("y",))),
    ("topics.exclude", FLOW, ("x", "y"), lambda found: found.topics_exclude, (("x",), ("y",))),
    (
        "config.properties.exclude",
        FLOW,
        ("x", "y"),
        lambda found: found.configs_exclude.patterns,
        (("x",), ("y",)),
    ),
    ("replication.factor", FLOW, ("4", "5"), lambda found: found.replication_factor, (4, 5)),
    ("refresh.topics.interval.seconds", FLOW, ("7", "8"), lambda found: found.refresh_topics_s, (7, 8)),
    ("refresh.topics.enabled", FLOW, ("false", "true"), lambda found: found.refresh_topics, (False, True)),
    (
        "replication.policy.class",
        FLOW,
        ("IdentityReplicationPolicy", "DefaultReplicationPolicy"),
        lambda found: isinstance(found.naming, IdentityNaming),
        (True, False),
    ),
    ("replication.policy.separator", FLOW, ("_", "-"), lambda found: found.naming.separator, ("_", "-")),
    (
        "heartbeats.replication.enabled",
        FLOW,
        ("false", "true"),
        lambda found: found.selection.heartbeats,
        (False, True),
    ),
    ("emit.heartbeats.enabled", FLOW, ("false", "true"), lambda found: len(own_heartbeats(found)), (0, 1)),
    (
        "emit.heartbeats.interval.seconds",
        FLOW,
        ("7", "8"),
        lambda found: own_heartbeats(found)[0].every_s,
        (7.0, 8.0),
    ),
    (
        "heartbeats.topic.replication.factor",
        FLOW,
        ("2", "-1"),
        lambda found: own_heartbeats(found)[0].replication_factor,
        (2, -1),
    ),
    ("emit.offset-syncs.enabled", FLOW, ("false", "true"), lambda found: found.syncs.enabled, (False, True)),
    ("offset-syncs.topic.location", FLOW, ("target", "source"), lambda found: found.syncs.cluster, ("B", "A")),
    (
        "offset-syncs.topic.replication.factor",
        FLOW,
        ("2", "-1"),
        lambda found: found.syncs.replication_factor,
        (2, -1),
    ),
    ("offset.lag.max", FLOW, ("0", "5"), lambda found: found.syncs.lag_max, (0, 5)),
    ("raymirror.copiers", FLOW, ("4", "5"), lambda found: found.copiers, (4, 5)),
    ("raymirror.copiers.max", FLOW, ("4", "5"), lambda found: found.most_copiers, (4, 5)),
    (
        "raymirror.bandwidth.bytes",
        FLOW,
        ("4", "5"),
        lambda found: [rule.bytes_per_s for rule in found.traffic.bandwidth],
        ([4], [5]),
    ),
    (
        "raymirror.priority",
        FLOW,
        ("x@high", "x@low"),
        lambda found: found.traffic.priority_of("x"),
        (Priority.HIGH, Priority.LOW),
    ),
    ("raymirror.copiers.near", FLOW, ("target", "source"), lambda found: found.copiers_site, ("B", "A")),
    ("tasks.max", FLOW, ("4", "5"), lambda found: found.most_copiers, (4, 5)),
    ("raymirror.target.drain.seconds", FLOW, ("60", "90"), lambda found: found.target_drain_s, (60.0, 90.0)),
    ("raymirror.shrink.after.seconds", FLOW, ("60", "90"), lambda found: found.shrink_after_s, (60.0, 90.0)),
    ("raymirror.progress.interval.seconds", FLOW, ("5", "7"), lambda found: found.progress_s, (5.0, 7.0)),
    (
        "raymirror.same.cluster",
        FLOW,
        ("allow", "ignore"),
        lambda found: found.same_cluster,
        (OneCluster.ALLOW, OneCluster.IGNORE),
    ),
    ("raymirror.rpo.seconds", FLOW, ("30", "60"), lambda found: found.rpo_s, (30.0, 60.0)),
    ("raymirror.drill.schedule", FLOW, ("7d", "12h"), lambda found: found.drills.every_s, (604_800, 43_200)),
    (
        "raymirror.copier.memory.bytes",
        FLOW,
        ("10000000", "20000000"),
        lambda found: found.buffer_budget_bytes,
        (10_000_000, 20_000_000),
    ),
    (
        "raymirror.batch.inflated.bytes",
        FLOW,
        ("10000000", "20000000"),
        lambda found: found.inflated_bytes,
        (10_000_000, 20_000_000),
    ),
    (
        "raymirror.foreign.writer",
        FLOW,
        ("continue", "stop"),
        lambda found: found.stop_on_foreign_writer,
        (False, True),
    ),
    (
        "raymirror.source.gap",
        FLOW,
        ("t@continue", "fail"),
        lambda found: found.faults.on_gap("t"),
        (OnGap.CONTINUE, OnGap.FAIL),
    ),
    (
        "raymirror.refused",
        FLOW,
        ("t@quarantine", "skip"),
        lambda found: found.faults.on_refused("t"),
        (OnRefused.QUARANTINE, OnRefused.SKIP),
    ),
    (
        "raymirror.topic.recreated",
        FLOW,
        ("x@fail, append", "t@re-create"),
        lambda found: found.faults.on_renewal("t"),
        (OnRenewal.APPEND, OnRenewal.RECREATE),
    ),
    (
        "raymirror.start",
        FLOW,
        ("t@latest", "t@earliest"),
        lambda found: found.starts.start_for("t"),
        (Latest(), Earliest()),
    ),
    ("raymirror.connector.name", FLOW, ("x", "y"), lambda found: found.connector, ("x", "y")),
    ("offset.storage.topic", STORAGE, ("x", "y"), lambda found: found.positions_topic, ("x", "y")),
    ("offset.storage.partitions", STORAGE, ("4", "5"), lambda found: found.positions_partitions, (4, 5)),
    (
        "offset.storage.replication.factor",
        STORAGE,
        ("4", "-1"),
        lambda found: found.positions_replication_factor,
        (4, -1),
    ),
    ("group.id", WORKER, ("x", "y"), lambda found: found.mm2_group, ("x", "y")),
    (
        "exactly.once.source.support",
        WORKER,
        ("enabled", "disabled"),
        lambda found: found.commit_s,
        (1.0, 0.0),
    ),
    ("offset.flush.interval.ms", WORKER, ("1500", "2500"), lambda found: found.flush_s, (1.5, 2.5)),
    (
        "isolation.level",
        CONSUMER,
        ("read_uncommitted", "read_committed"),
        lambda found: fetch("read_committed", found),
        (False, True),
    ),
    ("client.rack", CONSUMER, ("x", "y"), lambda found: fetch("rack", found), ("x", "y")),
    ("fetch.max.wait.ms", CONSUMER, ("100", "200"), lambda found: fetch("max_wait_s", found), (0.1, 0.2)),
    ("fetch.min.bytes", CONSUMER, ("5", "6"), lambda found: fetch("min_bytes", found), (5, 6)),
    ("fetch.max.bytes", CONSUMER, ("5000", "6000"), lambda found: fetch("max_bytes", found), (5000, 6000)),
    (
        "max.partition.fetch.bytes",
        CONSUMER,
        ("5000", "6000"),
        lambda found: found.partition_fetch_bytes,
        (5000, 6000),
    ),
    (
        "auto.offset.reset",
        CONSUMER,
        ("latest", "earliest"),
        lambda found: found.starts.start_for("t"),
        (Latest(), Earliest()),
    ),
    (
        "max.in.flight.requests.per.connection",
        PRODUCER,
        ("1", "2"),
        lambda found: found.max_in_flight,
        (1, 2),
    ),
    ("raymirror.rebatch", FLOW, ("off", "on"), lambda found: found.rebatch, (False, True)),
    ("raymirror.source.connections", FLOW, ("1", "2"), lambda found: found.source_connections, (1, 2)),
    ("max.request.size", PRODUCER, ("4000", "5000"), lambda found: found.request_bytes, (4000, 5000)),
    ("compression.type", PRODUCER, ("gzip", "zstd"), lambda found: found.codec, (1, 4)),
    ("linger.ms", PRODUCER, ("0", "50"), lambda found: found.rebatch_hints.linger_ms, (0, 50)),
    ("batch.size", PRODUCER, ("0", "5000"), lambda found: found.rebatch_hints.batch_bytes, (0, 5000)),
    *(
        (name, layer, texts, partial(tuned, client, field), values)
        for name, field, texts, values in TUNING
        for layer, client in CLIENTS.items()
    ),
    *(
        (name, layer, texts, partial(tuned, client, field), values)
        for name, field, texts, values in ASKING
        for layer, client in CLIENTS.items()
        if layer in (CONSUMER, PRODUCER)
    ),
    *(
        ("default.api.timeout.ms", layer, ("4000", "5000"), partial(tuned, client, "api_s"), (4.0, 5.0))
        for layer, client in CLIENTS.items()
        if layer in (SOURCE_ADMIN, TARGET_ADMIN)
    ),
    ("groups", FLOW, ("x", "y"), lambda found: found.groups.include, (("x",), ("y",))),
    ("groups.exclude", FLOW, ("x", "y"), lambda found: found.groups.exclude, (("x",), ("y",))),
    ("refresh.groups.enabled", FLOW, ("false", "true"), lambda found: found.groups.refresh, (False, True)),
    ("refresh.groups.interval.seconds", FLOW, ("7", "8"), lambda found: found.groups.refresh_s, (7.0, 8.0)),
    ("emit.checkpoints.enabled", FLOW, ("false", "true"), lambda found: found.groups.checkpoints, (False, True)),
    ("emit.checkpoints.interval.seconds", FLOW, ("7", "8"), lambda found: found.groups.checkpoints_s, (7.0, 8.0)),
    ("raymirror.groups.on.commit", FLOW, ("false", "true"), lambda found: found.groups.on_commit, (False, True)),
    ("sync.group.offsets.enabled", FLOW, ("true", "false"), lambda found: found.groups.commits, (True, False)),
    ("sync.group.offsets.interval.seconds", FLOW, ("7", "8"), lambda found: found.groups.commits_s, (7.0, 8.0)),
    ("sync.topic.configs.enabled", FLOW, ("false", "true"), lambda found: found.config_sync.configs, (False, True)),
    ("sync.topic.configs.interval.seconds", FLOW, ("7", "8"), lambda found: found.config_sync.configs_s, (7.0, 8.0)),
    ("sync.topic.acls.enabled", FLOW, ("false", "true"), lambda found: found.config_sync.acls, (False, True)),
    ("sync.topic.acls.interval.seconds", FLOW, ("7", "8"), lambda found: found.config_sync.acls_s, (7.0, 8.0)),
    (
        "use.defaults.from",
        FILTER,
        ("source", "target"),
        lambda found: found.config_sync.source_defaults,
        (True, False),
    ),
    (
        "raymirror.sync.configs.foreign",
        FLOW,
        ("remove", "keep"),
        lambda found: found.config_sync.remove_foreign,
        (True, False),
    ),
    ("raymirror.sync.acls.prefixed", FLOW, ("true", "false"), lambda found: found.acl_rules.prefixed, (True, False)),
    (
        "raymirror.sync.acls.groups",
        FLOW,
        ("true", "false"),
        lambda found: found.acl_rules.groups is not None,
        (True, False),
    ),
    (
        "checkpoints.topic.replication.factor",
        FLOW,
        ("4", "-1"),
        lambda found: found.groups.checkpoints_replication_factor,
        (4, -1),
    ),
]


@pytest.mark.parametrize("row", KEYS, ids=lambda row: f"{row[0]}, {row[1][-1]}")
def test_the_place_that_wins(row: Row) -> None:
    key, layer, texts, read, values = row
    weaker = list(layer)
    while weaker:
        first, *weaker = weaker
        lines = [f"{place.format(key)} = {texts[1]}\n" for place in weaker]
        assert read(flow("".join(lines) + f"{first.format(key)} = {texts[0]}\n")) == values[0]
        assert read(flow(f"{first.format(key)} = {texts[1]}\n")) == values[1]


@pytest.mark.parametrize("row", KEYS, ids=lambda row: f"{row[0]}, {row[1][-1]}")
def test_places_that_do_not_count(row: Row) -> None:
    key, layer, texts, read, _ = row
    usual = read(flow())
    for place in PLACES[layer]:
        for text in texts:
            extra = f"{place.format(key)} = {text}\nraymirror.unsupported = warn\n"
            assert read(flow(extra)) == usual


def test_every_setting_of_a_flow_is_in_the_table() -> None:
    """What is left is made of others, or the name itself."""
    names = set(FlowConfig.__struct_fields__)
    assert names - {
        "name",
        "selection",
        "starts",
        "fetch",
        "mm2_read_committed",
        "naming",
        "groups",
        "own_configs",
        "config_sync",
        "traffic",
        "places",
        "range_bytes",
    } == {
        "topics",
        "topics_exclude",
        "configs_exclude",
        "replication_factor",
        "refresh_topics_s",
        "refresh_topics",
        "partition_fetch_bytes",
        "max_in_flight",
        "source_connections",
        "source_client",
        "target_client",
        "source_admin",
        "target_admin",
        "request_bytes",
        "rebatch_hints",
        "codec",
        "mm2_group",
        "positions_topic",
        "connector",
        "positions_partitions",
        "positions_replication_factor",
        "flush_s",
        "commit_s",
        "copiers",
        "most_copiers",
        "copiers_site",
        "progress_s",
        "rpo_s",
        "drills",
        "target_drain_s",
        "shrink_after_s",
        "buffer_budget_bytes",
        "inflated_bytes",
        "rebatch",
        "stop_on_foreign_writer",
        "faults",
        "syncs",
        "heartbeats",
        "same_cluster",
    }
    assert {"enabled", "cluster", "topic", "lag_max", "replication_factor", "client"} == set(
        SyncsConfig.__struct_fields__
    )
    assert {"pair", "topic", "every_s", "replication_factor", "client"} == set(HeartbeatConfig.__struct_fields__)
    assert set(msgspec.structs.asdict(flow().fetch)) == {
        "max_wait_s",
        "min_bytes",
        "max_bytes",
        "read_committed",
        "rack",
    }
