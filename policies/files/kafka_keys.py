"""Every key that Kafka's classes know and raymirror does not read: what becomes of a file that sets it.

A table per owner, the class of Kafka 4.3.1 that defines the names. What raymirror reads is in none of them: that is
engine/CONFIG.md's. tests/contract/test_mm2_keys.py holds tables and CONFIG.md together against the classes themselves.
"""

import enum
import re

import msgspec


class KeyFate(enum.Enum):
    """What becomes of a key that is set and not read."""

    NEEDLESS = "needless"
    """It means nothing here and nothing is lost: one quiet line."""
    DIFFERENT = "different"
    """Something is otherwise than the file says: a warning."""
    UNSUPPORTED = "unsupported"
    """What it asks for matters and cannot be had: refused, unless `raymirror.unsupported = warn`."""
    MISTYPED = "mistyped"
    """Nobody knows it, and it is close to one that is read: refused likewise."""


class Ruling(msgspec.Struct, frozen=True):
    """The fate of a key: `why`, and what would be `right`; a value that matches `fine` is what happens anyway."""

    fate: KeyFate
    why: str
    right: str = ""
    fine: str = ""

    def of(self, value: str) -> "Ruling":
        """Return what holds for a value; an empty one asks for nothing."""
        asks_for_nothing = not value.strip() or (self.fine and re.fullmatch(self.fine, value.strip()))
        return _AS_HERE if asks_for_nothing else self


_AS_HERE = Ruling(KeyFate.NEEDLESS, "that is what happens anyway")
_WORKER = Ruling(KeyFate.NEEDLESS, "no Connect worker runs here")
_REST = Ruling(KeyFate.NEEDLESS, "no REST server is needed: raymirror's processes find each other by Ray")
_STORAGE = Ruling(KeyFate.NEEDLESS, "Connect's own topics are not needed")
_CONVERTER = Ruling(KeyFate.NEEDLESS, "keys, values and headers are copied as the bytes that they are")
_CLIENT = Ruling(KeyFate.NEEDLESS, "it tunes MM2's Java clients")
_RETRIED = Ruling(KeyFate.NEEDLESS, "what fails is tried again for as long as it takes, and an event says so")
_GROUP = Ruling(KeyFate.NEEDLESS, "no consumer group is used to copy")
_IDEMPOTENT = Ruling(KeyFate.NEEDLESS, "every append is idempotent and is tried again until its outcome is known")
_METRICS = Ruling(KeyFate.NEEDLESS, "it tunes MM2's metrics; raymirror.metrics.port offers raymirror's")
_TASKS = Ruling(KeyFate.NEEDLESS, "Connect's tasks do not exist here")
_CREATION = Ruling(KeyFate.NEEDLESS, "a copy is created like its source topic")
_LOGIN_TUNING = Ruling(KeyFate.NEEDLESS, "it tunes GSSAPI or OAUTHBEARER, which are not used")
_JAVA_TLS = Ruling(KeyFate.NEEDLESS, "it tunes Java's TLS; OpenSSL agrees on TLS 1.2 or 1.3 with the broker")
_STORE_PASSWORD = Ruling(KeyFate.NEEDLESS, "a PEM store has no password; its key's is ssl.key.password")
_REPORTERS = Ruling(
    KeyFate.DIFFERENT,
    "Java classes that report metrics cannot run here; raymirror.metrics.port offers metrics to Prometheus,"
    " raymirror.otlp.endpoint sends them",
    fine=r"(?:org\.apache\.kafka\.common\.metrics\.)?JmxReporter",
)
_CLIENT_ID = Ruling(
    KeyFate.DIFFERENT, "clients are called raymirror|FLOW|... here; a quota by client id must name them so"
)
_COMPRESSION = Ruling(
    KeyFate.DIFFERENT,
    "batches keep the compression that they have on the source; compression.type of the topic on the target alters it",
)
_INTERCEPTORS = Ruling(
    KeyFate.UNSUPPORTED,
    "Java classes that see or alter every record cannot run here",
    "remove the key",
    fine=r"io\.confluent\.monitoring\.[\w.]+",
)
_OPENSSL = Ruling(KeyFate.DIFFERENT, "it is not applied: OpenSSL's own choice holds")
_LOGIN_CLASS = Ruling(
    KeyFate.UNSUPPORTED,
    "a Java class that logs in cannot run here",
    "give username and password in sasl.jaas.config; ${file:PATH:KEY} keeps them out of this file",
)
_PEM_TEXT = Ruling(
    KeyFate.UNSUPPORTED,
    "key and certificates cannot stand in the configuration itself",
    "write both into one PEM file, and name it with ssl.keystore.type = PEM and ssl.keystore.location",
)
_CHANGED_RECORDS = Ruling(
    KeyFate.UNSUPPORTED,
    "records are copied as they are: no transformation runs, so they would arrive unaltered and unfiltered",
    "remove the key where that is meant",
)
_ALIAS = Ruling(KeyFate.UNSUPPORTED, "a flow's aliases are those of its name", "name the flow by them: A->B")

CLIENT_COMMON = {
    "sasl.client.callback.handler.class": _LOGIN_CLASS,
    "sasl.login.callback.handler.class": _LOGIN_CLASS,
    "sasl.login.class": _LOGIN_CLASS,
    "ssl.cipher.suites": _OPENSSL,
    "ssl.enabled.protocols": _JAVA_TLS,
    "ssl.engine.factory.class": Ruling(
        KeyFate.UNSUPPORTED,
        "a Java class that makes TLS connections cannot run here",
        "name PEM files with ssl.truststore.location and ssl.keystore.location",
        fine=r"(?:org\.apache\.kafka\.common\.security\.ssl\.)?DefaultSslEngineFactory",
    ),
    "ssl.keymanager.algorithm": _JAVA_TLS,
    "ssl.keystore.certificate.chain": _PEM_TEXT,
    "ssl.keystore.key": _PEM_TEXT,
    "ssl.keystore.password": _STORE_PASSWORD,
    "ssl.protocol": _JAVA_TLS,
    "ssl.provider": _OPENSSL,
    "ssl.secure.random.implementation": _JAVA_TLS,
    "ssl.trustmanager.algorithm": _JAVA_TLS,
    "ssl.truststore.password": _STORE_PASSWORD,
}
"""MirrorClientConfig.CLIENT_CONFIG_DEF: at top level, of a cluster, of one of its clients."""

_ANY_CLIENT = {
    "client.dns.lookup": _CLIENT,
    "client.id": _CLIENT_ID,
    "config.providers": _CLIENT,
    "connections.max.idle.ms": _CLIENT,
    "default.api.timeout.ms": _CLIENT,
    "enable.metrics.push": _METRICS,
    "metadata.max.age.ms": _CLIENT,
    "metadata.recovery.rebootstrap.trigger.ms": _CLIENT,
    "metadata.recovery.strategy": _CLIENT,
    "metric.reporters": _REPORTERS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "receive.buffer.bytes": _CLIENT,
    "reconnect.backoff.max.ms": _CLIENT,
    "reconnect.backoff.ms": _CLIENT,
    "request.timeout.ms": _CLIENT,
    "retries": _IDEMPOTENT,
    "retry.backoff.max.ms": _CLIENT,
    "retry.backoff.ms": _CLIENT,
    "security.providers": _OPENSSL,
    "send.buffer.bytes": _CLIENT,
    "socket.connection.setup.timeout.max.ms": _CLIENT,
    "socket.connection.setup.timeout.ms": _CLIENT,
    "auto.include.jmx.reporter": _METRICS,  # until 3.9
}

ADMIN = {**_ANY_CLIENT, "bootstrap.controllers": _CLIENT}
"""AdminClientConfig."""

CONSUMER = {
    **_ANY_CLIENT,
    "allow.auto.create.topics": _CLIENT,
    "auto.commit.interval.ms": _GROUP,
    "check.crcs": Ruling(KeyFate.NEEDLESS, "the CRC of every batch is checked"),
    "enable.auto.commit": _GROUP,
    "exclude.internal.topics": _GROUP,
    "group.id": _GROUP,
    "group.instance.id": _GROUP,
    "group.protocol": _GROUP,
    "group.remote.assignor": _GROUP,
    "heartbeat.interval.ms": _GROUP,
    "interceptor.classes": _INTERCEPTORS,
    "internal.leave.group.on.close": _GROUP,
    "internal.throw.on.fetch.stable.offset.unsupported": _CLIENT,
    "key.deserializer": _CONVERTER,
    "max.poll.interval.ms": _GROUP,
    "max.poll.records": _CLIENT,
    "partition.assignment.strategy": _GROUP,
    "session.timeout.ms": _GROUP,
    "share.acknowledgement.mode": _GROUP,
    "share.acquire.mode": _GROUP,
    "value.deserializer": _CONVERTER,
}
"""ConsumerConfig."""

PRODUCER = {
    **_ANY_CLIENT,
    "batch.size": _CLIENT,
    "buffer.memory": _CLIENT,
    "compression.gzip.level": _COMPRESSION,
    "compression.lz4.level": _COMPRESSION,
    "compression.type": _COMPRESSION,
    "compression.zstd.level": _COMPRESSION,
    "delivery.timeout.ms": _IDEMPOTENT,
    "enable.idempotence": _IDEMPOTENT,
    "interceptor.classes": _INTERCEPTORS,
    "internal.auto.downgrade.txn.commit": _IDEMPOTENT,
    "key.serializer": _CONVERTER,
    "linger.ms": _CLIENT,
    "max.block.ms": _IDEMPOTENT,
    "max.request.size": Ruling(KeyFate.NEEDLESS, "a batch may be as large as the target's topic allows"),
    "metadata.max.idle.ms": _CLIENT,
    "partitioner.adaptive.partitioning.enable": _CLIENT,
    "partitioner.availability.timeout.ms": _CLIENT,
    "partitioner.class": Ruling(KeyFate.NEEDLESS, "a record keeps its partition, in MM2 too"),
    "partitioner.ignore.keys": _CLIENT,
    "transaction.timeout.ms": _IDEMPOTENT,
    "transaction.two.phase.commit.enable": _IDEMPOTENT,
    "transactional.id": _IDEMPOTENT,
    "value.serializer": _CONVERTER,
}
"""ProducerConfig."""

CONNECTOR = {
    "add.source.alias.to.metrics": _METRICS,  # until 3.9
    "admin.timeout.ms": Ruling(KeyFate.NEEDLESS, "it bounds the start of MM2's connectors"),
    "config.action.reload": _TASKS,
    "connector.class": Ruling(
        KeyFate.UNSUPPORTED,
        "no connector but MM2's own has a counterpart here",
        "remove the key",
        fine=r"(?:org\.apache\.kafka\.connect\.mirror\.)?Mirror(?:Source|Checkpoint|Heartbeat)Connector",
    ),
    "connector.plugin.version": _TASKS,
    "consumer.poll.timeout.ms": Ruling(KeyFate.NEEDLESS, "it bounds the waiting of MM2's threads"),
    "errors.log.enable": _RETRIED,
    "errors.log.include.messages": _RETRIED,
    "errors.retry.delay.max.ms": _RETRIED,
    "errors.retry.timeout": _RETRIED,
    "errors.tolerance": Ruling(
        KeyFate.DIFFERENT,
        "no record is left out here: a partition whose record the target refuses waits, and an event says so",
        fine="(?i:none)",
    ),
    "forwarding.admin.class": Ruling(
        KeyFate.UNSUPPORTED,
        "a Java class that creates topics, configs and ACLs cannot run here: raymirror asks the target for them itself",
        "remove the key where that is meant",
        fine=r"(?:org\.apache\.kafka\.clients\.admin\.)?ForwardingAdmin",
    ),
    "header.converter": _CONVERTER,
    "header.converter.plugin.version": _CONVERTER,
    "key.converter": _CONVERTER,
    "key.converter.plugin.version": _CONVERTER,
    "metric.names.formats": _METRICS,
    "metric.reporters": _REPORTERS,
    "name": Ruling(KeyFate.NEEDLESS, "MM2 keeps positions under its own connectors' names too, whatever it says"),
    "offsets.storage.topic": Ruling(
        KeyFate.UNSUPPORTED,
        "positions would not be looked for in that topic",
        "name it with offset.storage.topic",
    ),
    "predicates": _CHANGED_RECORDS,
    "source.cluster.alias": _ALIAS,
    "target.cluster.alias": _ALIAS,
    "task.assigned.groups": _TASKS,
    "task.assigned.partitions": _TASKS,
    "task.index": _TASKS,
    "tasks.max.enforce": _TASKS,
    "topic.creation.groups": _CREATION,
    "topic.filter.class": Ruling(
        KeyFate.UNSUPPORTED,
        "a Java class that chooses topics cannot run here: all that `topics` names and `topics.exclude` does not"
        " would be copied",
        "say it with topics and topics.exclude",
        fine=r"(?:org\.apache\.kafka\.connect\.mirror\.)?DefaultTopicFilter",
    ),
    "transforms": _CHANGED_RECORDS,
    "use.incremental.alter.configs": Ruling(KeyFate.NEEDLESS, "configs are always altered one by one"),  # until 3.9
    "value.converter": _CONVERTER,
    "value.converter.plugin.version": _CONVERTER,
}
"""MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig and their tasks', SourceConnectorConfig."""

WORKER = {
    "access.control.allow.methods": _REST,
    "access.control.allow.origin": _REST,
    "admin.listeners": _REST,
    "client.dns.lookup": _WORKER,
    "client.id": _WORKER,
    "config.storage.replication.factor": _STORAGE,
    "config.storage.topic": _STORAGE,
    "connect.protocol": _WORKER,
    "connections.max.idle.ms": _WORKER,
    "connector.client.config.override.policy": _WORKER,
    "dedicated.mode.enable.internal.rest": _REST,
    "header.converter": _CONVERTER,
    "header.converter.plugin.version": _CONVERTER,
    "heartbeat.interval.ms": _WORKER,
    "inter.worker.key.generation.algorithm": _WORKER,
    "inter.worker.key.size": _WORKER,
    "inter.worker.key.ttl.ms": _WORKER,
    "inter.worker.signature.algorithm": _WORKER,
    "inter.worker.verification.algorithms": _WORKER,
    "internal.key.converter": _CONVERTER,  # until 2.8
    "internal.value.converter": _CONVERTER,
    "key.converter": _CONVERTER,
    "key.converter.plugin.version": _CONVERTER,
    "listeners": _REST,
    "metadata.max.age.ms": _WORKER,
    "metadata.recovery.rebootstrap.trigger.ms": _WORKER,
    "metadata.recovery.strategy": _WORKER,
    "metric.reporters": _REPORTERS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "offset.flush.timeout.ms": _WORKER,
    "offset.storage.file.filename": _STORAGE,
    "plugin.discovery": _WORKER,
    "plugin.path": _WORKER,
    "rebalance.timeout.ms": _WORKER,
    "receive.buffer.bytes": _WORKER,
    "reconnect.backoff.max.ms": _WORKER,
    "reconnect.backoff.ms": _WORKER,
    "request.timeout.ms": _WORKER,
    "response.http.headers.config": _REST,
    "rest.advertised.host.name": _REST,
    "rest.advertised.listener": _REST,
    "rest.advertised.port": _REST,
    "rest.extension.classes": _REST,
    "rest.host.name": _REST,  # until 2.8
    "rest.port": _REST,
    "retry.backoff.max.ms": _WORKER,
    "retry.backoff.ms": _WORKER,
    "scheduled.rebalance.max.delay.ms": _WORKER,
    "send.buffer.bytes": _WORKER,
    "session.timeout.ms": _WORKER,
    "socket.connection.setup.timeout.max.ms": _WORKER,
    "socket.connection.setup.timeout.ms": _WORKER,
    "ssl.client.auth": _REST,
    "status.storage.partitions": _STORAGE,
    "status.storage.replication.factor": _STORAGE,
    "status.storage.topic": _STORAGE,
    "task.shutdown.graceful.timeout.ms": _WORKER,
    "topic.creation.enable": _CREATION,
    "topic.tracking.allow.reset": _WORKER,
    "topic.tracking.enable": _WORKER,
    "value.converter": _CONVERTER,
    "value.converter.plugin.version": _CONVERTER,
    "worker.sync.timeout.ms": _WORKER,
    "worker.unsync.backoff.ms": _WORKER,
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
    ("sasl.kerberos.", _LOGIN_TUNING),
    ("sasl.oauthbearer.", _LOGIN_TUNING),
    ("sasl.login.", _LOGIN_TUNING),
    ("config.providers.", Ruling(KeyFate.NEEDLESS, "providers are named by config.providers, and take no parameters")),
)
"""Keys without a fixed name, or with one of many: what they begin with."""

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
"""Names that people write, and old releases read, for those that are read."""

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
"""What releases before 4.0 left out by default, as files repeat it under the old names."""

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
"""librdkafka's names (CONFIGURATION.md there) for what Kafka's Java clients call otherwise."""
