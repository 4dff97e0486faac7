"""A simulated flow with traffic and copiers that start with a delay, in steps of a few seconds."""

import random
from collections import deque
from collections.abc import Callable

import msgspec

from policies.placement.scaling import Decision, FlowLoad, ScalingLimits, ScalingMemory, decide

STEP_S = 10.0
MB = 1e6

Rate = Callable[[float], float]
"""Seconds -> bytes per second."""


class Taken(msgspec.Struct, frozen=True):
    """One change of the number of copiers."""

    at_s: float
    before: int
    after: int
    arrival: float
    reason: str


class Traffic:
    """`arrival` as it would be without noise; `capacity(at_s, copiers)` is what the copiers carry together."""

    def __init__(
        self,
        arrival: Rate,
        capacity: Callable[[float, int], float],
        limits: ScalingLimits,
        *,
        sets: int = 64,
        start_s: float = 15.0,
        noise: float = 0.0,
        seed: int = 0,
        lag_bytes: float = 0.0,
    ) -> None:
        self.arrival, self.capacity, self.limits, self.sets = arrival, capacity, limits, sets
        self.start_s, self.noise = start_s, noise
        self.memory = ScalingMemory(wanted=limits.minimum)
        self.copiers = limits.minimum
        self.at_s = 0.0
        self.taken: list[Taken] = []
        self.reasons: list[str] = []
        self.lags: list[tuple[float, float]] = []
        """Time and age of the lag."""
        self._coming: list[float] = []
        self._arrived, self._copied = lag_bytes, 0.0
        self._marks = deque([(0.0, lag_bytes)] if lag_bytes else [])
        self._recent: deque[tuple[float, float]] = deque(maxlen=2)
        self._random = random.Random(seed)

    @property
    def lag_bytes(self) -> float:
        return self._arrived - self._copied

    @property
    def lag_s(self) -> float:
        return self.at_s - self._marks[0][0] if self._marks else 0.0

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until_s = self.at_s + seconds
        while self.at_s < until_s:
            self._flow()
            self._decide()

    def _flow(self) -> None:
        self.at_s += STEP_S
        came = self.arrival(self.at_s) * STEP_S * self._noisy()
        can = self.capacity(self.at_s, self.copiers) * STEP_S * self._noisy()
        self._arrived += came
        went = min(can, self.lag_bytes)
        self._copied += went
        self._marks.append((self.at_s, self._arrived))
        while self._marks and self._marks[0][1] <= self._copied + 1.0:
            self._marks.popleft()
        self._recent.append((went / STEP_S, came / STEP_S))
        self.lags.append((self.at_s, self.lag_s))

    def _decide(self) -> None:
        load = FlowLoad(
            at_s=self.at_s,
            copiers=self.copiers,
            sets=self.sets,
            bytes_per_s=sum(went for went, _ in self._recent) / len(self._recent),
            arrival_bytes_per_s=sum(came for _, came in self._recent) / len(self._recent),
            lag_bytes=self.lag_bytes,
            lag_s=self.lag_s,
        )
        before = self.memory.wanted
        self.memory, decision = decide(self.memory, load, self.limits)
        assert decision.changed == (decision.copiers != before)
        self._note(decision, before)
        self._coming = [at_s for at_s in self._coming if at_s > self.at_s]
        self.copiers = decision.copiers - len(self._coming)

    def _note(self, decision: Decision, before: int) -> None:
        if decision.reason and decision.reason != (self.reasons[-1] if self.reasons else ""):
            self.reasons.append(decision.reason)
        if decision.changed:
            self.taken.append(Taken(self.at_s, before, decision.copiers, self.arrival(self.at_s), decision.reason))
            more = max(0, decision.copiers - before)
            self._coming = (self._coming + [self.at_s + self.start_s] * more)[: decision.copiers]

    def _noisy(self) -> float:
        return self._random.uniform(1.0 - self.noise, 1.0 + self.noise)
