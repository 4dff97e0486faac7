"""The meaning of every broker error code for a lane."""

import aiokafka.errors
import pytest

from engine.core.lane.outcome import Outcome as Answer
from engine.core.lane.outcome import OutcomeKind, RecoveryAction, recovery_action
from engine.kafka.protocol.faults import FETCH_RETRY, append_kind, error_name

K = OutcomeKind
CODES = sorted(
    {
        int(vars(kind)["errno"])
        for kind in vars(aiokafka.errors).values()
        if isinstance(kind, type)
        and issubclass(kind, aiokafka.errors.BrokerResponseError)
        and isinstance(vars(kind).get("errno"), int)
    }
)
KNOWN = {
    0: K.APPENDED,
    **dict.fromkeys((14, 15, 16, 19, 51, 89), K.RETRY),
    **dict.fromkeys((-1, 3, 5, 6, 7, 9, 13, 20, 56, 74, 75, 100, 103), K.UNKNOWN),
    **dict.fromkeys((45, 46, 59), K.ORDER),
    **dict.fromkeys((10, 18), K.TOO_LARGE),
    **dict.fromkeys((2, 17, 21, 29, 31, 32, 35, 42, 43, 44, 76, 87), K.REFUSED),
    **dict.fromkeys((47, 90), K.FENCED),
}


def test_aiokafka_knows_many_codes() -> None:
    assert len(CODES) > 70


@pytest.mark.parametrize("code", [*CODES, *range(-2, 140), 30_000])
def test_every_code_has_a_meaning_and_a_remedy(code: int) -> None:
    kind = append_kind(code)
    assert (kind is K.APPENDED) is (code == 0)
    if code:
        assert isinstance(recovery_action([Answer(kind, error_code=code)]), RecoveryAction)
    assert error_name(code)


@pytest.mark.parametrize(("code", "kind"), KNOWN.items())
def test_the_codes_of_an_append(code: int, kind: OutcomeKind) -> None:
    assert append_kind(code) is kind


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (10, "MessageSizeTooLarge"),
        (47, "InvalidProducerEpoch"),
        (74, "FencedLeaderEpoch"),
        (75, "UnknownLeaderEpoch"),
        (78, "OffsetNotAvailable"),
        (87, "InvalidRecord"),
        (90, "ProducerFenced"),
        (100, "UnknownTopicId"),
        (103, "InconsistentTopicId"),
        (12_345, "Unknown"),
    ],
)
def test_codes_have_names_also_those_aiokafka_does_not_know(code: int, name: str) -> None:
    assert error_name(code) == name


def test_a_moved_leader_is_looked_up_again_and_a_missing_permission_is_not() -> None:
    assert {3, 5, 6, 74, 75, 78} <= FETCH_RETRY
    assert FETCH_RETRY.isdisjoint({0, 1, 2, 29, 35})
