"""The series of 15 minutes: when a point is taken, what it has, and how many are kept."""

from typing import Any

import msgspec
import pytest

from actors.api.entities import LatencySummary
from actors.api.series import EVERY_MS, LASTS_MS, SeriesRing, quantiles
from actors.model.status import MirrorStatus
from tests.unit.actors.telemetry.statuses import NOW_MS, flow_status, histogram, mirror_status


def at(ms: int, **flow: Any) -> MirrorStatus:
    """A status some milliseconds after the beginning."""
    return msgspec.structs.replace(mirror_status(flows=[flow_status(**flow)]), at_ms=NOW_MS + ms)


def known(lag: int, **flow: object) -> dict[str, Any]:
    return {"unknown_lanes": 0, "lag_records": lag, "least_lag_records": lag, "lag_bytes": 10 * lag, **flow}


def test_a_status_every_second_is_a_point_every_five() -> None:
    ring = SeriesRing()
    for second in range(21):
        ring.note(at(1000 * second))
    assert ring.columns("A->B").at_ms == tuple(NOW_MS + 5000 * number for number in range(5))


def test_a_status_that_comes_a_little_early_is_a_point_too() -> None:
    ring = SeriesRing()
    assert ring.note(at(0))
    assert not ring.note(at(4400))
    assert ring.note(at(4600))


def test_a_clock_that_was_set_back_does_not_stop_the_series() -> None:
    ring = SeriesRing()
    assert ring.note(at(0))
    assert ring.note(at(-3_600_000))


def test_no_more_than_fifteen_minutes_are_kept() -> None:
    ring = SeriesRing()
    for number in range(300):
        ring.note(at(EVERY_MS * number))
    times = ring.columns("A->B").at_ms
    assert len(times) == LASTS_MS // EVERY_MS
    assert times[-1] == NOW_MS + EVERY_MS * 299


def test_what_is_not_known_is_none() -> None:
    ring = SeriesRing()
    ring.note(at(0))  # one partition is unknown
    ring.note(at(5000, **known(7, behind_since_ms=NOW_MS)))
    found = ring.columns("A->B")
    assert found.lag_records == (None, 7)
    assert found.lag_bytes == (0, 70)
    assert found.lag_seconds == (None, 5.0)


def test_columns_have_one_length() -> None:
    ring = SeriesRing()
    for number in range(3):
        ring.note(at(EVERY_MS * number))
    columns = msgspec.structs.asdict(ring.columns("A->B", NOW_MS + EVERY_MS))
    assert {len(column) for name, column in columns.items() if name not in ("flow", "every_seconds")} == {2}


def test_quantiles_are_of_what_was_measured_since_the_last_point() -> None:
    ring = SeriesRing()
    ring.note(at(0, append_latency=histogram(*[5000.0] * 99)))
    ring.note(at(5000, append_latency=histogram(*[5000.0] * 99, 3.0, 3.0)))
    ring.note(at(10_000, append_latency=histogram(*[5000.0] * 99, 3.0, 3.0)))
    found = ring.columns("A->B")
    assert found.append_p99_ms[0] is None, "since when its first histogram counts is not known"
    assert found.append_p99_ms[1] == pytest.approx(5.0, abs=3.0)
    assert found.append_p99_ms[2] is None
    append, copied = ring.recent("A->B")
    assert append.p50_ms == pytest.approx(3.5, abs=1.5)
    assert copied == LatencySummary()


def test_a_histogram_that_began_again_counts_whole() -> None:
    assert quantiles(histogram(3.0), histogram(50.0, 60.0)).p50_ms == pytest.approx(3.5, abs=1.5)


def test_the_worst_is_the_highest_of_each_and_says_since_when() -> None:
    ring = SeriesRing()
    assert ring.worst(["A->B"], 5).records is None
    ring.note(at(0, **known(7, lag_bytes=1)))
    ring.note(at(5000, **known(3, lag_bytes=99)))
    found = ring.worst(["A->B"], NOW_MS)
    assert (found.since_ms, found.records, found.bytes) == (NOW_MS, 7, 99)


def test_a_flow_that_a_reload_removed_is_forgotten() -> None:
    ring = SeriesRing()
    ring.note(at(0))
    ring.note(msgspec.structs.replace(mirror_status(flows=[flow_status("A->C")]), at_ms=NOW_MS + 5000))
    assert ring.columns("A->B").at_ms == ()
    assert ring.last("A->B") is None
    assert len(ring.columns("A->C").at_ms) == 1
