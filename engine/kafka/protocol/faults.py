"""Maps every error code that a broker may send to its meaning for a lane; the only such map."""

from aiokafka.errors import for_code

from engine.core.lane.outcome import UNAUTHORIZED, OutcomeKind

_BEFORE_APPEND = (14, 15, 16, 19, 38, 41, 51, 84, 89, 94, 113)
"""Retriable, and the batch is certainly not in the log.

19: `Partition.appendRecordsToLeader` counts the in-sync replicas before it appends. 14, 15, 16, 51: the check of the
transaction (`ReplicaManager.handleProduceAppend`, which makes most of them a 19) comes before the append. The others
belong to requests that append nothing; as far as we know, no broker answers an append with them.
"""
_PERHAPS_APPENDED = (-1, 3, 5, 6, 7, 9, 13, 20, 56, 74, 75, 100, 103)
"""Retriable, but the batch may be in the log: they also come after the local append, while it waits for followers.

`DelayedProduce.tryComplete` looks up the partition again and passes on its error: 6 (`Partition.
checkEnoughReplicasReachOffset`: the leadership moved), 3 or 6 (`ReplicaManager.getPartitionOrError`: the broker holds
the partition no more; 9 in the same place of older ones), 56 (its log directory went offline), 20 (in the log, with too
few replicas), 7 (the followers needed longer than the request allows). 56 also comes from `UnifiedLog.append` itself,
which flushes after the write, and -1 stands for any exception in between. 5, 74, 75, 100 and 103 say, as 6 does, that
another broker may lead by now. Kafka sends them only before the append, if at all, but does not guarantee that, and
reading the log costs little. 100 and 103 (topic id unknown, inconsistent) also come from a broker that has not learned
of a new topic yet: the next metadata show whether the topic was created again.

For 3 and 6, Kafka's base offset shows which case it is (-1: nothing was appended); other brokers do not promise that.
"""
_ORDER = (45, 46, 59)
_TOO_LARGE = (10, 18)
_FENCED = (47, 48, 49, 90)
# 48 and 49 (no such transaction, no such producer): the coordinator itself has ended the lane's transaction.

_APPEND_KINDS: dict[int, OutcomeKind] = {
    **dict.fromkeys(_BEFORE_APPEND, OutcomeKind.RETRY),
    **dict.fromkeys(_PERHAPS_APPENDED, OutcomeKind.UNKNOWN),
    **dict.fromkeys(_ORDER, OutcomeKind.ORDER),
    **dict.fromkeys(_TOO_LARGE, OutcomeKind.TOO_LARGE),
    **dict.fromkeys(_FENCED, OutcomeKind.FENCED),
    0: OutcomeKind.APPENDED,
}

UNKNOWN_SERVER_ERROR = -1
NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER = 6
REQUEST_TIMED_OUT = 7
CONCURRENT_TRANSACTIONS = 51
UNSUPPORTED_VERSION = 35
"""A broker does not know a request, a version of it, or what it asks for."""
UNKNOWN_TOPIC_ID = 100
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
NOT_CONTROLLER = 41
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
OPERATION_NOT_ATTEMPTED = 55
THROTTLING_QUOTA_EXCEEDED = 89
FETCH_RETRY = frozenset({3, 5, 6, 7, 9, 13, 56, 74, 75, 78, 94, 100, 103, -1})
"""Fetch errors after which the leader is looked up again."""
CONTROLLER_RETRY = frozenset({REQUEST_TIMED_OUT, NOT_CONTROLLER, THROTTLING_QUOTA_EXCEEDED})
"""Errors of changes of topics after which the same request may succeed.

The first: the change took too long, and may happen still. The second: another broker is the controller (KIP-599 has
the third).
"""
VALUE_REFUSED = frozenset({INVALID_CONFIG, 42, 44})
"""Errors of changes of configs that are about a name or a value: invalid config, invalid request, policy violation.

The second comes from controllers with ZooKeeper (ZkAdminManager.incrementalAlterConfigs).
"""
COORDINATOR_RETRY = frozenset({7, 13, 14, 15, 16, 51, -1})
AUTHORIZATION = UNAUTHORIZED
_NEWER = {
    74: "FencedLeaderEpoch",
    75: "UnknownLeaderEpoch",
    76: "UnsupportedCompressionType",
    78: "OffsetNotAvailable",
    87: "InvalidRecord",
    89: "ThrottlingQuotaExceeded",
    90: "ProducerFenced",
    100: "UnknownTopicId",
    103: "InconsistentTopicId",
    105: "TransactionalIdNotFound",
}
"""Codes that aiokafka 0.14 does not name."""


def append_kind(error_code: int) -> OutcomeKind:
    """Classify the error code of an append; every other code is a refusal."""
    return _APPEND_KINDS.get(error_code, OutcomeKind.REFUSED)


def error_name(error_code: int) -> str:
    """Return the name of an error code as aiokafka has it, without its suffix, e.g. `MessageSizeTooLarge`."""
    if error_code in _NEWER:
        return _NEWER[error_code]
    return str(for_code(error_code).__name__).removesuffix("Error")
