"""Counts the appends in flight of the whole mirror, once a second, by the status that any user can ask for."""

import contextlib
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from actors.local.session import NoMirror, SeveralMirrors, find
from actors.local_socket.client import reach
from actors.model.requests import MirrorLost
from actors.model.status import MirrorStatus
from bench.recovery.far.settings import Far
from bench.recovery.mirror import NAME
from engine.core.lane.pending_batch import REMEMBERED

EVERY_S = 1.0
_ANSWER_S = 5.0
_LEAST_SAMPLES = 4
"""A median of fewer says nothing."""
_BACKLOG = 5_000
"""Records of lag in all, from which on the copy has a backlog: what the load brings in five seconds."""


class Sample(msgspec.Struct, frozen=True):
    """The mirror at one instant (monotonic seconds): appends in flight of all lanes and of the lane with most of them,
    and the records that are still to be copied.
    """

    at: float
    appends: int
    widest: int
    lag: int


class Flight(msgspec.Struct, frozen=True, kw_only=True):
    """Appends in flight while the copy had a backlog. Medians; 0 without a sample.

    `appends`: of all lanes, before the fault and after its cause; `before`, `after`: the two parts of that. `widest`:
    of the lane that has most of them, which of the lanes differs. `samples`: how many instants. `seconds_behind`:
    from the end of the cause until the backlog was copied. `hit`: whether there was a backlog when the fault began.
    """

    appends: float
    before: float
    after: float
    widest: float
    widest_most: int
    samples: int
    seconds_behind: float
    hit: bool = True

    def shortcoming(self, far: Far) -> str:
        """Say in words why the windows were not full; empty if they were."""
        if self.samples < _LEAST_SAMPLES:
            return f"the copy had a backlog at {self.samples} instants only: the backlog is too small"
        if not self.hit:
            return "the backlog was copied before the fault began: it is too small"
        medians = {"outside the fault": self.appends, "before the fault": self.before}
        found = [
            f"{median:g} appends in flight at the median {when}, {far.least_appends} are asked"
            for when, median in medians.items()
            if median < far.least_appends
        ]
        if far.least_appends and self.widest <= REMEMBERED:
            found.append(f"{self.widest:g} appends of the widest lane at the median: a broker remembers {REMEMBERED}")
        return "; ".join(found)


def summarise(samples: Sequence[Sample], since: float, began: float, ended: float) -> Flight:
    """Sum up the samples of a run from `since`, when its windows were full, around a fault from `began` to `ended`."""
    behind = [one for one in samples if one.lag >= _BACKLOG and one.at >= since]
    before = [one for one in behind if one.at < began]
    after = [one for one in behind if one.at > ended]
    both = before + after
    last = max((one for one in samples if one.at < began), key=_instant, default=None)
    return Flight(
        appends=_median([one.appends for one in both]),
        before=_median([one.appends for one in before]),
        after=_median([one.appends for one in after]),
        widest=_median([one.widest for one in both]),
        widest_most=max((one.widest for one in both), default=0),
        samples=len(both),
        seconds_behind=round(after[-1].at - ended, 1) if after else 0.0,
        hit=last is not None and last.lag >= _BACKLOG,
    )


def _instant(sample: Sample) -> float:
    return sample.at


def _median(values: Sequence[int]) -> float:
    return float(statistics.median(values)) if values else 0.0


def sample_of(status: MirrorStatus, at: float) -> Sample:
    """Sum up the lanes of a status; a lane whose lag is not known now counts with its last known one."""
    return Sample(
        at,
        sum(lane.in_flight for lane in status.lanes),
        max((lane.in_flight for lane in status.lanes), default=0),
        sum(max(0, lane.least_lag_records) for lane in status.lanes),
    )


class FlightWatch(threading.Thread):
    """Asks the mirror of an environment once a second until stopped; a mirror that does not answer gives no sample."""

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self._env = env
        self._stopping = threading.Event()

    def run(self) -> None:
        """Ask until stopped."""
        while not self._stopping.wait(EVERY_S):
            with contextlib.suppress(NoMirror, SeveralMirrors, MirrorLost):
                self._ask()

    def _ask(self) -> None:
        mirror = reach(find(None, NAME, self._env))
        if mirror is None:
            return
        with contextlib.closing(mirror):
            status = mirror.status(lanes=True, timeout_s=_ANSWER_S)
            self.samples.append(sample_of(status, time.monotonic()))

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self.join(2 * _ANSWER_S)


@contextlib.contextmanager
def flight_watched(env: Mapping[str, str], *, wanted: bool) -> Iterator[FlightWatch]:
    """Sample the mirror during the block, if that is wanted; else there are no samples."""
    watch = FlightWatch(env)
    if not wanted:
        yield watch
        return
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
