"""Classifies the outcome of an append, and decides the lane's recovery action after a failed one."""

import enum

import msgspec

OUT_OF_ORDER = 45
"""The sequence of a batch does not follow that of the producer's last batch (Kafka: OUT_OF_ORDER_SEQUENCE_NUMBER)."""


RECORD_REFUSED = frozenset({32, 87})
"""The target refuses a record of the batch (Kafka: INVALID_TIMESTAMP, INVALID_RECORD)."""


REFUSED_FOR_GOOD = RECORD_REFUSED | {10, 18, 44}
"""The target refuses a record for what it is: also for its size (Kafka: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE) or by
a policy (POLICY_VIOLATION). Other refusals are about the topic or about rights: they concern all of its records."""


class OutcomeKind(enum.Enum):
    """The classes of answers; `engine/kafka/protocol/faults.py` maps every Kafka error code to one of them."""

    APPENDED = "appended"
    RETRY = "retry"
    """Certainly not appended, worth a retry: too few replicas, transaction not yet verified, throttled."""
    UNKNOWN = "unknown"
    """Possibly appended: timeout, lost connection, too few replicas after the append, leader moved before or after."""
    ORDER = "order"
    """Errors 45, 46, 59: neither loss nor success is certain; only the log itself shows it."""
    TOO_LARGE = "too large"
    REFUSED = "refused"
    FENCED = "fenced"
    """Errors 47, 90: a newer owner has the producer id, or the broker does not know this producer epoch; 48, 49: the
    broker does not know this transaction."""


UNAUTHORIZED = frozenset({29, 30, 31, 53})
"""Error codes of a missing permission, which an administrator can grant and revoke at any time: ACLs of topic, group,
cluster and transactional id (Kafka: `Errors`)."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """One answer; `record_index` is the refused record's index in its batch, -1 if the broker did not say.

    `record_indexes`: the indexes of all refused records that the broker named (Kafka: LogValidator names all of them).
    """

    kind: OutcomeKind
    base_offset: int = -1
    error_code: int = 0
    message: str = ""
    record_index: int = -1
    record_indexes: tuple[int, ...] = ()


UNKNOWN_OUTCOME = Outcome(OutcomeKind.UNKNOWN, message="connection lost")

DEFINITE = frozenset(
    {OutcomeKind.RETRY, OutcomeKind.ORDER, OutcomeKind.TOO_LARGE, OutcomeKind.REFUSED, OutcomeKind.FENCED}
)
"""Answers that prove that this request appended nothing (also ORDER: the broker refused the request at once)."""


class RecoveryAction(enum.Enum):
    """What to do when every batch in flight has its outcome and the first one was not appended."""

    RESEND = "resend"
    SETTLE = "settle"
    SPLIT = "split"
    REFUSE = "refuse"
    REACQUIRE = "reacquire"


_REMEDIES = {
    OutcomeKind.RETRY: RecoveryAction.RESEND,
    OutcomeKind.UNKNOWN: RecoveryAction.RESEND,
    OutcomeKind.ORDER: RecoveryAction.SETTLE,
    OutcomeKind.TOO_LARGE: RecoveryAction.SPLIT,
    OutcomeKind.REFUSED: RecoveryAction.REFUSE,
    OutcomeKind.FENCED: RecoveryAction.REACQUIRE,
}


def recovery_action(
    outcomes: list[Outcome], *, forgotten: bool = False, unsure: bool = False, wide: bool = False
) -> RecoveryAction:
    """Decide for a whole window, first outcome first; the first is never APPENDED.

    If a later batch was appended, then the first one was appended too, or the log is not in the lane's order. In both
    cases the lane must read the log. It must also read the log after a refusal with later batches of unknown outcome,
    and after a refusal of a batch that was `unsure`: an earlier try of that batch may have been appended, because a
    broker checks sizes and contents before it checks for duplicates (UnifiedLog.append).

    `wide`: the log may hold a batch behind the fifth. A leader remembers the last five batches of a producer, so it
    refuses a repeat of an earlier one, and the batches would stay in memory until each had its turn. A new epoch
    shows what the log holds, and the rest is fetched again.

    `forgotten`: a batch is so old that the broker may have forgotten its producer. The broker takes a producer's age
    from the newest timestamp in the producer's last batch (ProducerStateEntry, `producer.id.expiration.ms`). So after
    such a batch it may know neither the sequence nor the epoch, and a resend could put the batch into the log twice. A
    new epoch with its barrier settles that.
    """
    first, later = outcomes[0], outcomes[1:]
    unknown = any(outcome.kind is OutcomeKind.UNKNOWN for outcome in outcomes)
    if first.kind is OutcomeKind.FENCED or wide or (forgotten and unknown):
        return RecoveryAction.REACQUIRE
    if any(outcome.kind is OutcomeKind.APPENDED for outcome in later):
        return RecoveryAction.SETTLE
    answer = _REMEDIES[first.kind]
    if answer in (RecoveryAction.SPLIT, RecoveryAction.REFUSE) and (
        unsure or any(one.kind not in DEFINITE for one in later)
    ):
        return RecoveryAction.SETTLE
    return answer
