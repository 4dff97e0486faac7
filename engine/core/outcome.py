"""What a target broker said of one appended batch, reduced to what the lane must do about it."""

import enum

import msgspec


class OutcomeKind(enum.Enum):
    """The classes of answers; `engine/kafka/faults.py` maps every Kafka error code to one of them."""

    APPENDED = "appended"
    RETRY = "retry"
    """Definitely not appended, worth trying again: too few replicas, the transaction is not checked yet, throttled."""
    UNKNOWN = "unknown"
    """Perhaps appended: time-out, connection lost, too few replicas after the append, leader moved before or after."""
    ORDER = "order"
    """45, 46 or 59: neither loss nor success, only the log itself can tell."""
    TOO_LARGE = "too large"
    REFUSED = "refused"
    FENCED = "fenced"
    """47, 90: a newer owner has the producer id, or the broker never heard of our epoch; 48, 49: of our transaction."""


UNAUTHORIZED = frozenset({29, 30, 31, 53})
"""Codes of a refusal that an administrator can give and take back at any time: ACLs of topic, group, cluster and
transactional id (Kafka: `Errors`)."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """One answer; `record_index` is the refused record's place in its batch, 0 where the broker did not say."""

    kind: OutcomeKind
    base_offset: int = -1
    error_code: int = 0
    message: str = ""
    record_index: int = 0


UNKNOWN_OUTCOME = Outcome(OutcomeKind.UNKNOWN, message="connection lost")

DEFINITE = frozenset(
    {OutcomeKind.RETRY, OutcomeKind.ORDER, OutcomeKind.TOO_LARGE, OutcomeKind.REFUSED, OutcomeKind.FENCED}
)
"""Answers that say: this very request appended nothing (ORDER included: the broker refused it where it stood)."""


class Remedy(enum.Enum):
    """What to do when every batch in flight has its outcome and the first one was not appended."""

    RESEND = "resend"
    SETTLE = "settle"
    SPLIT = "split"
    REFUSE = "refuse"
    REACQUIRE = "reacquire"


_REMEDIES = {
    OutcomeKind.RETRY: Remedy.RESEND,
    OutcomeKind.UNKNOWN: Remedy.RESEND,
    OutcomeKind.ORDER: Remedy.SETTLE,
    OutcomeKind.TOO_LARGE: Remedy.SPLIT,
    OutcomeKind.REFUSED: Remedy.REFUSE,
    OutcomeKind.FENCED: Remedy.REACQUIRE,
}


def remedy(outcomes: list[Outcome], *, forgotten: bool = False, unsure: bool = False) -> Remedy:
    """Decide for a whole window, first outcome first; the first is never APPENDED.

    A later batch that was appended proves that the first one was too, or that the log is not in our order: both ask
    for a look at the log. A refusal whose followers are of unknown outcome asks for the same look, and so does one of
    a batch that was `unsure`: an earlier try may have been appended, because a broker looks at sizes and contents
    before it looks for duplicates (UnifiedLog.append).

    `forgotten`: a batch is older than the broker remembers producers. It takes a producer's age from the newest
    timestamp in its last batch (ProducerStateEntry, `producer.id.expiration.ms`), so after such a batch it may know
    neither our sequence nor our epoch: sent again, the batch could be there twice. A new epoch with its barrier
    settles that.
    """
    first, later = outcomes[0], outcomes[1:]
    unknown = any(outcome.kind is OutcomeKind.UNKNOWN for outcome in outcomes)
    if first.kind is OutcomeKind.FENCED or (forgotten and unknown):
        return Remedy.REACQUIRE
    if any(outcome.kind is OutcomeKind.APPENDED for outcome in later):
        return Remedy.SETTLE
    answer = _REMEDIES[first.kind]
    if answer in (Remedy.SPLIT, Remedy.REFUSE) and (unsure or any(one.kind not in DEFINITE for one in later)):
        return Remedy.SETTLE
    return answer
