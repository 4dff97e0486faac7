"""The table of the settings of MM2's connector classes, as Kafka 4.3.1's own classes define them.

One line is one setting: name, type, default (`!`: none, it is required; `-`: null), importance, limit, and for those of
Connect itself group, order, width and display name. tests/contract/test_mm2_validate.py compares it with the classes.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final

import msgspec

from actors.rest.connectors import ConnectorKind
from actors.rest.definitions.documents import document_of
from actors.rest.entities import KeyDefinition


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `limit`: a word that names a check in `judging`, then its values."""

    name: str
    type: str
    default: str | None
    importance: str
    limit: str
    is_required: bool
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    display_name: str = ""

    def definition(self) -> KeyDefinition:
        """Return the setting as Connect shows it."""
        return KeyDefinition(
            name=self.name,
            type=self.type,
            required=self.is_required,
            default_value=self.default,
            importance=self.importance,
            documentation=document_of(self.name),
            group=self.group,
            order_in_group=self.order,
            width=self.width,
            display_name=self.display_name or self.name,
        )


_CONNECT: Final = """\
name|STRING|!|HIGH|name|Common|1|MEDIUM|Connector name
connector.class|STRING|!|HIGH||Common|2|LONG|Connector class
connector.plugin.version|STRING|-|MEDIUM||Common|3|MEDIUM|Connector version
tasks.max|INT|1|HIGH|range:1,|Common|4|SHORT|Tasks max
tasks.max.enforce|BOOLEAN|true|LOW||Common|5|SHORT|Enforce tasks max
key.converter|CLASS|-|LOW||Common|6|SHORT|Key converter class
key.converter.plugin.version|STRING|-|LOW||Common|7|SHORT|Key converter version
value.converter|CLASS|-|LOW||Common|8|SHORT|Value converter class
value.converter.plugin.version|STRING|-|LOW||Common|9|SHORT|Value converter version
header.converter|CLASS|-|LOW||Common|10|SHORT|Header converter class
header.converter.plugin.version|STRING|-|LOW||Common|11|SHORT|Header converter version
transforms|LIST||LOW|aliases|Transforms|12|LONG|Transforms
predicates|LIST||LOW|aliases|Predicates|13|LONG|Predicates
config.action.reload|STRING|restart|LOW|in:none,restart|Common|14|MEDIUM|Reload Action
errors.retry.timeout|LONG|0|MEDIUM||Error Handling|1|MEDIUM|Retry Timeout for Errors
errors.retry.delay.max.ms|LONG|60000|MEDIUM||Error Handling|2|MEDIUM|Maximum Delay Between Retries for Errors
errors.tolerance|STRING|none|MEDIUM|in:none,all|Error Handling|3|SHORT|Error Tolerance
errors.log.enable|BOOLEAN|false|MEDIUM||Error Handling|4|SHORT|Log Errors
errors.log.include.messages|BOOLEAN|false|MEDIUM||Error Handling|5|SHORT|Log Error Details
topic.creation.groups|LIST||LOW|aliases|Topic Creation|1|LONG|Topic Creation Groups
exactly.once.support|STRING|requested|MEDIUM|in_any_case:REQUIRED,\
REQUESTED|Exactly Once Support|2|SHORT|Exactly once support
transaction.boundary|STRING|poll|MEDIUM|in_any_case:INTERVAL,POLL,\
CONNECTOR|Exactly Once Support|3|SHORT|Transaction Boundary
transaction.boundary.interval.ms|LONG|-|LOW|range_or_null:0,\
|Exactly Once Support|4|SHORT|Transaction boundary interval
offsets.storage.topic|STRING|-|LOW|not_empty|offsets.topic|1|LONG|Offsets topic
"""
"""ConnectorConfig and SourceConnectorConfig, with group, order, width and display name."""
_MIRROR: Final = """\
enabled|BOOLEAN|true|LOW|
source.cluster.alias|STRING|!|HIGH|
target.cluster.alias|STRING|target|HIGH|
admin.timeout.ms|LONG|60000|LOW|
replication.policy.class|CLASS|org.apache.kafka.connect.mirror.DefaultReplicationPolicy|LOW|
replication.policy.separator|STRING|.|LOW|
replication.policy.internal.topic.separator.enabled|BOOLEAN|true|LOW|
forwarding.admin.class|CLASS|org.apache.kafka.clients.admin.ForwardingAdmin|LOW|
metric.reporters|LIST|org.apache.kafka.common.metrics.JmxReporter|LOW|list:
security.protocol|STRING|PLAINTEXT|MEDIUM|in_any_case:SASL_SSL,PLAINTEXT,SSL,SASL_PLAINTEXT
config.providers|LIST||LOW|list:
ssl.protocol|STRING|TLSv1.3|MEDIUM|
ssl.provider|STRING|-|MEDIUM|
ssl.cipher.suites|LIST||LOW|list:
ssl.enabled.protocols|LIST|TLSv1.2,TLSv1.3|MEDIUM|list:
ssl.keystore.type|STRING|JKS|MEDIUM|
ssl.keystore.location|STRING|-|HIGH|
ssl.keystore.password|PASSWORD|-|HIGH|
ssl.key.password|PASSWORD|-|HIGH|
ssl.keystore.key|PASSWORD|-|HIGH|
ssl.keystore.certificate.chain|PASSWORD|-|HIGH|
ssl.truststore.certificates|PASSWORD|-|HIGH|
ssl.truststore.type|STRING|JKS|MEDIUM|
ssl.truststore.location|STRING|-|HIGH|
ssl.truststore.password|PASSWORD|-|HIGH|
ssl.keymanager.algorithm|STRING|SunX509|LOW|
ssl.trustmanager.algorithm|STRING|PKIX|LOW|
ssl.endpoint.identification.algorithm|STRING|https|LOW|
ssl.secure.random.implementation|STRING|-|LOW|
ssl.engine.factory.class|CLASS|-|LOW|
sasl.kerberos.service.name|STRING|-|MEDIUM|
sasl.kerberos.kinit.cmd|STRING|/usr/bin/kinit|LOW|
sasl.kerberos.ticket.renew.window.factor|DOUBLE|0.8|LOW|
sasl.kerberos.ticket.renew.jitter|DOUBLE|0.05|LOW|
sasl.kerberos.min.time.before.relogin|LONG|60000|LOW|
sasl.login.refresh.window.factor|DOUBLE|0.8|LOW|range:0.5,1.0
sasl.login.refresh.window.jitter|DOUBLE|0.05|LOW|range:0.0,0.25
sasl.login.refresh.min.period.seconds|SHORT|60|LOW|range:0,900
sasl.login.refresh.buffer.seconds|SHORT|300|LOW|range:0,3600
sasl.mechanism|STRING|GSSAPI|MEDIUM|
sasl.jaas.config|PASSWORD|-|MEDIUM|
sasl.client.callback.handler.class|CLASS|-|MEDIUM|
sasl.login.callback.handler.class|CLASS|-|MEDIUM|
sasl.login.class|CLASS|-|MEDIUM|
sasl.login.connect.timeout.ms|INT|-|LOW|
sasl.login.read.timeout.ms|INT|-|LOW|
sasl.login.retry.backoff.max.ms|LONG|10000|LOW|
sasl.login.retry.backoff.ms|LONG|100|LOW|
sasl.oauthbearer.jwt.retriever.class|CLASS|org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever|MEDIUM|
sasl.oauthbearer.jwt.validator.class|CLASS|org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator|MEDIUM|
sasl.oauthbearer.scope|STRING|-|MEDIUM|
sasl.oauthbearer.client.credentials.client.id|STRING|-|MEDIUM|
sasl.oauthbearer.client.credentials.client.secret|PASSWORD|-|MEDIUM|
sasl.oauthbearer.assertion.algorithm|STRING|RS256|MEDIUM|in_any_case:ES256,RS256
sasl.oauthbearer.assertion.claim.aud|STRING|-|MEDIUM|
sasl.oauthbearer.assertion.claim.exp.seconds|INT|300|LOW|range:0,86400
sasl.oauthbearer.assertion.claim.iss|STRING|-|MEDIUM|
sasl.oauthbearer.assertion.claim.jti.include|BOOLEAN|false|MEDIUM|
sasl.oauthbearer.assertion.claim.nbf.seconds|INT|60|LOW|range:0,3600
sasl.oauthbearer.assertion.claim.sub|STRING|-|MEDIUM|
sasl.oauthbearer.assertion.file|STRING|-|MEDIUM|
sasl.oauthbearer.assertion.private.key.file|STRING|-|MEDIUM|
sasl.oauthbearer.assertion.private.key.passphrase|PASSWORD|-|MEDIUM|
sasl.oauthbearer.assertion.template.file|STRING|-|MEDIUM|
sasl.oauthbearer.scope.claim.name|STRING|scope|LOW|
sasl.oauthbearer.sub.claim.name|STRING|sub|LOW|
sasl.oauthbearer.token.endpoint.url|STRING|-|MEDIUM|
sasl.oauthbearer.jwks.endpoint.url|STRING|-|MEDIUM|
sasl.oauthbearer.jwks.endpoint.refresh.ms|LONG|3600000|LOW|
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms|LONG|10000|LOW|
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms|LONG|100|LOW|
sasl.oauthbearer.clock.skew.seconds|INT|30|LOW|
sasl.oauthbearer.expected.audience|LIST||HIGH|list:
sasl.oauthbearer.expected.issuer|STRING|-|HIGH|
sasl.oauthbearer.header.urlencode|BOOLEAN|false|LOW|
"""
"""MirrorConnectorConfig: of all three classes."""
_SOURCE: Final = """\
topics|LIST|.*|HIGH|list:
topics.exclude|LIST|mm2.*\\.internal,.*\\.replica,__.*|HIGH|list:
config.properties.exclude|LIST|follower.replication.throttled.replicas,leader.replication.throttled.replicas,\
message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,log.message.timestamp.after.max.ms,\
message.timestamp.type,unclean.leader.election.enable,min.insync.replicas|HIGH|list:
topic.filter.class|CLASS|org.apache.kafka.connect.mirror.DefaultTopicFilter|LOW|
config.property.filter.class|CLASS|org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter|LOW|
consumer.poll.timeout.ms|LONG|1000|LOW|
refresh.topics.enabled|BOOLEAN|true|LOW|
refresh.topics.interval.seconds|LONG|600|LOW|
sync.topic.configs.enabled|BOOLEAN|true|LOW|
sync.topic.configs.interval.seconds|LONG|600|LOW|
sync.topic.acls.enabled|BOOLEAN|true|LOW|
sync.topic.acls.interval.seconds|LONG|600|LOW|
replication.factor|INT|2|LOW|
offset-syncs.topic.replication.factor|SHORT|3|LOW|
offset.lag.max|LONG|100|LOW|
offset-syncs.topic.location|STRING|source|LOW|in:source,target
emit.offset-syncs.enabled|BOOLEAN|true|LOW|
heartbeats.replication.enabled|BOOLEAN|true|LOW|
metric.names.formats|LIST|legacy|LOW|list:legacy,new
"""
"""MirrorSourceConfig."""
_CHECKPOINT: Final = """\
consumer.poll.timeout.ms|LONG|1000|LOW|
groups|LIST|.*|HIGH|list:
groups.exclude|LIST|console-consumer-.*,connect-.*,__.*|HIGH|list:
group.filter.class|CLASS|org.apache.kafka.connect.mirror.DefaultGroupFilter|LOW|
refresh.groups.enabled|BOOLEAN|true|LOW|
refresh.groups.interval.seconds|LONG|600|LOW|
emit.checkpoints.enabled|BOOLEAN|true|LOW|
emit.checkpoints.interval.seconds|LONG|60|LOW|
sync.group.offsets.enabled|BOOLEAN|false|LOW|
sync.group.offsets.interval.seconds|LONG|60|LOW|
checkpoints.topic.replication.factor|SHORT|3|LOW|
offset-syncs.topic.location|STRING|source|LOW|in:source,target
topic.filter.class|CLASS|org.apache.kafka.connect.mirror.DefaultTopicFilter|LOW|
metric.names.formats|LIST|legacy|LOW|list:legacy,new
"""
"""MirrorCheckpointConfig."""
_HEARTBEAT: Final = """\
emit.heartbeats.enabled|BOOLEAN|true|LOW|
emit.heartbeats.interval.seconds|LONG|1|LOW|
heartbeats.topic.replication.factor|SHORT|3|LOW|
"""
"""MirrorHeartbeatConfig."""

_OF_CONNECTORS: Final = 19
"""How many of Connect's settings MM2's classes repeat: those of ConnectorConfig, the first ones."""


@cache
def rows_of(kind: ConnectorKind) -> tuple[KeyRow, ...]:
    """Return the settings of a class in the order in which Connect validates them: Connect's own first."""
    own = {
        ConnectorKind.SOURCE: _SOURCE,
        ConnectorKind.CHECKPOINT: _CHECKPOINT,
        ConnectorKind.HEARTBEAT: _HEARTBEAT,
    }[kind]
    return tuple(_read(line) for text in (_CONNECT, _MIRROR, own) for line in text.splitlines())


def rows_by_class(kind: ConnectorKind) -> tuple[KeyRow, ...]:
    """Return the settings in the order in which Connect lists them: what only Connect defines is last."""
    rows, connect = rows_of(kind), len(_CONNECT.splitlines())
    return (*rows[:_OF_CONNECTORS], *rows[connect:], *rows[_OF_CONNECTORS:connect])


def only_of_connect(kind: ConnectorKind) -> frozenset[str]:
    """Return the names of the settings that the class itself does not define."""
    return frozenset(row.name for row in rows_of(kind)[_OF_CONNECTORS : len(_CONNECT.splitlines())])


def groups_of(rows: Iterable[KeyRow]) -> tuple[str, ...]:
    """Return the groups of settings, each once, in their order."""
    return tuple(dict.fromkeys(row.group for row in rows if row.group is not None))


def _read(line: str) -> KeyRow:
    name, kind, default, importance, limit, *form = line.split("|")
    group, order, width, display_name = form or (None, -1, "NONE", "")
    return KeyRow(
        name=name,
        type=kind,
        default=None if default in ("!", "-") else default,
        importance=importance,
        limit=limit,
        is_required=default == "!",
        group=group,
        order=int(order),
        width=width,
        display_name=display_name,
    )
