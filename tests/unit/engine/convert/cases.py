"""The corpus of converted files, and what each becomes: all settings of the new file, and all that is not carried."""

from typing import NamedTuple

from engine.convert.model import Options

ONLY_COPIES = (
    "heartbeats.replication.enabled",
    "emit.checkpoints.enabled",
    "emit.offset-syncs.enabled",
    "sync.topic.configs.enabled",
    "sync.topic.acls.enabled",
)
"""The keys of a flow that are false for a tool that only copies; heartbeats are off too, and nothing is excluded."""
WORDS = {
    "IDENTITY": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "PLAIN_LOGIN": "org.apache.kafka.common.security.plain.PlainLoginModule required",
    "SCRAM_LOGIN": "org.apache.kafka.common.security.scram.ScramLoginModule required",
    "FROM_SECRET": "${directory:/etc/raymirror/secrets",
    "SECRETS": "/etc/raymirror/secrets",
    "\\n": "\n",
}
"""Short words of the table for long values."""


class Case(NamedTuple):
    """Files of the corpus, options, the settings of the new file, and the origins of what is not carried.

    The first line of the settings may be `ONLY COPIES`, which stands for `ONLY_COPIES` of the only flow.
    """

    name: str
    files: list[str]
    settings: str
    options: Options = Options()
    lost: tuple[str, ...] = ()


def expected(case: Case) -> dict[str, str]:
    """Return the settings of a case."""
    lines = [line.strip() for line in case.settings.strip().splitlines()]
    found = {}
    for line in lines:
        if line != "ONLY COPIES":
            key, _, value = line.partition(" =")
            for short, long in WORDS.items():
                value = value.replace(short, long)
            found[key] = value.removeprefix(" ")
    if lines[0] == "ONLY COPIES":
        flow = next(key.removesuffix(".enabled") for key in found if key.endswith(".enabled"))
        found |= {f"{flow}.{key}": "false" for key in ONLY_COPIES} | {"emit.heartbeats.enabled": "false"}
        found.setdefault(f"{flow}.topics.exclude", "")
    return found


CASES = (
    Case(
        "mm1",
        ["mm1-consumer.properties", "mm1-producer.properties"],
        options=Options(whitelist="orders|clicks.*", num_streams="4"),
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.bootstrap.servers = old1.example:9092,old2.example:9092
            source.consumer.auto.offset.reset = earliest
            source.consumer.fetch.min.bytes = 1024
            source.consumer.max.partition.fetch.bytes = 2097152
            target.bootstrap.servers = new1.example:9092
            target.producer.acks = all
            target.producer.max.in.flight.requests.per.connection = 1
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.tasks.max = 4
            source->target.topics = orders|clicks.*
            source->target.topics.exclude = .*heartbeats
            source.consumer.client.id = mirror
            target.producer.compression.type = lz4
            target.producer.linger.ms = 50
        """,
        lost=(
            "mm1-consumer.properties:3: group.id",
            "mm1-consumer.properties",
        ),
    ),
    Case(
        "mm1-scala",
        ["mm1-scala-consumer.properties", "mm1-scala-producer.properties"],
        options=Options(whitelist='"orders,  clicks"', source_bootstrap="old1:9092"),
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.consumer.auto.offset.reset = earliest
            source.consumer.max.partition.fetch.bytes = 4194304
            source.consumer.fetch.max.wait.ms = 250
            target.bootstrap.servers = new1.example:9092,new2.example:9092
            target.producer.acks = 1
            source.bootstrap.servers = old1:9092
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.topics = orders,clicks
        """,
        lost=(
            "mm1-scala-consumer.properties:3: group.id",
            "mm1-scala-producer.properties:4: compression.codec",
        ),
    ),
    Case(
        "mm1-blacklist",
        ["mm1-consumer.properties", "mm1-producer.properties"],
        options=Options(blacklist="tmp.*", source_alias="old", target_alias="new"),
        settings=r"""
            ONLY COPIES
            old->new.enabled = true
            old.bootstrap.servers = old1.example:9092,old2.example:9092
            old.consumer.auto.offset.reset = earliest
            old.consumer.fetch.min.bytes = 1024
            old.consumer.max.partition.fetch.bytes = 2097152
            new.bootstrap.servers = new1.example:9092
            new.producer.acks = all
            new.producer.max.in.flight.requests.per.connection = 1
            old->new.replication.policy.class = IDENTITY
            old->new.replication.factor = -1
            old->new.topics.exclude = tmp.*,.*heartbeats
            old.consumer.client.id = mirror
            new.producer.compression.type = lz4
            new.producer.linger.ms = 50
        """,
        lost=(
            "mm1-consumer.properties:3: group.id",
            "mm1-consumer.properties",
        ),
    ),
    Case(
        "mm1-secured",
        ["mm1-secured-consumer.properties", "mm1-secured-producer.properties"],
        options=Options(whitelist=".*"),
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.bootstrap.servers = old1.example:9094
            source.security.protocol = SASL_SSL
            source.sasl.mechanism = PLAIN
            source.sasl.jaas.config = PLAIN_LOGIN username="mirror" password="PLANTED-1";
            source.ssl.truststore.type = PEM
            source.ssl.truststore.location = /etc/old/ca.pem
            target.bootstrap.servers = new1.example:9094
            target.producer.acks = 1
            target.security.protocol = SSL
            target.ssl.keystore.type = PEM
            target.ssl.keystore.location = /etc/new/client.pem
            target.ssl.key.password = PLANTED-3
            source.consumer.auto.offset.reset = latest
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.topics = .*
            source->target.topics.exclude = .*heartbeats
        """,
        lost=(
            "mm1-secured-consumer.properties:2: group.id",
            "mm1-secured-consumer.properties",
            "mm1-secured-producer.properties:7: ssl.truststore.type",
            "mm1-secured-producer.properties:8: ssl.truststore.location",
            "mm1-secured-producer.properties:9: ssl.truststore.password",
        ),
    ),
    Case(
        "mm1-handler",
        ["mm1-consumer.properties", "mm1-producer.properties"],
        options=Options(whitelist="orders", message_handler="com.X"),
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.bootstrap.servers = old1.example:9092,old2.example:9092
            source.consumer.auto.offset.reset = earliest
            source.consumer.fetch.min.bytes = 1024
            source.consumer.max.partition.fetch.bytes = 2097152
            target.bootstrap.servers = new1.example:9092
            target.producer.acks = all
            target.producer.max.in.flight.requests.per.connection = 1
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.topics =
            source.consumer.client.id = mirror
            target.producer.compression.type = lz4
            target.producer.linger.ms = 50
        """,
        lost=(
            "mm1-consumer.properties:3: group.id",
            "command line: --message.handler",
        ),
    ),
    Case(
        "mm1-order",
        ["mm1-first.properties", "mm1-second.properties"],
        options=Options(whitelist="orders"),
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.bootstrap.servers = left.example:9092
            target.bootstrap.servers = right.example:9092
            source.consumer.auto.offset.reset = latest
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.topics = orders
        """,
    ),
    Case(
        "mm1-nothing",
        ["mm1-consumer.properties", "mm1-producer.properties"],
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.bootstrap.servers = old1.example:9092,old2.example:9092
            source.consumer.auto.offset.reset = earliest
            source.consumer.fetch.min.bytes = 1024
            source.consumer.max.partition.fetch.bytes = 2097152
            target.bootstrap.servers = new1.example:9092
            target.producer.acks = all
            target.producer.max.in.flight.requests.per.connection = 1
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.topics =
            source->target.topics.exclude = .*heartbeats
            source.consumer.client.id = mirror
            target.producer.compression.type = lz4
            target.producer.linger.ms = 50
        """,
        lost=(
            "mm1-consumer.properties:3: group.id",
            "mm1-consumer.properties",
            "mm1-consumer.properties",
        ),
    ),
    Case(
        "mm1-login",
        ["mm1-unknown-login-consumer.properties", "mm1-producer.properties"],
        options=Options(whitelist="orders"),
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.bootstrap.servers = old1.example:9094
            source.ssl.truststore.type = PEM
            source.ssl.truststore.location = /etc/old/ca.pem
            target.bootstrap.servers = new1.example:9092
            target.producer.acks = all
            target.producer.max.in.flight.requests.per.connection = 1
            source.consumer.auto.offset.reset = latest
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.topics = orders
            target.producer.compression.type = lz4
            target.producer.linger.ms = 50
        """,
        lost=(
            "mm1-unknown-login-consumer.properties:2: group.id",
            "mm1-unknown-login-consumer.properties:3: security.protocol",
            "mm1-unknown-login-consumer.properties:4: sasl.mechanism",
            "mm1-unknown-login-consumer.properties:5: sasl.jaas.config",
        ),
    ),
    Case(
        "connect-three",
        ["connect-three.json", "connect-worker.properties"],
        settings=r"""
            atlas->boreal.enabled = true
            atlas.bootstrap.servers = atlas-1:9092,atlas-2:9092
            boreal.bootstrap.servers = boreal-1:9092
            atlas->boreal.topics = billing.*,shipping
            atlas->boreal.topics.exclude = .*\.tmp,__.*
            atlas->boreal.replication.factor = 3
            atlas->boreal.refresh.topics.interval.seconds = 30
            atlas->boreal.sync.topic.acls.enabled = false
            atlas->boreal.tasks.max = 6
            atlas->boreal.groups = billing-.*
            atlas->boreal.sync.group.offsets.enabled = true
            atlas->boreal.sync.group.offsets.interval.seconds = 20
            atlas->boreal.emit.checkpoints.interval.seconds = 20
            atlas->boreal.emit.heartbeats.interval.seconds = 5
            emit.heartbeats.enabled = false
            atlas->boreal.emit.heartbeats.enabled = true
            boreal.group.id = connect-boreal
            boreal.offset.storage.topic = connect-boreal-offsets
            boreal.offset.storage.replication.factor = 3
            boreal.offset.flush.interval.ms = 10000
            atlas->boreal.raymirror.connector.name = atlas-source
        """,
    ),
    Case(
        "connect-one",
        ["connect-one.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = one-way
        """,
        lost=("connect-one.json:1: config",),
    ),
    Case(
        "connect-config",
        ["connect-config.json"],
        settings=r"""
            quay->target.enabled = true
            quay.bootstrap.servers = quay:9092
            target.bootstrap.servers = vault:9092
            quay->target.topics = invoices|refunds
            target.offset.storage.topic = bare-offsets
            quay->target.replication.policy.separator = _
            quay->target.tasks.max = 2
            quay->target.emit.offset-syncs.enabled = false
            quay->target.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->target.raymirror.connector.name = bare
        """,
    ),
    Case(
        "connect-list",
        ["connect-list.json"],
        settings=r"""
            north->south.enabled = true
            north.bootstrap.servers = n:9092
            south.bootstrap.servers = s:9092
            north->south.replication.policy.class = IDENTITY
            north->south.offset-syncs.topic.location = target
            emit.heartbeats.enabled = false
            north->south.raymirror.connector.name = src
        """,
        lost=("connect-list.json:2: [0].config",),
    ),
    Case(
        "connect-paused",
        ["connect-paused.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = one-way
        """,
        lost=(
            "connect-paused.json:7: one-way.status.connector.state",
            "connect-paused.json:2: one-way.info.config",
        ),
    ),
    Case(
        "connect-transforms",
        ["connect-transforms.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics =
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = shaped
            quay->vault.producer.override.compression.type = zstd
        """,
        lost=(
            "connect-transforms.json:1: config",
            "connect-transforms.json:6: config.transforms",
            "connect-transforms.json:10: config.errors.tolerance",
        ),
    ),
    Case(
        "connect-custom-classes",
        ["connect-custom-classes.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics =
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = own
        """,
        lost=(
            "connect-custom-classes.json:1: config",
            "connect-custom-classes.json:6: config.replication.policy.class",
            "connect-custom-classes.json:7: config.topic.filter.class",
            "connect-custom-classes.json:8: config.forwarding.admin.class",
        ),
    ),
    Case(
        "connect-custom-groups",
        ["connect-one.json", "connect-custom-groups.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            quay->vault.groups =
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = one-way
        """,
        lost=(
            "connect-one.json:1: config",
            "connect-custom-groups.json:6: config.group.filter.class",
        ),
    ),
    Case(
        "connect-differing",
        ["connect-one.json", "connect-differing-checkpoint.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            vault.security.protocol = SSL
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = one-way
        """,
        lost=(
            "connect-differing-checkpoint.json:5: config.topics",
            "connect-differing-checkpoint.json:6: config.replication.policy.separator",
            "connect-one.json:1: config",
        ),
    ),
    Case(
        "connect-second-topics",
        ["connect-one.json", "connect-second-topics.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = one-way
        """,
        lost=(
            "connect-second-topics.json:1: config",
            "connect-one.json:1: config",
        ),
    ),
    Case(
        "connect-second-other",
        ["connect-one.json", "connect-second-other.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = one-way
        """,
        lost=(
            "connect-second-other.json:1: config",
            "connect-one.json:1: config",
        ),
    ),
    Case(
        "connect-legacy",
        ["connect-legacy.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.config.properties.exclude = retention\.ms
            quay->vault.topics.exclude = temp-.*
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = since-2019
        """,
        lost=("connect-legacy.json:1: config",),
    ),
    Case(
        "connect-standalone",
        ["connect-standalone.properties", "connect-standalone-worker.properties"],
        settings=r"""
            here->there.enabled = true
            here.bootstrap.servers = localhost:9092
            here->there.topics = demo\..*
            here->there.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            there.bootstrap.servers = localhost:9093
            here->there.raymirror.connector.name = laptop
        """,
        lost=("connect-standalone-worker.properties:2: offset.storage.file.filename",),
    ),
    Case(
        "connect-references",
        ["connect-references.json", "connect-references-worker.properties"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = ${file:/etc/mirror/quay.properties:servers}
            quay.security.protocol = SASL_SSL
            quay.sasl.mechanism = SCRAM-SHA-256
            quay.sasl.jaas.config = SCRAM_LOGIN username="m" password="${file:/etc/mirror/quay.properties:password}";
            vault.bootstrap.servers = vault:9092
            vault.security.protocol = SASL_SSL
            vault.sasl.mechanism = PLAIN
            vault.sasl.jaas.config = ${file:SECRETS/hashi.properties:kafka_prod.login}
            vault.ssl.truststore.type = PEM
            vault.ssl.truststore.location = /etc/ca.pem
            vault.producer.security.protocol = SASL_SSL
            quay->vault.source.consumer.client.rack = ${env:RACK}
            quay->vault.topics = invoices
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vault.group.id = connect
            vault.offset.storage.topic = connect-offsets
            quay->vault.raymirror.connector.name = secret-free
        """,
    ),
    Case(
        "connect-both-ways",
        ["connect-both-ways.json", "connect-worker-east.properties", "connect-worker-west.properties"],
        settings=r"""
            east->west.enabled = true
            west->east.enabled = true
            east.bootstrap.servers = e:9092
            west.bootstrap.servers = w:9092
            east->west.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            west->east.emit.checkpoints.enabled = false
            east.group.id = connect-east
            east.offset.storage.topic = offsets-east
            east.exactly.once.source.support = enabled
            west.group.id = connect-west
            west.offset.storage.topic = offsets-west
            west.producer.max.in.flight.requests.per.connection = 5
            east->west.raymirror.connector.name = east-west
            west->east.raymirror.connector.name = west-east
            west.producer.batch.size = 500000
        """,
    ),
    Case(
        "connect-mixed",
        ["connect-mixed.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.heartbeats.topic.replication.factor = 1
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.emit.heartbeats.enabled = true
            quay->vault.topics =
        """,
        lost=("connect-mixed.json:1: mirror.info.config",),
    ),
    Case(
        "connect-bad-values",
        ["connect-bad-values.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = wrong
            quay->vault.topics =
        """,
        lost=(
            "connect-bad-values.json:1: config",
            "connect-bad-values.json:5: config.topics",
            "connect-bad-values.json:6: config.tasks.max",
            "connect-bad-values.json:7: config.replication.factor",
            "connect-bad-values.json:8: config.offset.lag.max",
            "connect-bad-values.json:9: config.sync.topic.acls.enabled",
            "connect-bad-values.json:11: config.some.thing.of.mine",
        ),
    ),
    Case(
        "connect-clients",
        ["connect-clients.json"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            quay->vault.source.consumer.fetch.max.wait.ms = 100
            quay->vault.consumer.isolation.level = read_committed
            quay->vault.consumer.auto.offset.reset = latest
            quay->vault.producer.override.request.timeout.ms = 60000
            quay->vault.producer.override.acks = 1
            quay->vault.exactly.once.support = requested
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            quay->vault.raymirror.connector.name = tuned
            quay->vault.producer.override.max.request.size = 5000000
            quay->vault.source.consumer.security.protocol = SSL
        """,
        lost=(
            "connect-clients.json:1: config",
            "connect-clients.json:13: config.target.producer.linger.ms",
        ),
    ),
    Case(
        "connect-resources",
        ["connect-resources.yaml"],
        settings=r"""
            quay->vault.enabled = true
            quay.bootstrap.servers = quay:9092
            vault.bootstrap.servers = vault:9092
            quay->vault.topics = invoices
            quay->vault.tasks.max = 3
            quay->vault.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vault.group.id = workers
            vault.offset.storage.topic = workers-offsets
            quay->vault.raymirror.connector.name = quay-source
        """,
        lost=("connect-resources.yaml:23: items[1].spec.pause",),
    ),
    Case(
        "strimzi-v1",
        ["strimzi-v1.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard-kafka-bootstrap:9092
            cellar.bootstrap.servers = cellar-kafka-bootstrap:9092
            cellar.offset.storage.replication.factor = -1
            cellar.group.id = to-cellar-group
            cellar.offset.storage.topic = to-cellar-offsets
            vineyard->cellar.enabled = true
            vineyard->cellar.replication.factor = -1
            vineyard->cellar.sync.topic.acls.enabled = false
            vineyard->cellar.offset-syncs.topic.location = target
            vineyard->cellar.topics = harvest.*|bottles
            vineyard->cellar.tasks.max = 4
            vineyard->cellar.sync.group.offsets.enabled = true
            vineyard->cellar.groups = .*
            vineyard->cellar.groups.exclude = console-.*
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
            cellar.producer.linger.ms = 20
        """,
    ),
    Case(
        "strimzi-v1beta2",
        ["strimzi-v1beta2.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            cellar.bootstrap.servers = cellar:9092
            cellar.group.id = mine
            cellar.offset.storage.topic = mine-offsets
            vineyard->cellar.enabled = true
            vineyard->cellar.refresh.topics.interval.seconds = 60
            vineyard->cellar.topics.exclude = scratch.*
            vineyard->cellar.heartbeats.topic.replication.factor = 1
            vineyard->cellar.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vineyard->cellar.emit.heartbeats.enabled = true
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
    ),
    Case(
        "strimzi-before-4",
        ["strimzi-before-4.yaml"],
        settings=r"""
            east.bootstrap.servers = east:9092
            hub.bootstrap.servers = hub:9092
            hub.group.id = mirrormaker2-cluster
            hub.offset.storage.topic = mirrormaker2-cluster-offsets
            west.bootstrap.servers = west:9092
            east->hub.enabled = true
            east->hub.emit.checkpoints.enabled = false
            east->hub.raymirror.connector.name = east->hub.MirrorSourceConnector
            east->hub.topics.exclude = .*[\-\.]internal,.*\.replica,__.*
            west->hub.enabled = true
            west->hub.emit.checkpoints.enabled = false
            west->hub.raymirror.connector.name = west->hub.MirrorSourceConnector
            west->hub.topics.exclude = tmp-.*,.*[\-\.]internal
            emit.heartbeats.enabled = false
        """,
    ),
    Case(
        "strimzi-scram",
        ["strimzi-scram.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9093
            vineyard.ssl.truststore.type = PEM
            vineyard.ssl.truststore.location = SECRETS/vineyard-ca/ca.crt
            vineyard.sasl.mechanism = SCRAM-SHA-256
            vineyard.sasl.jaas.config = SCRAM_LOGIN username="say \"hi\"" password="FROM_SECRET/reader:pw}";
            vineyard.security.protocol = SASL_SSL
            cellar.bootstrap.servers = cellar:9093
            cellar.ssl.truststore.type = PEM
            cellar.ssl.truststore.certificates = FROM_SECRET/cellar-ca:ca.crt}\nFROM_SECRET/root-ca:root.pem}
            cellar.sasl.mechanism = SCRAM-SHA-512
            cellar.sasl.jaas.config = SCRAM_LOGIN username="mirror" password="FROM_SECRET/mirror-user:password}";
            cellar.security.protocol = SASL_SSL
            cellar.group.id = g
            cellar.offset.storage.topic = o
            vineyard->cellar.enabled = true
            vineyard->cellar.topics = harvest
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
    ),
    Case(
        "strimzi-mtls",
        ["strimzi-mtls.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            cellar.bootstrap.servers = cellar:9093
            cellar.ssl.keystore.type = PEM
            cellar.ssl.keystore.location = SECRETS/mirror-cert/user.pem
            cellar.security.protocol = SSL
            cellar.group.id = g
            cellar.offset.storage.topic = o
            vineyard->cellar.enabled = true
            vineyard->cellar.topics = harvest
            vineyard->cellar.tasks.max = 1
            vineyard->cellar.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
    ),
    Case(
        "strimzi-plain",
        ["strimzi-plain.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            vineyard.sasl.mechanism = PLAIN
            vineyard.sasl.jaas.config = PLAIN_LOGIN username="v" password="FROM_SECRET/v-user:key}";
            vineyard.security.protocol = SASL_PLAINTEXT
            cellar.bootstrap.servers = cellar:9092
            cellar.sasl.mechanism = PLAIN
            cellar.sasl.jaas.config = PLAIN_LOGIN username="c" password="FROM_SECRET/c-user:password}";
            cellar.security.protocol = SASL_PLAINTEXT
            cellar.group.id = g
            cellar.offset.storage.topic = o
            vineyard->cellar.enabled = true
            vineyard->cellar.replication.policy.class = io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy
            vineyard->cellar.topics = harvest
            vineyard->cellar.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
    ),
    Case(
        "strimzi-fan-in",
        ["strimzi-fan-in.yaml"],
        settings=r"""
            rome.bootstrap.servers = rome:9092
            hub.bootstrap.servers = hub:9092
            hub.group.id = g
            hub.offset.storage.topic = o
            milan.bootstrap.servers = milan:9092
            rome->hub.enabled = true
            milan->hub.enabled = true
            rome->hub.topics = sales
            rome->hub.tasks.max = 2
            emit.heartbeats.enabled = false
            milan->hub.topics = sales,stock
            milan->hub.topics.exclude = stock-test
            milan->hub.tasks.max = 5
            milan->hub.emit.checkpoints.enabled = false
            rome->hub.raymirror.connector.name = rome->hub.MirrorSourceConnector
            milan->hub.raymirror.connector.name = milan->hub.MirrorSourceConnector
        """,
    ),
    Case(
        "strimzi-everything-else",
        ["strimzi-everything-else.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            cellar.bootstrap.servers = cellar:9092
            cellar.group.id = g
            cellar.offset.storage.topic = o
            vineyard->cellar.enabled = true
            vineyard->cellar.topics = harvest
            vineyard->cellar.tasks.max = 1
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
        lost=(
            "strimzi-everything-else.yaml:13: spec.externalConfiguration",
            "strimzi-everything-else.yaml:11: spec.metricsConfig",
            "strimzi-everything-else.yaml:14: spec.novelty",
            "strimzi-everything-else.yaml:10: spec.rack",
            "strimzi-everything-else.yaml:12: spec.tracing",
            "strimzi-everything-else.yaml:15: spec.target.colour",
            "strimzi-everything-else.yaml:28: spec.mirrors[0].speed",
            "strimzi-everything-else.yaml:23: spec.mirrors[0].sourceConnector.mood",
            "strimzi-everything-else.yaml:20: spec.mirrors[0].sourceConnector.state",
            "strimzi-everything-else.yaml:25: spec.mirrors[0].sourceConnector.config.consumer.interceptor.classes",
        ),
    ),
    Case(
        "strimzi-other-connect-cluster",
        ["strimzi-other-connect-cluster.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            cellar.bootstrap.servers = cellar:9092
            cellar.group.id = inner
            cellar.offset.storage.topic = inner-offsets
            vineyard->cellar.enabled = true
            vineyard->cellar.topics = harvest
            vineyard->cellar.topics.exclude = new
            vineyard->cellar.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
    ),
    Case(
        "strimzi-no-source",
        ["strimzi-no-source.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            cellar.bootstrap.servers = cellar:9092
            cellar.group.id = g
            cellar.offset.storage.topic = o
            vineyard->cellar.enabled = true
            vineyard->cellar.emit.checkpoints.interval.seconds = 15
            vineyard->cellar.topics =
            vineyard->cellar.groups = team
            emit.heartbeats.enabled = false
        """,
        lost=("strimzi-no-source.yaml:8: spec.mirrors[0].checkpointConnector",),
    ),
    Case(
        "strimzi-words",
        ["strimzi-words.yaml"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            cellar.bootstrap.servers = cellar:9092
            cellar.group.id = g
            cellar.offset.storage.topic = o
            vineyard->cellar.enabled = true
            vineyard->cellar.sync.topic.acls.enabled = false
            vineyard->cellar.sync.topic.configs.enabled = true
            vineyard->cellar.refresh.topics.enabled = true
            vineyard->cellar.topics = no
            vineyard->cellar.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
        lost=("strimzi-words.yaml:15: spec.mirrors[0].sourceConnector.config.offset.lag.max",),
    ),
    Case(
        "strimzi-mm1",
        ["strimzi-mm1.yaml"],
        settings=r"""
            ONLY COPIES
            source.ssl.truststore.type = PEM
            source.ssl.truststore.location = SECRETS/vineyard-ca/ca.crt
            source.sasl.mechanism = PLAIN
            source.sasl.jaas.config = PLAIN_LOGIN username="v" password="FROM_SECRET/v-user:pw}";
            source.security.protocol = SASL_SSL
            source->target.enabled = true
            source.bootstrap.servers = vineyard:9093
            target.bootstrap.servers = cellar:9092
            source.consumer.auto.offset.reset = latest
            source->target.replication.policy.class = IDENTITY
            source->target.replication.factor = -1
            source->target.tasks.max = 3
            source->target.topics = harvest|bottles
            target.producer.compression.type = gzip
        """,
        lost=("strimzi-mm1.yaml:9: spec.consumer.groupId",),
    ),
    Case(
        "strimzi-list",
        ["strimzi-list.json"],
        settings=r"""
            vineyard.bootstrap.servers = vineyard:9092
            cellar.bootstrap.servers = cellar:9092
            cellar.group.id = g
            cellar.offset.storage.topic = o
            vineyard->cellar.enabled = true
            vineyard->cellar.replication.factor = 3
            vineyard->cellar.sync.topic.acls.enabled = false
            vineyard->cellar.topics = härvest|\w+
            vineyard->cellar.tasks.max = 2
            vineyard->cellar.emit.checkpoints.enabled = false
            emit.heartbeats.enabled = false
            vineyard->cellar.raymirror.connector.name = vineyard->cellar.MirrorSourceConnector
        """,
    ),
    Case(
        "sink-names",
        ["sink-names.json", "sink-worker.properties"],
        settings=r"""
            ONLY COPIES
            primary->backup.enabled = true
            backup.bootstrap.servers = backup:9092
            backup.security.protocol = SSL
            primary->backup.topics = orders\.eu,orders\.us
            primary->backup.tasks.max = 3
            primary->backup.replication.policy.class = IDENTITY
            primary->backup.source.consumer.fetch.min.bytes = 100
            primary->backup.producer.override.request.timeout.ms = 40000
            primary.bootstrap.servers = primary:9092
            primary.security.protocol = SASL_PLAINTEXT
            primary.sasl.mechanism = PLAIN
            primary.sasl.jaas.config = PLAIN_LOGIN username="c" password="PLANTED-9";
            primary.consumer.client.rack = r1
        """,
        lost=("sink-names.json:1: config",),
    ),
    Case(
        "sink-regex",
        ["sink-regex.json"],
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source.bootstrap.servers = primary:9092
            target.bootstrap.servers = backup:9092
            source->target.topics =
        """,
        lost=(
            "sink-regex.json:5: config.topics.regex",
            "sink-regex.json:1: config",
        ),
    ),
    Case(
        "replicator-plain",
        ["replicator-plain.json"],
        settings=r"""
            ONLY COPIES
            source->target.enabled = true
            source->target.replication.policy.class = IDENTITY
            source->target.topics = orders\.v1,clicks,audit-.*
            source->target.topics.exclude = audit-test,.*heartbeats
            source.bootstrap.servers = src:9092
            source.security.protocol = SASL_PLAINTEXT
            source.sasl.mechanism = PLAIN
            source.sasl.jaas.config = PLAIN_LOGIN username="r" password="PLANTED-10";
            target.bootstrap.servers = dest:9092
            source->target.source.consumer.fetch.max.wait.ms = 50
            source->target.refresh.topics.interval.seconds = 60
            source->target.replication.factor = 3
            source->target.tasks.max = 4
            source->target.sync.group.offsets.enabled = false
        """,
        lost=(
            "replicator-plain.json:1: config",
            "replicator-plain.json:1: config",
        ),
    ),
    Case(
        "replicator-prefix",
        ["replicator-prefix.json"],
        settings=r"""
            dc-1->target.enabled = true
            dc-1->target.topics.exclude =
            dc-1->target.replication.policy.separator = .
            dc-1->target.topics = orders.*
            dc-1.bootstrap.servers = src:9092
            target.bootstrap.servers = dest:9092
            dc-1->target.sync.topic.configs.interval.seconds = 1
            emit.heartbeats.enabled = false
            dc-1->target.heartbeats.replication.enabled = false
            dc-1->target.emit.checkpoints.enabled = false
            dc-1->target.emit.offset-syncs.enabled = false
            dc-1->target.sync.topic.acls.enabled = false
            dc-1->target.replication.factor = -1
            dc-1->target.sync.group.offsets.enabled = true
            dc-1->target.producer.override.linger.ms = 9
            dc-1->target.source.consumer.client.id = me
        """,
        lost=(
            "replicator-prefix.json:5: provenance.header.enable",
            "replicator-prefix.json:1",
        ),
    ),
    Case(
        "replicator-suffix",
        ["replicator-suffix.json"],
        settings=r"""
            source->target.enabled = true
            source->target.topics.exclude =
            source->target.topics =
            source.bootstrap.servers = src:9092
            target.bootstrap.servers = dest:9092
            emit.heartbeats.enabled = false
            source->target.heartbeats.replication.enabled = false
            source->target.emit.checkpoints.enabled = false
            source->target.emit.offset-syncs.enabled = false
            source->target.sync.topic.acls.enabled = false
            source->target.replication.factor = -1
        """,
        lost=(
            "replicator-suffix.json:3: topic.rename.format",
            "replicator-suffix.json:4: value.converter",
            "replicator-suffix.json:4: schema.registry.url",
            "replicator-suffix.json:5: topic.auto.create",
            "replicator-suffix.json:5: topic.timestamp.type",
            "replicator-suffix.json:1",
            "replicator-suffix.json:1",
        ),
    ),
    Case(
        "replicator-nothing",
        ["replicator-nothing.properties"],
        settings=r"""
            source->target.enabled = true
            source->target.topics.exclude =
            source->target.replication.policy.class = IDENTITY
            source->target.topics =
            source.bootstrap.servers = src:9092
            target.bootstrap.servers = dest:9092
            emit.heartbeats.enabled = false
            source->target.heartbeats.replication.enabled = false
            source->target.emit.checkpoints.enabled = false
            source->target.emit.offset-syncs.enabled = false
            source->target.sync.topic.acls.enabled = false
            source->target.replication.factor = -1
        """,
        lost=(
            "replicator-nothing.properties",
            "replicator-nothing.properties",
        ),
    ),
    Case(
        "replicator-files",
        ["replicator-replication.properties", "replicator-consumer.properties", "replicator-producer.properties"],
        settings=r"""
            source->target.enabled = true
            source->target.topics.exclude =
            source->target.replication.policy.class = IDENTITY
            source->target.topics = orders
            source.bootstrap.servers = src:9092
            target.bootstrap.servers = dest:9092
            emit.heartbeats.enabled = false
            source->target.heartbeats.replication.enabled = false
            source->target.emit.checkpoints.enabled = false
            source->target.emit.offset-syncs.enabled = false
            source->target.sync.topic.acls.enabled = false
            source->target.replication.factor = -1
            source->target.sync.group.offsets.enabled = true
            source->target.producer.override.compression.type = snappy
        """,
        lost=("replicator-replication.properties",),
    ),
    Case(
        "ureplicator",
        [
            "ureplicator-clusters.properties",
            "ureplicator-consumer.properties",
            "ureplicator-producer.properties",
            "ureplicator-helix.properties",
            "ureplicator-topicmapping.properties",
        ],
        options=Options(source_alias="sjc", target_alias="dca", whitelist="trips.raw|riders"),
        settings=r"""
            ONLY COPIES
            sjc->dca.enabled = true
            sjc.bootstrap.servers = sjc-1:9092,sjc-2:9092
            dca.bootstrap.servers = dca-1:9092
            sjc.consumer.max.partition.fetch.bytes = 8388608
            sjc.consumer.auto.offset.reset = latest
            sjc->dca.replication.policy.class = IDENTITY
            sjc->dca.replication.factor = -1
            sjc->dca.topics = trips.raw|riders
            sjc->dca.topics.exclude = trips\.raw
            dca.producer.client.id = ureplicator-sjc-dca
        """,
        lost=(
            "ureplicator-consumer.properties:3: group.id",
            "ureplicator-topicmapping.properties:1: trips.raw",
        ),
    ),
    Case(
        "ureplicator-clusters",
        ["ureplicator-clusters.properties"],
        options=Options(source_alias="sjc", target_alias="dca"),
        settings=r"""
            ONLY COPIES
            sjc->dca.enabled = true
            sjc.bootstrap.servers = sjc-1:9092,sjc-2:9092
            dca.bootstrap.servers = dca-1:9092
            sjc.consumer.auto.offset.reset = latest
            sjc->dca.replication.policy.class = IDENTITY
            sjc->dca.replication.factor = -1
            sjc->dca.topics =
            sjc->dca.topics.exclude = .*heartbeats
        """,
        lost=(
            "ureplicator-clusters.properties",
            "ureplicator-clusters.properties",
        ),
    ),
    Case(
        "mm2",
        ["mm2.properties"],
        settings=r"""
            left.bootstrap.servers = l1:9092, l2:9092
            right.bootstrap.servers = r1:9092
            left->right.enabled = true
            left->right.topics = orders\..*
            right->left.enabled = false
            right->left.topics = nothing
            replication.factor = 1
            checkpoints.topic.replication.factor = 1
            offset.storage.replication.factor = 1
            sync.topic.acls.enabled = false
            left.consumer.isolation.level = read_committed
        """,
    ),
    Case(
        "mm2-secured",
        ["mm2-secured.properties"],
        settings=r"""
            bootstrap.servers = both:9092
            security.protocol = SASL_SSL
            sasl.mechanism = SCRAM-SHA-512
            sasl.jaas.config = SCRAM_LOGIN username="m" password="${directory:/run/secrets:mm2}";
            left->right.enabled = true
            topics = (?i)orders
            topics.exclude = secret
            right.group.id = mm2-workers
            left->right.topics =
        """,
        lost=(
            "mm2-secured.properties:11: left.topics",
            "mm2-secured.properties:12: left->right.transforms",
        ),
    ),
)
