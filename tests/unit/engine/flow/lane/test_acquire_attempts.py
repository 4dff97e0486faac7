"""When a lane tries again to get an owner, and when it gives up."""

import msgspec
import pytest

from engine.flow.lane.acquire_attempts import (
    MOST_FENCED,
    MOST_WITHOUT_A_RECORD,
    AcquireAttempts,
    Divergence,
    StoredPlace,
)
from tests.unit.engine.core.positions import position


def lose(attempts: AcquireAttempts, times: int, *, fenced: bool = False, settles: bool = False) -> list[bool]:
    return [attempts.lose(100.0, fenced=fenced, settles=settles) for _ in range(times)]


def test_a_lane_joins_at_once_after_its_first_loss_and_later_and_later_after_the_next_ones() -> None:
    attempts = AcquireAttempts(90.0)
    assert attempts.is_due(100.0)
    waits = []
    for _ in range(4):
        attempts.lose(100.0, fenced=False, settles=True)
        waits.append(attempts.join_at_s - 100.0)
    assert waits[0] == 0.0
    assert 0.0 < waits[1] < waits[2] < waits[3]
    assert not attempts.is_due(100.0)
    assert attempts.is_due(attempts.join_at_s)


def test_a_lane_gives_up_when_it_never_gets_a_record_through() -> None:
    attempts = AcquireAttempts(0.0)
    assert lose(attempts, MOST_WITHOUT_A_RECORD + 1) == [False] * MOST_WITHOUT_A_RECORD + [True]


def test_an_acknowledged_record_begins_the_count_again() -> None:
    attempts = AcquireAttempts(0.0)
    assert not any(lose(attempts, MOST_WITHOUT_A_RECORD))
    attempts.acknowledged()
    assert not any(lose(attempts, MOST_WITHOUT_A_RECORD))


def test_a_lane_that_only_asks_what_the_log_holds_may_ask_for_ever() -> None:
    attempts = AcquireAttempts(0.0)
    assert not any(lose(attempts, 10 * MOST_FENCED, settles=True))
    assert attempts.reacquired == 0


def test_a_lane_that_another_owner_takes_again_and_again_gives_up_whatever_it_copied() -> None:
    attempts = AcquireAttempts(0.0)
    found = []
    for _ in range(MOST_FENCED + 1):
        attempts.acknowledged()
        found += lose(attempts, 1, fenced=True)
    assert found == [False] * MOST_FENCED + [True]
    assert attempts.given_at_s == 100.0, "the other owner may have had a lease until now"
    assert attempts.needed_at_s == 100.0


@pytest.mark.parametrize(("owned_s", "in_a_row"), [(29.9, 3), (30.0, 0)])
def test_a_lane_that_was_owned_for_long_is_stable(owned_s: float, in_a_row: int) -> None:
    attempts = AcquireAttempts(0.0)
    lose(attempts, 3, settles=True)
    attempts.rest(50.0, 50.0 + owned_s)
    assert attempts.in_a_row == in_a_row


def test_a_request_from_outside_forgets_all_attempts() -> None:
    attempts = AcquireAttempts(0.0)
    lose(attempts, 5)
    attempts.begin_again(200.0)
    assert (attempts.in_a_row, attempts.reacquired, attempts.given_at_s) == (0, 0, 200.0)
    assert attempts.is_due(200.0)
    assert attempts.needed_at_s == 200.0


def test_a_lane_needs_an_owner_from_its_first_record_on_however_long_it_has_watched() -> None:
    attempts = AcquireAttempts(0.0)
    attempts.wake(300.0)
    assert (attempts.woken, attempts.needed_at_s, attempts.given_at_s) == (True, 300.0, 0.0)


def test_a_lane_has_one_attempt_under_way() -> None:
    attempts = AcquireAttempts(0.0)
    attempts.start()
    assert not attempts.is_due(1.0)
    attempts.end()
    assert attempts.is_due(1.0)


@pytest.mark.parametrize("left", [True, False])
def test_a_position_that_was_read_counts_only_if_its_owner_has_left(left: bool) -> None:
    attempts, stored = AcquireAttempts(0.0), msgspec.structs.replace(position(3, 3), left=left)
    assert attempts.stored is None
    attempts.read(stored)
    assert attempts.stored == StoredPlace(stored if left else None)


def test_a_divergence_is_kept_until_the_lane_is_owned() -> None:
    attempts = AcquireAttempts(0.0)
    attempts.diverged(Divergence(7, "epoch 3 ends there"))
    assert attempts.divergence == Divergence(7, "epoch 3 ends there")
    attempts.diverged(None)
    assert attempts.divergence is None
