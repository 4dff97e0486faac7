"""Simulated days of traffic: no flapping, backlogs drained in time, limits respected."""

import math
from collections.abc import Iterable
from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.placement.scaling import STALLED, ScalingLimits
from tests.unit.policies.traffic import MB, STEP_S, Taken, Traffic

LIMITS = ScalingLimits(minimum=1, maximum=16)
HOUR = 3600.0
DAY = 24 * HOUR


class Weather(msgspec.Struct, frozen=True):
    """What happens on a day: hours, factors, MB/s."""

    peak: float
    night: float
    dead_night: bool
    bursts: tuple[tuple[float, float, float], ...]
    """Begin in hours, length in hours, factor."""
    outage: float | None
    """Hour in which the target is down."""
    per_copier: float
    returns: float
    """Copiers carry together per_copier x copiers ^ returns."""
    start_s: float
    noise: float
    seed: int

    def arrival(self, at_s: float) -> float:
        hour = at_s / HOUR
        if self.dead_night and hour < 5:
            return 0.0
        curve = self.night + (1 - self.night) * (1 - math.cos(2 * math.pi * hour / 24)) / 2
        burst = math.prod(factor for begin, length, factor in self.bursts if begin <= hour < begin + length)
        return self.peak * MB * curve * burst

    def capacity(self, at_s: float, copiers: int) -> float:
        down = self.outage is not None and self.outage <= at_s / HOUR < self.outage + 1
        return 0.0 if down else self.per_copier * MB * copiers**self.returns

    def changes(self) -> list[float]:
        """Hours at which the load jumps."""
        jumps = [hour for begin, length, _ in self.bursts for hour in (begin, begin + length)]
        return [5.0, *jumps, *([] if self.outage is None else [self.outage, self.outage + 1])]


BURST = st.tuples(st.floats(0, 23), st.floats(0.05, 0.7), st.floats(1.3, 3.0))
WEATHER = st.builds(
    Weather,
    peak=st.floats(1, 20),
    night=st.floats(0.05, 0.5),
    dead_night=st.booleans(),
    bursts=st.lists(BURST, max_size=4).map(tuple),
    outage=st.none() | st.floats(0, 22),
    per_copier=st.floats(0.5, 8),
    returns=st.floats(0.6, 1.0),
    start_s=st.floats(5, 180),
    noise=st.floats(0, 0.2),
    seed=st.integers(0, 2**32),
)
MOST = 12


def a_day(weather: Weather) -> Traffic:
    traffic = Traffic(
        weather.arrival,
        weather.capacity,
        ScalingLimits(minimum=1, maximum=MOST),
        start_s=weather.start_s,
        noise=weather.noise,
        seed=weather.seed,
    )
    traffic.run(DAY)
    return traffic


def has_jumped(weather: Weather, before: Taken, after: Taken) -> bool:
    """Whether the load really changed between two decisions: a jump that still had its effect, or a drift."""
    since_h = before.at_s / HOUR - 2
    jumps = any(since_h <= hour <= after.at_s / HOUR for hour in weather.changes())
    return jumps or not 1 / 1.3 < (after.arrival + 1) / (before.arrival + 1) < 1.3


@settings(deadline=None, max_examples=25)
@given(WEATHER)
def test_a_day_of_traffic_is_followed_without_flapping(weather: Weather) -> None:
    traffic = a_day(weather)
    assert all(1 <= taken.after <= MOST and taken.after <= 2 * taken.before for taken in traffic.taken)
    assert all(taken.after >= taken.before - 1 for taken in traffic.taken)
    for before, after in pairwise(traffic.taken):
        if after.after < after.before:
            assert after.at_s - before.at_s >= traffic.limits.shrink_after_s
        elif before.after < before.before:
            assert after.at_s - before.at_s >= 2 * HOUR or has_jumped(weather, before, after), (before, after)
    # Once up and once down for the day, for each burst, and for the outage.
    humps = 1 + len(weather.bursts) + (weather.outage is not None)
    assert len(traffic.taken) <= 2 * (MOST - 1) * humps


@settings(deadline=None, max_examples=10)
@given(st.floats(0.5, 2), st.floats(0.05, 0.15), st.integers(0, 2**32))
def test_steady_traffic_comes_to_rest(per_copier: float, noise: float, seed: int) -> None:
    traffic = Traffic(lambda _: 5 * MB, lambda _, n: per_copier * n * MB, LIMITS, noise=noise, seed=seed)
    traffic.run(4 * HOUR)
    at_rest = len(traffic.taken)
    traffic.run(12 * HOUR)
    assert len(traffic.taken) <= at_rest + 1, "noise may make the number one too small just once"


def drained_within(rates: Iterable[tuple[float, float]], limits: ScalingLimits) -> float:
    return max((at_s for at_s, lag_s in rates if lag_s > limits.behind_s), default=0.0)


@settings(deadline=None, max_examples=20)
@given(st.floats(1e9, 2e10), st.floats(0.7, 1.0), st.floats(5, 60), st.floats(0, 0.15), st.integers(0, 2**32))
def test_a_backlog_drains_in_time_where_the_copiers_can(
    lag_bytes: float, returns: float, start_s: float, noise: float, seed: int
) -> None:
    limits = ScalingLimits(minimum=1, maximum=32)
    traffic = Traffic(
        lambda _: 1 * MB,
        lambda _, n: 6 * MB * n**returns,
        limits,
        start_s=start_s,
        noise=noise,
        seed=seed,
        lag_bytes=lag_bytes,
    )
    traffic.run(HOUR)
    # Each doubling waits for its copiers, for rates that say something, and for confirmation.
    doubling_s = start_s + limits.settle_s + limits.confirm_s + 3 * STEP_S
    assert drained_within(traffic.lags, limits) <= 1.15 * limits.target_drain_s + 6 * doubling_s
    assert traffic.copiers <= 32


def test_an_outage_of_an_hour_is_caught_up_with_and_the_copiers_go_again() -> None:
    def capacity(at_s: float, copiers: int) -> float:
        return 0.0 if 6 * HOUR <= at_s < 7 * HOUR else 5 * MB * copiers**0.9

    traffic = Traffic(lambda _: 4 * MB, capacity, LIMITS, noise=0.1)
    traffic.run(DAY)
    assert STALLED in traffic.reasons
    assert not [taken for taken in traffic.taken if taken.at_s < 7 * HOUR]
    assert drained_within(traffic.lags, LIMITS) < 7.5 * HOUR
    assert max(taken.after for taken in traffic.taken) >= 6
    assert traffic.copiers <= 2


def test_a_bottleneck_elsewhere_is_not_run_against() -> None:
    def capacity(_: float, copiers: int) -> float:
        return min(6 * MB, 2 * MB * copiers)

    traffic = Traffic(lambda _: 8 * MB, capacity, LIMITS, noise=0.05)
    traffic.run(DAY)
    assert len(traffic.taken) <= 10
    assert any("the bottleneck is elsewhere" in reason for reason in traffic.reasons)
