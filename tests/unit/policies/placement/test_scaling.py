"""Scaling: the fleet grows for a reason and shrinks after a calm, decision by decision."""

import msgspec
import pytest

from policies.placement.scaling import STALLED, Decision, FlowLoad, ScalingLimits, ScalingMemory, Trial, decide
from tests.unit.policies.traffic import MB

LIMITS = ScalingLimits(minimum=1, maximum=16)
BEHIND = FlowLoad(
    at_s=0.0, copiers=1, sets=64, bytes_per_s=5.1 * MB, arrival_bytes_per_s=0.1 * MB, lag_bytes=12.4e9, lag_s=900.0
)
CALM = FlowLoad(at_s=0.0, copiers=3, sets=64, bytes_per_s=1 * MB, arrival_bytes_per_s=1 * MB, lag_bytes=0.0, lag_s=1.0)


def repeat(
    memory: ScalingMemory, load: FlowLoad, seconds: float, limits: ScalingLimits = LIMITS
) -> tuple[ScalingMemory, Decision]:
    """Measure the same every five seconds until something is decided or the time is over; at least once."""
    at_s = max(memory.at_s, 0.0)
    until_s = at_s + seconds
    while True:
        at_s += 5.0
        memory, decision = decide(memory, msgspec.structs.replace(load, at_s=at_s), limits)
        if decision.changed or at_s >= until_s:
            return memory, decision


def test_a_flow_that_is_behind_gets_the_copiers_that_drain_it_in_time_at_most_twice_as_many() -> None:
    memory, decision = repeat(ScalingMemory(wanted=1), BEHIND, 600)
    assert decision == Decision(
        2, "lag 12.4 GB drains in 41 min at 5.1 MB/s, the goal is 10 min: 1 -> 2 copiers", changed=True
    )
    assert memory.at_s == 5 + LIMITS.settle_s + LIMITS.confirm_s
    twice = msgspec.structs.replace(BEHIND, copiers=2, bytes_per_s=10.2 * MB)
    memory, decision = repeat(memory, twice, 600)
    assert decision.copiers == 4
    # 12.4 GB in 600 s and what arrives are 20.8 MB/s: five copiers of 5 MB/s, not eight.
    memory, decision = repeat(memory, msgspec.structs.replace(BEHIND, copiers=4, bytes_per_s=20 * MB), 600)
    assert decision.copiers == 5


def test_lag_that_grows_is_told_so() -> None:
    _, decision = repeat(ScalingMemory(wanted=1), msgspec.structs.replace(BEHIND, arrival_bytes_per_s=7 * MB), 600)
    assert decision.reason == (
        "lag 12.4 GB does not drain (5.1 MB/s copied, 7.0 MB/s arrive), the goal is 10 min: 1 -> 2 copiers"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"lag_s": 29.0},
        {"lag_bytes": 2.9e9},  # drains in time
        {"copiers": 2},  # one has not gone yet
        {"copiers": 0},
    ],
)
def test_no_reason_to_grow(changes: dict[str, float]) -> None:
    memory, decision = repeat(ScalingMemory(wanted=1), msgspec.structs.replace(BEHIND, **changes), 7200)
    assert decision == Decision(1)
    assert memory.wanted == 1


def test_a_moment_behind_is_no_reason() -> None:
    memory, _ = repeat(ScalingMemory(wanted=1), CALM_ONE, 60)
    memory, decision = repeat(memory, BEHIND, LIMITS.confirm_s - 5)
    assert not decision.changed
    memory, _ = repeat(memory, CALM_ONE, 5)
    _, decision = repeat(memory, BEHIND, LIMITS.confirm_s - 5)
    assert not decision.changed


CALM_ONE = msgspec.structs.replace(CALM, copiers=1)


def test_nothing_moves_so_more_would_not_help_and_what_a_copier_carries_stays_known() -> None:
    memory, _ = repeat(ScalingMemory(wanted=2), msgspec.structs.replace(BEHIND, copiers=2, lag_bytes=1e9), 120)
    down = msgspec.structs.replace(BEHIND, copiers=2, bytes_per_s=0.0)
    stalled, decision = repeat(memory, down, 7200)
    assert decision == Decision(2, STALLED)
    assert stalled.capacity == memory.capacity == 2.55 * MB
    # Next to nothing is nothing, once it is known what would be something.
    assert repeat(memory, msgspec.structs.replace(down, bytes_per_s=0.2 * MB), 7200)[1].reason == STALLED
    # It is up again: rates are looked at afresh before anything is decided.
    after, decision = repeat(stalled, msgspec.structs.replace(BEHIND, copiers=2), 600)
    assert decision.copiers == 4
    assert after.at_s - stalled.at_s == 5 + LIMITS.settle_s - 5 + LIMITS.confirm_s


def grown(before: int = 1) -> ScalingMemory:
    memory, decision = repeat(ScalingMemory(wanted=before), msgspec.structs.replace(BEHIND, copiers=before), 600)
    assert decision.copiers == 2 * before
    return memory


def test_while_copiers_are_coming_nothing_is_decided() -> None:
    memory, decision = repeat(grown(), BEHIND, 7200)
    assert decision == Decision(2)
    assert memory.trial is not None


def test_copiers_that_bring_nothing_are_not_followed_by_others_for_an_hour_then_by_one() -> None:
    no_more = msgspec.structs.replace(BEHIND, copiers=2, bytes_per_s=5.9 * MB)
    memory, decision = repeat(grown(), no_more, 3600)
    assert decision == Decision(
        2, "2 copiers copy 5.9 MB/s, 1 copied 5.1 MB/s: the bottleneck is elsewhere, no more copiers for 60 min"
    )
    barred_s = memory.barred_until_s
    memory, decision = repeat(memory, no_more, 3600)
    assert (decision.copiers, decision.changed) == (3, True)
    assert memory.at_s == barred_s
    memory, decision = repeat(memory, msgspec.structs.replace(no_more, copiers=3), 7200)
    assert decision.reason.endswith("no more copiers for 2.0 h")


def test_bars_grow_to_a_bound() -> None:
    memory = msgspec.structs.replace(grown(), bars=1000)
    after, _ = repeat(memory, msgspec.structs.replace(BEHIND, copiers=2), 60)
    assert after.barred_until_s - after.at_s <= 32 * LIMITS.bar_s


def test_copiers_that_bring_a_fifth_may_be_followed_by_others() -> None:
    memory, decision = repeat(grown(), msgspec.structs.replace(BEHIND, copiers=2, bytes_per_s=6.2 * MB), 600)
    assert (decision.copiers, memory.bars) == (4, 0)


def test_what_arrives_is_counted_in() -> None:
    load = msgspec.structs.replace(BEHIND, copiers=4, bytes_per_s=20 * MB, arrival_bytes_per_s=10 * MB)
    _, decision = repeat(ScalingMemory(wanted=4), load, 600)
    assert decision.copiers == 7  # 12.4 GB in 600 s are 20.7 MB/s, and 10 arrive


def test_a_copier_among_many_need_not_bring_a_fifth_of_everything() -> None:
    memory, _ = repeat(ScalingMemory(wanted=8), msgspec.structs.replace(BEHIND, copiers=8, bytes_per_s=20 * MB), 600)
    assert (memory.trial, memory.wanted) == (Trial(8, 9, 20 * MB), 9)
    memory, _ = repeat(memory, msgspec.structs.replace(BEHIND, copiers=9, bytes_per_s=20.6 * MB), LIMITS.settle_s)
    assert (memory.trial, memory.bars) == (None, 0)


def test_after_a_success_copiers_come_in_twos_again() -> None:
    memory = msgspec.structs.replace(grown(), bars=3)
    _, decision = repeat(memory, msgspec.structs.replace(BEHIND, copiers=2, bytes_per_s=8 * MB), 600)
    assert decision.copiers == 4


def test_each_decision_is_confirmed_anew_however_rarely_is_measured() -> None:
    memory = grown()
    for seconds, copiers in ((60, 2), (120, 4)):
        load = msgspec.structs.replace(BEHIND, at_s=memory.at_s + 60, copiers=2, bytes_per_s=8 * MB)
        memory, decision = decide(memory, load, LIMITS)
        assert decision.copiers == copiers, seconds


def test_a_trial_without_lag_proves_nothing() -> None:
    memory, _ = repeat(grown(), msgspec.structs.replace(CALM, copiers=2), 60)
    assert (memory.trial, memory.bar) == (None, "")


def test_at_the_limit_it_says_so() -> None:
    behind = msgspec.structs.replace(BEHIND, copiers=2)
    _, decision = repeat(ScalingMemory(wanted=2), behind, 600, ScalingLimits(maximum=2))
    assert decision == Decision(2, "the lag does not drain in time, but the flow may have at most 2 copiers")
    few = msgspec.structs.replace(behind, sets=2)
    assert repeat(ScalingMemory(wanted=2), few, 600)[1] == decision


@pytest.mark.parametrize(
    ("wanted", "sets", "limits", "decision"),
    [
        (
            8,
            64,
            ScalingLimits(maximum=4),
            Decision(4, "1 to 4 copiers allowed (64 partition sets): 8 -> 4 copiers", True),
        ),
        (8, 3, LIMITS, Decision(3, "1 to 3 copiers allowed (3 partition sets): 8 -> 3 copiers", True)),
        (
            1,
            64,
            ScalingLimits(minimum=2, maximum=4),
            Decision(2, "2 to 4 copiers allowed (64 partition sets): 1 -> 2 copiers", True),
        ),
        (
            2,
            0,
            ScalingLimits(minimum=2, maximum=4),
            Decision(1, "1 to 1 copier allowed (0 partition sets): 2 -> 1 copier", True),
        ),
        (4, 64, ScalingLimits(maximum=4), Decision(4)),
    ],
)
def test_limits_hold_at_once(wanted: int, sets: int, limits: ScalingLimits, decision: Decision) -> None:
    load = msgspec.structs.replace(CALM, copiers=wanted, sets=sets)
    assert decide(ScalingMemory(wanted=wanted), load, limits)[1] == decision


def test_after_a_long_calm_one_copier_goes_and_after_another_the_next() -> None:
    memory, decision = repeat(ScalingMemory(wanted=3), CALM, 2000)
    assert decision == Decision(
        2,
        "lag under 10 s for 15 min, and 1.0 MB/s arrive for 3 copiers that never had lag: 3 -> 2 copiers",
        changed=True,
    )
    assert memory.at_s == 5 + LIMITS.shrink_after_s
    memory, decision = repeat(memory, CALM, 2000)
    assert not decision.changed, "the one that was to go is still there"
    memory, decision = repeat(memory, msgspec.structs.replace(CALM, copiers=2), 2000)
    assert decision.copiers == 1
    assert not repeat(memory, CALM_ONE, 7200)[1].changed


def test_what_arrives_must_fit_into_one_less_with_room_to_spare() -> None:
    memory = msgspec.structs.replace(ScalingMemory(wanted=3), capacity=1 * MB)
    for arrival, copiers in ((1.21 * MB, 3), (1.19 * MB, 2)):
        load = msgspec.structs.replace(CALM, arrival_bytes_per_s=arrival)
        _, decision = repeat(memory, load, 2000)
        assert decision.copiers == copiers
    assert "1.2 MB/s arrive for 3 copiers that can carry 1.0 MB/s each" in decision.reason


def test_a_break_in_the_calm_begins_it_anew() -> None:
    memory, _ = repeat(ScalingMemory(wanted=3), CALM, LIMITS.shrink_after_s - 10)
    memory, _ = repeat(memory, msgspec.structs.replace(CALM, lag_s=11.0), 5)
    _, decision = repeat(memory, CALM, LIMITS.shrink_after_s)
    assert not decision.changed


@pytest.mark.parametrize(
    ("lag_bytes", "rate", "words"),
    [
        (999.0, 0.1, "lag 999.0 B drains in 2.8 h at 0.1 B/s"),
        (5e13, 5 * MB, "lag 50.0 TB drains in 2777.8 h at 5.0 MB/s"),
        (5e6, 5e3, "lag 5.0 MB drains in 17 min at 5.0 kB/s"),
    ],
)
def test_reasons_are_readable(lag_bytes: float, rate: float, words: str) -> None:
    load = msgspec.structs.replace(BEHIND, lag_bytes=lag_bytes, bytes_per_s=rate, arrival_bytes_per_s=0.0)
    _, decision = repeat(ScalingMemory(wanted=1), load, 600, ScalingLimits(maximum=2, target_drain_s=60))
    assert decision.reason == f"{words}, the goal is 60 s: 1 -> 2 copiers"


def test_the_same_measurement_gives_the_same_decision() -> None:
    memory = grown()
    load = msgspec.structs.replace(BEHIND, at_s=memory.at_s + 5, copiers=2)
    frozen = msgspec.structs.asdict(memory)
    assert decide(memory, load, LIMITS) == decide(memory, load, LIMITS)
    assert msgspec.structs.asdict(memory) == frozen
