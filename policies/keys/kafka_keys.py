"""Lists every key that Kafka's classes define and raymirror does not read, and what happens if a file sets it.

One table per class of Kafka 4.3.1, with some older keys: until 2.8 `rest.host.name` and `internal.*.converter`, until
3.9 `auto.include.jmx.reporter` and `add.source.alias.to.metrics`. Keys that raymirror reads are not here
but in the other modules. tests/unit/policies/keys/test_kafka_record.py compares all of them with Kafka's classes.
"""

import enum
import re

import msgspec


class KeyFate(enum.Enum):
    """The consequence of a key that is set but not read."""

    NEEDLESS = "needless"
    """It has no effect here, and nothing is lost: one info line."""
    DIFFERENT = "different"
    """Raymirror behaves differently from what the file says: a warning."""
    UNSUPPORTED = "unsupported"
    """It asks for something important that raymirror cannot do: refused, unless `raymirror.unsupported = warn`."""
    MISTYPED = "mistyped"
    """It is unknown but similar to a key that is read: refused in the same way."""


class Ruling(msgspec.Struct, frozen=True):
    """The fate of a key: `why`, and what would be `right`; a value that matches `fine` asks for the usual behaviour."""

    fate: KeyFate
    why: str
    right: str = ""
    fine: str = ""

    @property
    def sentence(self) -> str:
        """Why, and what would be right."""
        return f"{self.why}; {self.right}" if self.right else self.why

    def of(self, value: str) -> "Ruling":
        """Return the ruling for a value; an empty value asks for nothing."""
        asks_for_nothing = not value.strip() or (self.fine and re.fullmatch(self.fine, value.strip()))
        return _AS_HERE if asks_for_nothing else self


_AS_HERE = Ruling(KeyFate.NEEDLESS, "that is what happens anyway")
_WORKER = Ruling(KeyFate.NEEDLESS, "no Connect worker runs here")
_REST = Ruling(KeyFate.NEEDLESS, "no REST server is needed: raymirror's processes find each other through Ray")
_STORAGE = Ruling(KeyFate.NEEDLESS, "Connect's own topics are not needed")
_CONVERTER = Ruling(KeyFate.NEEDLESS, "keys, values and headers are copied byte for byte")
_CONVERTED = Ruling(
    KeyFate.UNSUPPORTED,
    "raymirror runs no converters: keys and values would arrive byte for byte",
    "remove the key if you want that, or write org.apache.kafka.connect.converters.ByteArrayConverter",
    fine=r"(?:org\.apache\.kafka\.connect\.converters\.)?ByteArrayConverter",
)
_HEADERS = Ruling(
    KeyFate.DIFFERENT,
    "headers are copied byte for byte; Connect's default converter would write some of them as other bytes",
    fine=r"(?:org\.apache\.kafka\.connect\.converters\.)?ByteArrayConverter",
)
_CLIENT = Ruling(KeyFate.NEEDLESS, "it tunes MM2's Java clients")
_RETRIED = Ruling(KeyFate.NEEDLESS, "raymirror retries failed requests without a limit and reports them as events")
_GROUP = Ruling(KeyFate.NEEDLESS, "raymirror copies without a consumer group")
_IDEMPOTENT = Ruling(KeyFate.NEEDLESS, "every append is idempotent and is retried until its outcome is known")
_METRICS = Ruling(KeyFate.NEEDLESS, "it tunes MM2's metrics; raymirror.metrics.port offers raymirror's")
_TASKS = Ruling(KeyFate.NEEDLESS, "Connect's tasks do not exist here")
_CREATION = Ruling(KeyFate.NEEDLESS, "a copy is created like its source topic")
_KERBEROS = Ruling(KeyFate.NEEDLESS, "the system's Kerberos library gets and renews tickets")
_BROKERS_TOKENS = Ruling(KeyFate.NEEDLESS, "brokers verify tokens by it; a client does not")
_JAVA_TLS = Ruling(KeyFate.NEEDLESS, "it tunes Java's TLS, and raymirror uses OpenSSL")
_REPORTERS = Ruling(
    KeyFate.DIFFERENT,
    "Java classes that report metrics cannot run here; raymirror.metrics.port offers metrics to Prometheus,"
    " raymirror.otlp.endpoint sends them",
    fine=r"(?:org\.apache\.kafka\.common\.metrics\.)?JmxReporter",
)
_LEVEL = Ruling(
    KeyFate.NEEDLESS,
    "batches that are compressed again get gzip at level 1, zstd at level 3, and the least effort of lz4",
)
_PARTITION = Ruling(KeyFate.NEEDLESS, "a record keeps its partition, as in MM2")
_REBOOTSTRAP = Ruling(
    KeyFate.NEEDLESS, "if no known broker answers, raymirror asks the bootstrap addresses again, always"
)
_ASKED_ANYWAY = Ruling(KeyFate.NEEDLESS, "what does not copy asks again at the intervals of its own keys")
_INTERCEPTORS = Ruling(
    KeyFate.UNSUPPORTED,
    "Java classes that read or change every record cannot run here",
    "remove the key",
    fine=r"io\.confluent\.monitoring\.[\w.]+",
)
_OPENSSL = Ruling(KeyFate.DIFFERENT, "raymirror ignores it: OpenSSL chooses")
_LOGIN_CLASS = Ruling(
    KeyFate.UNSUPPORTED,
    "a Java class that logs in cannot run here",
    "remove the key: engine/CONFIG.md names the logins that raymirror has",
    fine=r"software\.amazon\.msk\.auth\.iam\.IAMClientCallbackHandler"
    r"|org\.apache\.kafka\.common\.security\.[\w.]*\.(?:DefaultLogin|KerberosLogin|OAuthBearerRefreshingLogin)",
)
_CHANGED_RECORDS = Ruling(
    KeyFate.UNSUPPORTED,
    "raymirror runs no transformations: records would arrive unchanged and unfiltered",
    "remove the key if you want that",
)
_ALIAS = Ruling(KeyFate.UNSUPPORTED, "a flow takes its aliases from its name", "name the flow after them: A->B")


def _all(ruling: Ruling, names: str) -> dict[str, Ruling]:
    return dict.fromkeys(names.split(), ruling)


CLIENT_COMMON = {
    **_all(_LOGIN_CLASS, "sasl.client.callback.handler.class sasl.login.class"),
    "ssl.provider": _OPENSSL,
    **_all(_JAVA_TLS, "ssl.keymanager.algorithm ssl.secure.random.implementation ssl.trustmanager.algorithm"),
    "ssl.engine.factory.class": Ruling(
        KeyFate.UNSUPPORTED,
        "a Java class that makes TLS connections cannot run here",
        "set ssl.truststore.location and ssl.keystore.location to the stores",
        fine=r"(?:org\.apache\.kafka\.common\.security\.ssl\.)?DefaultSslEngineFactory",
    ),
}
"""MirrorClientConfig.CLIENT_CONFIG_DEF: at top level, for a cluster, or for one of its clients."""

_PROVIDERS = Ruling(KeyFate.NEEDLESS, "config.providers at top level names the providers")

_ANY_CLIENT = {
    **_all(_REBOOTSTRAP, "metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy"),
    "config.providers": _PROVIDERS,
    **_all(
        _METRICS,
        """enable.metrics.push metrics.num.samples metrics.recording.level metrics.sample.window.ms
           auto.include.jmx.reporter""",
    ),
    "metric.reporters": _REPORTERS,
    "retries": _IDEMPOTENT,
    "security.providers": _OPENSSL,
}

ADMIN = {
    **_ANY_CLIENT,
    **_all(_ASKED_ANYWAY, "metadata.max.age.ms retry.backoff.max.ms retry.backoff.ms"),
    "bootstrap.controllers": Ruling(KeyFate.NEEDLESS, "brokers forward what only a controller can do"),
}
"""AdminClientConfig."""

CONSUMER = {
    **_ANY_CLIENT,
    "allow.auto.create.topics": Ruling(KeyFate.NEEDLESS, "raymirror's questions create no topic"),
    "default.api.timeout.ms": _RETRIED,
    "internal.throw.on.fetch.stable.offset.unsupported": _CLIENT,
    "max.poll.records": Ruling(KeyFate.NEEDLESS, "batches are copied whole, and no record waits for a poll"),
    **_all(
        _GROUP,
        """auto.commit.interval.ms enable.auto.commit exclude.internal.topics group.id group.instance.id
           group.protocol group.remote.assignor heartbeat.interval.ms internal.leave.group.on.close
           max.poll.interval.ms partition.assignment.strategy session.timeout.ms share.acknowledgement.mode
           share.acquire.mode""",
    ),
    "interceptor.classes": _INTERCEPTORS,
    **_all(_CONVERTER, "key.deserializer value.deserializer"),
    "check.crcs": Ruling(KeyFate.NEEDLESS, "the CRC of every batch is checked"),
}
"""ConsumerConfig."""

PRODUCER = {
    **_ANY_CLIENT,
    **_all(
        _PARTITION,
        """partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
           partitioner.ignore.keys""",
    ),
    **_all(_LEVEL, "compression.gzip.level compression.lz4.level compression.zstd.level"),
    "buffer.memory": Ruling(KeyFate.NEEDLESS, "raymirror.copier.memory.bytes limits the memory of a copier"),
    "default.api.timeout.ms": _RETRIED,
    "metadata.max.idle.ms": Ruling(KeyFate.NEEDLESS, "only topics that are copied are looked up"),
    **_all(
        _IDEMPOTENT,
        """delivery.timeout.ms enable.idempotence internal.auto.downgrade.txn.commit max.block.ms
           transaction.timeout.ms transaction.two.phase.commit.enable transactional.id""",
    ),
    "interceptor.classes": _INTERCEPTORS,
    **_all(_CONVERTER, "key.serializer value.serializer"),
}
"""ProducerConfig."""

CONNECTOR = {
    **_all(_METRICS, "add.source.alias.to.metrics metric.names.formats"),
    **_all(
        _TASKS,
        """config.action.reload connector.plugin.version task.assigned.groups task.assigned.partitions task.class
           task.index tasks.max.enforce""",
    ),
    **_all(_RETRIED, "errors.log.enable errors.log.include.messages errors.retry.delay.max.ms errors.retry.timeout"),
    **_all(
        _CONVERTER,
        "header.converter.plugin.version key.converter.plugin.version value.converter.plugin.version",
    ),
    **_all(_CONVERTED, "key.converter value.converter"),
    "header.converter": _HEADERS,
    "config.providers": _PROVIDERS,
    "metric.reporters": _REPORTERS,
    **_all(_CHANGED_RECORDS, "predicates transforms"),
    **_all(_ALIAS, "source.cluster.alias target.cluster.alias"),
    "topic.creation.groups": _CREATION,
    "admin.timeout.ms": Ruling(KeyFate.NEEDLESS, "it limits how long MM2's connectors take to start"),
    "connector.class": Ruling(
        KeyFate.UNSUPPORTED,
        "raymirror replaces only MM2's own connectors",
        "remove the key",
        fine=r"(?:org\.apache\.kafka\.connect\.mirror\.)?Mirror(?:Source|Checkpoint|Heartbeat)Connector",
    ),
    "consumer.poll.timeout.ms": Ruling(KeyFate.NEEDLESS, "it limits how long MM2's threads wait"),
    "errors.tolerance": Ruling(
        KeyFate.UNSUPPORTED,
        "by default raymirror skips no record: if the target refuses one, the partition waits, and an event reports it",
        "set raymirror.refused = skip, or quarantine to keep such records, instead",
        fine="(?i:none)",
    ),
    "forwarding.admin.class": Ruling(
        KeyFate.UNSUPPORTED,
        "a Java class that creates topics, configs and ACLs cannot run here: raymirror creates them itself",
        "remove the key if you want that",
        fine=r"(?:org\.apache\.kafka\.clients\.admin\.)?ForwardingAdmin",
    ),
    "name": Ruling(
        KeyFate.NEEDLESS, "MM2 also stores positions under its own connectors' names, whatever this key says"
    ),
    "offsets.storage.topic": Ruling(
        KeyFate.UNSUPPORTED,
        "raymirror would not read positions from that topic",
        "set offset.storage.topic instead",
    ),
    "use.incremental.alter.configs": Ruling(
        KeyFate.NEEDLESS, "raymirror changes single configs, as the brokers can"
    ),  # until 3.9
}
"""MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig and their tasks', SourceConnectorConfig."""

WORKER = {
    **_all(
        _REST,
        """access.control.allow.methods access.control.allow.origin admin.listeners
           dedicated.mode.enable.internal.rest listeners response.http.headers.config rest.advertised.host.name
           rest.advertised.listener rest.advertised.port rest.extension.classes rest.host.name rest.port
           ssl.client.auth""",
    ),
    **_all(
        _WORKER,
        """client.dns.lookup client.id connect.protocol connections.max.idle.ms
           connector.client.config.override.policy heartbeat.interval.ms inter.worker.key.generation.algorithm
           inter.worker.key.size inter.worker.key.ttl.ms inter.worker.signature.algorithm
           inter.worker.verification.algorithms metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
           metadata.recovery.strategy offset.flush.timeout.ms plugin.discovery plugin.path rebalance.timeout.ms
           receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
           retry.backoff.max.ms retry.backoff.ms scheduled.rebalance.max.delay.ms send.buffer.bytes
           session.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
           task.shutdown.graceful.timeout.ms topic.tracking.allow.reset topic.tracking.enable worker.sync.timeout.ms
           worker.unsync.backoff.ms""",
    ),
    **_all(
        _STORAGE,
        """config.storage.replication.factor config.storage.topic offset.storage.file.filename
           status.storage.partitions status.storage.replication.factor status.storage.topic""",
    ),
    **_all(
        _CONVERTER,
        """header.converter.plugin.version internal.key.converter internal.value.converter key.converter.plugin.version
           value.converter.plugin.version""",
    ),
    **_all(_CONVERTED, "key.converter value.converter"),
    "header.converter": _HEADERS,
    "metric.reporters": _REPORTERS,
    **_all(_METRICS, "metrics.num.samples metrics.recording.level metrics.sample.window.ms"),
    "topic.creation.enable": _CREATION,
}
"""DistributedConfig, RestServerConfig and MirrorMakerConfig."""

FAMILIES = (
    ("config.storage.", _STORAGE),
    ("status.storage.", _STORAGE),
    ("offset.storage.", _STORAGE),
    ("key.converter.", _CONVERTER),
    ("value.converter.", _CONVERTER),
    ("header.converter.", _CONVERTER),
    ("internal.key.converter.", _CONVERTER),
    ("internal.value.converter.", _CONVERTER),
    ("listeners.https.", _REST),
    ("admin.listeners.https.", _REST),
    ("rest.", _REST),
    ("metrics.context.", _METRICS),
    ("transforms.", Ruling(KeyFate.NEEDLESS, "`transforms` decides")),
    ("predicates.", Ruling(KeyFate.NEEDLESS, "`predicates` decides")),
    ("topic.creation.", _CREATION),
    ("errors.deadletterqueue.", Ruling(KeyFate.NEEDLESS, "MM2 has no dead letter queue either")),
    ("sasl.kerberos.", _KERBEROS),
    ("sasl.oauthbearer.", _BROKERS_TOKENS),
    ("config.providers.", Ruling(KeyFate.NEEDLESS, "config.providers names the providers, which take no parameters")),
)
"""Prefixes of keys without a fixed name, or of large groups of keys."""

MEANT = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
    "topics.include": "topics",
    "groups.include": "groups",
    "topics.regex": "topics",
    "whitelist": "topics",
    "blacklist": "topics.exclude",
    "topic.whitelist": "topics",
    "topic.blacklist": "topics.exclude",
    "enable": "enabled",
}
"""Names that users write or old releases read -> the key that raymirror reads."""

USUAL_EXCLUDES = frozenset(
    {
        ".*[\\-\\.]internal",
        ".*[-.]internal",
        ".*\\.internal",
        ".*-internal",
        "mm2.*\\.internal",
        ".*\\.replica",
        ".*.replica",
        "__.*",
        "console-consumer-.*",
        "connect-.*",
    }
)
"""The default excludes of releases before 4.0; files repeat them under the old names."""

LIBRDKAFKA = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type = PEM",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location (key and certificates in one PEM file), with type PEM",
    "ssl.key.location": "ssl.keystore.location (key and certificates in one PEM file), with type PEM",
    "enable.ssl.certificate.verification": "ssl.truststore.location",
}
"""librdkafka's names (its CONFIGURATION.md) -> the names of Kafka's Java clients."""
