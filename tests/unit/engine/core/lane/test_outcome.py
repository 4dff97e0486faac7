"""The recovery action for a window of answers."""

import itertools

import pytest

from engine.core.lane.outcome import Outcome, OutcomeKind, RecoveryAction, recovery_action

K = OutcomeKind
FAILURES = [kind for kind in K if kind is not K.APPENDED]


def decide(*kinds: OutcomeKind) -> RecoveryAction:
    return recovery_action([Outcome(kind) for kind in kinds])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (K.RETRY, RecoveryAction.RESEND),
        (K.UNKNOWN, RecoveryAction.RESEND),
        (K.ORDER, RecoveryAction.SETTLE),
        (K.TOO_LARGE, RecoveryAction.SPLIT),
        (K.REFUSED, RecoveryAction.REFUSE),
        (K.FENCED, RecoveryAction.REACQUIRE),
    ],
)
def test_one_answer(kind: OutcomeKind, expected: RecoveryAction) -> None:
    assert decide(kind) is expected


def test_every_failure_has_a_remedy() -> None:
    assert all(isinstance(decide(kind), RecoveryAction) for kind in FAILURES)


@pytest.mark.parametrize("first", [kind for kind in FAILURES if kind is not K.FENCED])
def test_a_later_batch_that_was_appended_asks_for_a_look_at_the_log(first: OutcomeKind) -> None:
    assert decide(first, K.ORDER, K.APPENDED) is RecoveryAction.SETTLE


@pytest.mark.parametrize("later", list(K))
def test_a_fence_is_a_fence_whatever_follows(later: OutcomeKind) -> None:
    assert decide(K.FENCED, later) is RecoveryAction.REACQUIRE


@pytest.mark.parametrize(("first", "later"), list(itertools.product((K.REFUSED, K.TOO_LARGE), FAILURES)))
def test_a_refusal_stands_only_when_its_followers_are_definite(first: OutcomeKind, later: OutcomeKind) -> None:
    alone = {K.REFUSED: RecoveryAction.REFUSE, K.TOO_LARGE: RecoveryAction.SPLIT}[first]
    assert decide(first, later) is (RecoveryAction.SETTLE if later is K.UNKNOWN else alone)


@pytest.mark.parametrize("kind", [K.REFUSED, K.TOO_LARGE])
def test_a_refusal_says_nothing_of_an_earlier_try(kind: OutcomeKind) -> None:
    assert recovery_action([Outcome(kind)], unsure=True) is RecoveryAction.SETTLE


@pytest.mark.parametrize("later", FAILURES)
def test_what_was_perhaps_appended_goes_out_again(later: OutcomeKind) -> None:
    assert decide(K.UNKNOWN, later) is RecoveryAction.RESEND


def test_a_batch_whose_producer_may_be_forgotten_is_never_sent_again_blindly() -> None:
    assert recovery_action([Outcome(K.UNKNOWN)], forgotten=True) is RecoveryAction.REACQUIRE
    assert recovery_action([Outcome(K.RETRY), Outcome(K.UNKNOWN)], forgotten=True) is RecoveryAction.REACQUIRE
    assert recovery_action([Outcome(K.RETRY)], forgotten=True) is RecoveryAction.RESEND  # definitely not appended
