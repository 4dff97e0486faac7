"""Keys that raymirror does not read: the three kinds, and their lines."""

import pytest

from policies.keys.kafka_keys import KeyFate, Ruling
from policies.keys.unread_keys import Scene, judge
from policies.model import FlowName

HONOURED = {
    "flow": frozenset(
        {"topics", "topics.exclude", "replication.factor", "emit.heartbeats.enabled", "enabled", "raymirror.copiers"}
    ),
    "filter": frozenset({"use.defaults.from"}),
    "storage": frozenset({"offset.storage.topic"}),
    "worker": frozenset({"offset.flush.interval.ms"}),
    "consumer": frozenset({"isolation.level", "fetch.max.bytes"}),
    "producer": frozenset({"acks", "request.timeout.ms"}),
    "cluster": frozenset({"bootstrap.servers", "security.protocol", "sasl.jaas.config"}),
    "top": frozenset({"clusters", "raymirror.metrics.port"}),
}
ASKED = frozenset(
    {
        *HONOURED["top"],
        *HONOURED["flow"],
        *HONOURED["storage"],
        *(f"A->B.{name}" for level in ("flow", "filter") for name in HONOURED[level]),
        *(f"{alias}.{name}" for alias in "AB" for name in HONOURED["cluster"]),
        *HONOURED["cluster"],
        *(f"A.consumer.{name}" for name in HONOURED["consumer"]),
        *(f"A->B.source.consumer.{name}" for name in HONOURED["consumer"]),
        *(f"B.producer.{name}" for name in HONOURED["producer"]),
        *(f"A->B.producer.override.{name}" for name in HONOURED["producer"]),
        *(f"B.{name}" for name in HONOURED["worker"]),
    }
)


def ruling(key: str, value: str = "x", **others: str) -> Ruling:
    values = {key: value, **others}
    scene = Scene(aliases=("A", "B"), flows=(FlowName("A", "B"),), values=values, honoured=HONOURED, asked=ASKED)
    return judge(key, scene)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("A->B.topcis", "A->B.topics"),
        ("topic", "topics"),
        ("A->B.enable", "A->B.enabled"),
        ("A->B.topics.blacklist", "A->B.topics.exclude"),
        ("topics.whitelist", "topics"),
        ("A.topics.blacklist", "A->B.topics.exclude"),
        ("A->B.topics.include", "A->B.topics"),
        ("A.consumer.isolaton.level", "A.consumer.isolation.level"),
        ("A.consumers.isolation.level", "A.consumer.isolation.level"),
        ("A->B.replication-factor", "A->B.replication.factor"),
        ("B.offset.flush.interval.seconds", "B.offset.flush.interval.ms"),
        ("A->B.producer.overide.acks", "A->B.producer.override.acks"),
        ("raymirror.copier", "raymirror.copiers"),
        ("A->B.raymirror.metric.port", "raymirror.metrics.port"),
    ],
)
def test_a_mistyped_key_is_refused_with_the_right_one(key: str, meant: str) -> None:
    found = ruling(key)
    assert found.fate is KeyFate.MISTYPED
    assert found.right == f"did you mean {meant}?"


def test_an_old_name_beside_the_new_one_is_not_needed() -> None:
    scene = {"A->B.topics.exclude": "b"}
    assert ruling("A->B.topics.blacklist", "b", **scene).fate is KeyFate.NEEDLESS
    usual = ruling("A->B.topics.blacklist", r".*[\-\.]internal, .*\.replica, __.*")
    assert (usual.fate, "write A->B.topics.exclude" in usual.why) == (KeyFate.DIFFERENT, True)
    assert "as in Kafka 4.0" in ruling("topics.blacklist").why
    assert "as in MM2" in ruling("topics.include").why


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("config.storage.topic", "Connect's own topics"),
        ("B.status.storage.partitions", "Connect's own topics"),
        ("A->B.status.storage.partitions", "no effect in MM2 either"),
        ("offset.storage.cleanup.policy", "Connect's own topics"),
        ("listeners", "REST"),
        ("rest.advertised.port", "REST"),
        ("dedicated.mode.enable.internal.rest", "REST"),
        ("key.converter.plugin.version", "byte for byte"),
        ("key.converter.schemas.enable", "byte for byte"),
        ("admin.timeout.ms", "how long MM2's connectors"),
        ("A->B.admin.timeout.ms", "how long MM2's connectors"),
        ("consumer.poll.timeout.ms", "MM2's threads"),
        ("A->B.errors.log.enable", "retries failed requests"),
        ("errors.log.enable", "retries failed requests"),
        ("name", "positions"),
        ("A.consumer.max.poll.records", "whole"),
        ("B.producer.buffer.memory", "memory of a copier"),
        ("A->B.producer.override.partitioner.class", "keeps its partition"),
        ("A->B.source.consumer.max.poll.records", "whole"),
        ("A->B.consumer.allow.auto.create.topics", "create no topic"),
        ("A->B.target.admin.retries", "idempotent"),
        ("A.admin.metadata.max.age.ms", "intervals of its own keys"),
        ("A->B.producer.compression.zstd.level", "offset syncs"),
        ("A->B.target.consumer.isolation.level", "no effect in MM2 either"),
        ("A->B.target.consumer.max.poll.records", "no effect in MM2 either"),
        ("consumer.max.poll.records", "no effect in MM2 either"),
        ("max.poll.records", "no effect in MM2 either"),
        ("producer.interceptor.classes", "no effect in MM2 either"),
        ("A.max.poll.records", "no effect in MM2 either"),
        ("A.transforms", "no effect in MM2 either"),
        ("offsets.storage.topic", "no effect in MM2 either"),
        ("A->B.buffer.memory", "no effect in MM2 either"),
        ("A->B.source.cluster.fetch.max.bytes", "no effect in MM2 either"),
        ("A->B.transforms.mask.type", "`transforms` decides"),
        ("A->B.topic.creation.default.partitions", "like its source topic"),
        ("A.sasl.kerberos.kinit.cmd", "Kerberos library"),
        ("A.consumer.sasl.kerberos.kinit.cmd", "Kerberos library"),
        ("A.consumer.ssl.trustmanager.algorithm", "Java's TLS"),
        ("ssl.client.auth", "REST"),
    ],
)
def test_what_means_nothing_here_says_why_nothing_is_lost(key: str, why: str) -> None:
    found = ruling(key)
    assert (found.fate, found.right) == (KeyFate.NEEDLESS, "")
    assert why in found.why


@pytest.mark.parametrize(
    ("key", "value", "why", "right"),
    [
        ("A->B.transforms", "mask", "unchanged", "remove"),
        ("predicates", "isBig", "unchanged", "remove"),
        ("key.converter", "org.apache.kafka.connect.json.JsonConverter", "no converters", "ByteArrayConverter"),
        ("A->B.value.converter", "com.acme.Avro", "no converters", "ByteArrayConverter"),
        ("A->B.errors.tolerance", "all", "skips no record", "raymirror.refused = skip"),
        ("forwarding.admin.class", "com.acme.Admin", "creates topics", "remove"),
        ("A.consumer.interceptor.classes", "com.acme.Mask", "every record", "remove"),
        ("A->B.producer.override.interceptor.classes", "com.acme.Mask", "every record", "remove"),
        ("A.sasl.login.class", "com.acme.Vault", "logs in", "engine/CONFIG.md"),
        ("A->B.offsets.storage.topic", "x", "would not read positions", "offset.storage.topic"),
        ("A->B.source.cluster.alias", "x", "its name", "A->B"),
        ("A->B.source.cluster.bootstrap.servers", "h:1", "connections of its own", "write A.bootstrap.servers"),
        ("A->B.target.cluster.ssl.key.password", "x", "connections of its own", "write B.ssl.key.password"),
        ("A.consumer.bootstrap.servers", "h:1", "same connection settings", "write A.bootstrap.servers"),
        ("A.consumer.ssl.engine.factory.class", "x", "same connection settings", "write A.ssl.engine.factory.class"),
        ("A->B.producer.override.bootstrap.servers", "h:1", "same connection settings", "write B.bootstrap.servers"),
        ("A.topics", "orders", "selects nothing", "write A->B.topics"),
        ("A.sasl.username", "me", "librdkafka", "write A.sasl.jaas.config"),
        ("metadata.broker.list", "h:1", "librdkafka", "write A.bootstrap.servers"),
        ("A.raymirror.copiers", "2", "for a flow", "write A->B.raymirror.copiers"),
        ("A->B.raymirror.metrics.port", "2", "top level only", "write raymirror.metrics.port"),
    ],
)
def test_what_is_not_supported_and_matters_is_refused(key: str, value: str, why: str, right: str) -> None:
    found = ruling(key, value)
    assert found.fate is KeyFate.UNSUPPORTED
    assert why in found.why
    assert right in found.right


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("A->B.transforms", " "),
        ("errors.tolerance", "None"),
        ("value.converter", "org.apache.kafka.connect.converters.ByteArrayConverter"),
        ("header.converter", "ByteArrayConverter"),
        ("forwarding.admin.class", "org.apache.kafka.clients.admin.ForwardingAdmin"),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"),
        ("A.consumer.interceptor.classes", "io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor"),
        ("A->B.source.cluster.alias", "A"),
        ("A->B.target.cluster.alias", "B "),
        ("connector.class", "org.apache.kafka.connect.mirror.MirrorSourceConnector"),
    ],
)
def test_a_value_that_is_so_anyway_asks_for_nothing(key: str, value: str) -> None:
    assert ruling(key, value).fate is KeyFate.NEEDLESS


@pytest.mark.parametrize("key", ["B.security.protocol", "security.protocol", "B.producer.security.protocol"])
def test_a_client_that_connects_as_its_cluster_does_asks_for_nothing(key: str) -> None:
    found = ruling("B.consumer.security.protocol", "SSL ", **{key: "SSL"})
    assert (found.fate, found.why) == (KeyFate.NEEDLESS, "it is the same as the cluster's value")
    other = ruling("B.consumer.security.protocol", "SASL_SSL", **{key: "SSL"})
    assert other.fate is KeyFate.DIFFERENT
    assert "which need Read there" in other.why


def test_a_login_of_a_client_that_is_not_needed() -> None:
    assert "offset syncs" in ruling("B.producer.sasl.jaas.config").why
    values = {"C.consumer.sasl.jaas.config": "x"}
    scene = Scene(("A", "B", "C"), (FlowName("A", "B"),), values, HONOURED, ASKED)
    assert judge("C.consumer.sasl.jaas.config", scene).why == "no flow uses cluster 'C'"


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("header.converter", "byte for byte"),
        ("metric.reporters", "raymirror.metrics.port"),
        ("A.ssl.provider", "OpenSSL"),
        ("A.consumer.ssl.provider", "OpenSSL"),
        ("offset.flush.interval.ms", "at top level, as in MM2; write B.offset.flush.interval.ms"),
        ("use.defaults.from", "at top level, as in MM2; write A->B.use.defaults.from for each flow"),
        ("consumer.isolation.level", "at top level, as in MM2; write A.consumer.isolation.level"),
        ("isolation.level", "at top level, as in MM2; write A.consumer.isolation.level"),
        ("producer.acks", "at top level, as in MM2; write B.producer.acks"),
        ("acks", "at top level, as in MM2; write B.producer.acks"),
        ("request.timeout.ms", "at top level, as in MM2; write B.producer.request.timeout.ms"),
        ("producer.security.protocol", "at top level, as in MM2; write A.security.protocol"),
        ("A.isolation.level", "without its client, as in MM2; write A.consumer.isolation.level"),
        ("B.acks", "without its client, as in MM2; write B.producer.acks"),
        ("B.replication.factor", "under a cluster, as in MM2; write A->B.replication.factor"),
        ("B.use.defaults.from", "under a cluster, as in MM2; write A->B.use.defaults.from"),
        ("A->B.offset.flush.interval.ms", "under a flow, as in MM2; write B.offset.flush.interval.ms"),
        ("A->B.offset.storage.topic", "under a flow, as in MM2; write B.offset.storage.topic"),
        ("A->B.security.protocol", "under a flow, as in MM2; write A.security.protocol or B.security.protocol"),
        ("A->B.ssl.provider", "under a flow, as in MM2; write A.ssl.provider or B.ssl.provider"),
        ("A->B.isolation.level", "under a flow, as in MM2; write A->B.source.consumer.isolation.level"),
        ("A->B.acks", "under a flow, as in MM2; write A->B.producer.override.acks"),
        ("A->B.producer.acks", "never reaches the producer of the data, as in MM2; write A->B.producer.override.acks"),
        ("emit.heartbeats", "the key is emit.heartbeats.enabled"),
        ("A->B.emit.heartbeats", "the key is A->B.emit.heartbeats.enabled"),
        ("A->B.my.filters.setting", "not a key of MM2 or raymirror"),
        ("A->B.producer.nothing", "not a key of MM2 or raymirror"),
        ("A->B.target.consumer.nothing", "not a key of MM2 or raymirror"),
        ("A.consumer.nothing", "not a key of MM2 or raymirror"),
        ("target.dc", "not a key of MM2 or raymirror"),
        ("listener", "did you mean listeners?"),
        ("A->B.transform", "did you mean A->B.transforms?"),
        ("B.plugin.pth", "did you mean B.plugin.path?"),
        ("A.consumer.max.pol.records", "did you mean A.consumer.max.poll.records?"),
        ("C.bootstrap.servers", "cluster 'C' is not in clusters"),
    ],
)
def test_what_is_otherwise_than_the_file_says_is_a_warning(key: str, why: str) -> None:
    found = ruling(key)
    assert found.fate is KeyFate.DIFFERENT
    assert why in found.why


def test_keys_of_a_cluster_that_is_not_in_clusters() -> None:
    others = {"C.bootstrap.servers": "h:1", "A.bootstrap.servers": "h:1", "A.consumer.bootstrap.servers": "h:1"}
    assert ruling("C.consumer.isolation.level", **others).fate is KeyFate.NEEDLESS
    assert "not a key of MM2" in ruling("elsewhere.x", **others).why
    assert ruling("B->C.bootstrap.servers", **others).fate is KeyFate.DIFFERENT


def test_a_key_of_ours_that_is_like_no_other() -> None:
    found = ruling("raymirror.nothing.of.the.kind")
    assert (found.fate, found.right) == (KeyFate.MISTYPED, "see engine/CONFIG.md")


def test_of_aliases_that_begin_alike_the_longest_is_meant() -> None:
    scene = Scene(aliases=("us", "us.east"), flows=(), values={}, honoured={}, asked=frozenset())
    assert scene.take_apart("us.east.acks") == ("us.east.", "", "acks")
    assert scene.take_apart("us.acks") == ("us.", "", "acks")
    assert scene.take_apart("us->us.east.source.consumer.x") == ("us->us.east.", "source.consumer.", "x")
