"""The outcome of one append: a target broker's answer, reduced to what the lane must do about it."""

import enum

import msgspec


class OutcomeKind(enum.Enum):
    """The classes of answers; `engine/kafka/protocol/faults.py` maps every Kafka error code to one of them."""

    APPENDED = "appended"
    RETRY = "retry"
    """Certainly not appended, worth a retry: too few replicas, transaction not yet verified, throttled."""
    UNKNOWN = "unknown"
    """Perhaps appended: timeout, lost connection, too few replicas after the append, leader moved before or after."""
    ORDER = "order"
    """Errors 45, 46, 59: neither loss nor success is certain; only the log itself shows it."""
    TOO_LARGE = "too large"
    REFUSED = "refused"
    FENCED = "fenced"
    """Errors 47, 90: a newer owner has the producer id, or the broker does not know our epoch; 48, 49: it does not
    know our transaction."""


UNAUTHORIZED = frozenset({29, 30, 31, 53})
"""Error codes of a missing right, which an administrator can grant and revoke at any time: ACLs of topic, group,
cluster and transactional id (Kafka: `Errors`)."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """One answer; `record_index` is the refused record's index in its batch, 0 if the broker did not say."""

    kind: OutcomeKind
    base_offset: int = -1
    error_code: int = 0
    message: str = ""
    record_index: int = 0


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


def recovery_action(outcomes: list[Outcome], *, forgotten: bool = False, unsure: bool = False) -> RecoveryAction:
    """Decide for a whole window, first outcome first; the first is never APPENDED.

    A later batch that was appended proves that the first one was appended too, or that the log is not in our order.
    Both cases need a look at the log. Two more cases need it: a refusal with later batches of unknown outcome, and a
    refusal of a batch that was `unsure`. An earlier try of such a batch may have been appended, because a broker checks
    sizes and contents before it checks for duplicates (UnifiedLog.append).

    `forgotten`: a batch is older than the broker remembers producers. The broker takes a producer's age from the newest
    timestamp in the producer's last batch (ProducerStateEntry, `producer.id.expiration.ms`). So after such a batch it
    may know neither our sequence nor our epoch, and a batch that is sent again could be in the log twice. A new epoch
    with its barrier settles that.
    """
    first, later = outcomes[0], outcomes[1:]
    unknown = any(outcome.kind is OutcomeKind.UNKNOWN for outcome in outcomes)
    if first.kind is OutcomeKind.FENCED or (forgotten and unknown):
        return RecoveryAction.REACQUIRE
    if any(outcome.kind is OutcomeKind.APPENDED for outcome in later):
        return RecoveryAction.SETTLE
    answer = _REMEDIES[first.kind]
    if answer in (RecoveryAction.SPLIT, RecoveryAction.REFUSE) and (
        unsure or any(one.kind not in DEFINITE for one in later)
    ):
        return RecoveryAction.SETTLE
    return answer
