"""Every request that raymirror sends to a broker, with the rights that the broker asks for.

Source: Kafka's KafkaApis, ControllerApis, AclApis and ConfigHelper, one handler per request. A test compares the table
with the requests in the code; another one lets a mirror run with no other rights.
"""

import msgspec

from policies.grants.rights import ResourceKind
from policies.sync.acl_sync import Operation

_TOPIC, _GROUP, _CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
_ID = ResourceKind.TRANSACTIONAL_ID
_READ, _WRITE, _CREATE, _ALTER = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.ALTER
_DESCRIBE, _DELETE = Operation.DESCRIBE, Operation.DELETE
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

Needs = tuple[tuple[Operation, ResourceKind], ...]


class SentRequest(msgspec.Struct, frozen=True):
    """A request by Kafka's name and API key; `needs`: operation and type of resource, all of them; none: anybody."""

    name: str
    api_key: int
    needs: Needs
    remark: str = ""

    def on(self, kind: ResourceKind) -> tuple[Operation, ...]:
        """Return the operations that it needs on resources of one type."""
        return tuple(operation for operation, found in self.needs if found is kind)


def _row(name: str, api_key: int, *needs: tuple[Operation, ResourceKind], remark: str = "") -> SentRequest:
    return SentRequest(name, api_key, needs, remark)


REQUESTS = (
    _row(
        "Produce",
        0,
        (_WRITE, _TOPIC),
        remark="in a transaction: Write on its id; before Kafka 2.8: IdempotentWrite on the cluster",
    ),
    _row("Fetch", 1, (_READ, _TOPIC)),
    _row("ListOffsets", 2, (_DESCRIBE, _TOPIC)),
    _row("Metadata", 3, (_DESCRIBE, _TOPIC), remark="a topic without this right looks as if it did not exist"),
    _row("OffsetCommit", 8, (_READ, _GROUP), (_READ, _TOPIC)),
    _row("OffsetFetch", 9, (_DESCRIBE, _GROUP), (_DESCRIBE, _TOPIC)),
    _row("FindCoordinator", 10, (_DESCRIBE, _GROUP), (_DESCRIBE, _ID), remark="on what it asks for: a group or an id"),
    _row("DescribeGroups", 15, (_DESCRIBE, _GROUP)),
    _row("ListGroups", 16, (_DESCRIBE, _GROUP), remark="or Describe on the cluster; groups without it are left out"),
    _row("SaslHandshake", 17),
    _row("ApiVersions", 18),
    _row("CreateTopics", 19, (_CREATE, _TOPIC), remark="or Create on the cluster"),
    _row("DeleteTopics", 20, (_DELETE, _TOPIC)),
    _row(
        "InitProducerId",
        22,
        (_WRITE, _ID),
        remark="without an id: Write on any topic, before Kafka 2.8 IdempotentWrite on the cluster",
    ),
    _row("OffsetForLeaderEpoch", 23, (_DESCRIBE, _TOPIC)),
    _row("AddPartitionsToTxn", 24, (_WRITE, _ID), (_WRITE, _TOPIC)),
    _row("EndTxn", 26, (_WRITE, _ID)),
    _row("DescribeAcls", 29, (_DESCRIBE, _CLUSTER)),
    _row("CreateAcls", 30, (_ALTER, _CLUSTER)),
    _row("DeleteAcls", 31, (_ALTER, _CLUSTER)),
    _row(
        "DescribeConfigs",
        32,
        (_DESCRIBE_CONFIGS, _TOPIC),
        (_DESCRIBE_CONFIGS, _CLUSTER),
        remark="on the cluster for the configs of brokers",
    ),
    _row("AlterConfigs", 33, (_ALTER_CONFIGS, _TOPIC), remark="only of brokers without IncrementalAlterConfigs"),
    _row("DescribeLogDirs", 35, (_DESCRIBE, _CLUSTER)),
    _row("SaslAuthenticate", 36),
    _row("CreatePartitions", 37, (_ALTER, _TOPIC)),
    _row("DeleteGroups", 42, (_DELETE, _GROUP)),
    _row("IncrementalAlterConfigs", 44, (_ALTER_CONFIGS, _TOPIC)),
    _row("DescribeClientQuotas", 48, (_DESCRIBE_CONFIGS, _CLUSTER)),
    _row("DescribeUserScramCredentials", 50, (_DESCRIBE, _CLUSTER)),
    _row("DescribeProducers", 61, (_READ, _TOPIC)),
    _row("DescribeTransactions", 65, (_DESCRIBE, _ID)),
    _row(
        "ConsumerGroupDescribe",
        69,
        (_DESCRIBE, _GROUP),
        remark="from Kafka 4.0 on also Describe on every topic that the group's members read",
    ),
    _row(
        "DescribeShareGroupOffsets",
        90,
        (_DESCRIBE, _GROUP),
        (_DESCRIBE, _TOPIC),
        remark="topics without this right are left out",
    ),
)

BY_NAME = {one.name: one for one in REQUESTS}
BY_KEY = {one.api_key: one for one in REQUESTS}
