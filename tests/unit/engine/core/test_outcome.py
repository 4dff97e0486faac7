"""What a window of answers asks for."""

import itertools

import pytest

from engine.core.outcome import Outcome, OutcomeKind, Remedy, remedy

K = OutcomeKind
FAILURES = [kind for kind in K if kind is not K.APPENDED]


def decide(*kinds: OutcomeKind) -> Remedy:
    return remedy([Outcome(kind) for kind in kinds])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (K.RETRY, Remedy.RESEND),
        (K.UNKNOWN, Remedy.RESEND),
        (K.ORDER, Remedy.SETTLE),
        (K.TOO_LARGE, Remedy.SPLIT),
        (K.REFUSED, Remedy.REFUSE),
        (K.FENCED, Remedy.REACQUIRE),
    ],
)
def test_one_answer(kind: OutcomeKind, expected: Remedy) -> None:
    assert decide(kind) is expected


def test_every_failure_has_a_remedy() -> None:
    assert all(isinstance(decide(kind), Remedy) for kind in FAILURES)


@pytest.mark.parametrize("first", [kind for kind in FAILURES if kind is not K.FENCED])
def test_a_later_batch_that_was_appended_asks_for_a_look_at_the_log(first: OutcomeKind) -> None:
    assert decide(first, K.ORDER, K.APPENDED) is Remedy.SETTLE


@pytest.mark.parametrize("later", list(K))
def test_a_fence_is_a_fence_whatever_follows(later: OutcomeKind) -> None:
    assert decide(K.FENCED, later) is Remedy.REACQUIRE


@pytest.mark.parametrize(("first", "later"), list(itertools.product((K.REFUSED, K.TOO_LARGE), FAILURES)))
def test_a_refusal_stands_only_when_its_followers_are_definite(first: OutcomeKind, later: OutcomeKind) -> None:
    alone = {K.REFUSED: Remedy.REFUSE, K.TOO_LARGE: Remedy.SPLIT}[first]
    assert decide(first, later) is (Remedy.SETTLE if later is K.UNKNOWN else alone)


@pytest.mark.parametrize("kind", [K.REFUSED, K.TOO_LARGE])
def test_a_refusal_says_nothing_of_an_earlier_try(kind: OutcomeKind) -> None:
    assert remedy([Outcome(kind)], unsure=True) is Remedy.SETTLE


@pytest.mark.parametrize("later", FAILURES)
def test_what_was_perhaps_appended_goes_out_again(later: OutcomeKind) -> None:
    assert decide(K.UNKNOWN, later) is Remedy.RESEND


def test_a_batch_whose_producer_may_be_forgotten_is_never_sent_again_blindly() -> None:
    assert remedy([Outcome(K.UNKNOWN)], forgotten=True) is Remedy.REACQUIRE
    assert remedy([Outcome(K.RETRY), Outcome(K.UNKNOWN)], forgotten=True) is Remedy.REACQUIRE
    assert remedy([Outcome(K.RETRY)], forgotten=True) is Remedy.RESEND  # definitely not appended
