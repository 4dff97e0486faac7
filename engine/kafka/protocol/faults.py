"""Kafka's error codes, and what each means to a lane: the only such map, total over every code a broker may send."""

from aiokafka.errors import for_code

from engine.core.lane.outcome import UNAUTHORIZED, OutcomeKind

_BEFORE_APPEND = (14, 15, 16, 19, 38, 41, 51, 84, 89, 94, 113)
"""Retriable, and certainly not in the log.

19: `Partition.appendRecordsToLeader` counts the in-sync replicas before it appends. 14, 15, 16, 51: the check of the
transaction (`ReplicaManager.handleProduceAppend`, which makes most of them a 19) comes before the append. The others
belong to requests that append nothing; no broker is known to answer an append with them.
"""
_PERHAPS_APPENDED = (-1, 3, 5, 6, 7, 9, 13, 20, 56, 74, 75, 100, 103)
"""Retriable, and perhaps in the log, because these also come behind the local append while it waits for its followers.

`DelayedProduce.tryComplete` asks for the partition again and passes on what it finds: 6 (`Partition.
checkEnoughReplicasReachOffset`: the leadership moved), 3 or 6 (`ReplicaManager.getPartitionOrError`: the broker holds
the partition no more; 9 in the same place of older ones), 56 (its log directory went offline), 20 (in the log, with too
few replicas), 7 (the followers needed longer than the request allows). 56 also comes from `UnifiedLog.append` itself,
whose flush comes behind the write, and -1 stands for whatever was thrown in between. 5, 74, 75, 100 and 103 say, as 6
does, that somebody else may lead by now: Kafka sends them before the append, if at all, but nothing promises it, and to
ask the log costs little. 100 and 103 (topic id unknown, inconsistent) also come from a broker that has not heard of a
new topic yet: whether the topic was re-created is for the next metadata to say.

Kafka's base offset tells the two apart for 3 and 6 (-1: nothing was appended); other brokers promise no such thing.
"""
_ORDER = (45, 46, 59)
_TOO_LARGE = (10, 18)
_FENCED = (47, 48, 49, 90)
# 48 and 49 (no such transaction, no such producer): the coordinator has ended the lane's transaction without us.

_APPEND_KINDS: dict[int, OutcomeKind] = {
    **dict.fromkeys(_BEFORE_APPEND, OutcomeKind.RETRY),
    **dict.fromkeys(_PERHAPS_APPENDED, OutcomeKind.UNKNOWN),
    **dict.fromkeys(_ORDER, OutcomeKind.ORDER),
    **dict.fromkeys(_TOO_LARGE, OutcomeKind.TOO_LARGE),
    **dict.fromkeys(_FENCED, OutcomeKind.FENCED),
    0: OutcomeKind.APPENDED,
}

NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER = 6
CONCURRENT_TRANSACTIONS = 51
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
OPERATION_NOT_ATTEMPTED = 55
FETCH_RETRY = frozenset({3, 5, 6, 7, 9, 13, 56, 74, 75, 78, 94, 100, 103, -1})
"""Fetch errors after which the leader is looked up again."""
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
    """Classify the error code of an append; every code that is not known as something else is a refusal."""
    return _APPEND_KINDS.get(error_code, OutcomeKind.REFUSED)


def error_name(error_code: int) -> str:
    """Return the name of an error code as aiokafka has it, without its suffix, e.g. `MessageSizeTooLarge`."""
    if error_code in _NEWER:
        return _NEWER[error_code]
    return str(for_code(error_code).__name__).removesuffix("Error")
