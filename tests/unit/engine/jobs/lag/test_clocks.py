"""Clocks that are apart, and samples that are late because of it: told at once, then every ten minutes at most."""

from collections.abc import Mapping
from typing import Any

import pytest

from engine.core.events.event_base import Event
from engine.core.events.progress_events import LagClocksDiffer, LagSamplesLate
from engine.jobs.lag.clocks import AGAIN_S, BatchClocks, ClockJudge, ClockWatch, batch_clocks
from engine.jobs.lag.options import LagOptions
from policies.model import FlowName

OPTIONS = LagOptions(flow=FlowName("A", "B"))
TOPIC = "raymirror-progress.A.internal"
BEGAN_MS = 1_790_000_000_000
BEGAN = "2026-09-21T14:13:20.000Z"
QUIET = BatchClocks(newest_ms=BEGAN_MS - 4000, began_ms=BEGAN_MS, apart_ms=90)


def progress(at: str = BEGAN, late: int = 0, clocks: Mapping[str, int | None] | None = None) -> dict[str, Any]:
    """A batch in Spark's words, without what nobody reads."""
    observed = {"observedMetrics": {"clocks": clocks}} if clocks else {}
    return {"timestamp": at, "stateOperators": [{"numRowsDroppedByWatermark": late}], **observed}


def test_a_report_of_spark_is_read() -> None:
    told = progress(late=3, clocks={"off": 2, "apart_ms": 16_000, "newest_ms": BEGAN_MS + 1})
    assert batch_clocks(told) == BatchClocks(off=2, apart_ms=16_000, newest_ms=BEGAN_MS + 1, began_ms=BEGAN_MS, late=3)


@pytest.mark.parametrize("clocks", [{}, {"off": 0, "apart_ms": None, "newest_ms": None}])
def test_a_batch_without_samples_says_nothing_of_clocks(clocks: dict[str, int | None]) -> None:
    seen = batch_clocks(progress(clocks=clocks))
    assert seen == BatchClocks(began_ms=BEGAN_MS)
    assert list(ClockJudge(OPTIONS).judge([seen], 0)) == []


def test_clocks_that_agree_are_not_told() -> None:
    assert list(ClockJudge(OPTIONS).judge([QUIET], 0)) == []


def test_a_broker_that_is_ahead_is_told() -> None:
    ahead = BatchClocks(newest_ms=BEGAN_MS + 184_000, began_ms=BEGAN_MS, off=7, apart_ms=190_000)
    (event,) = ClockJudge(OPTIONS).judge([QUIET, ahead], 0)
    assert event == LagClocksDiffer(flow=OPTIONS.flow, topic=TOPIC, seconds=184.0, broker_ahead=True)
    assert event.text().startswith(f"{TOPIC}: the clock of the broker that leads it is 184 s ahead of the Spark host's")
    assert (event.severity, event.about) == ("warning", TOPIC)


def test_copiers_with_another_time_are_told() -> None:
    apart = BatchClocks(newest_ms=BEGAN_MS, began_ms=BEGAN_MS, off=1, apart_ms=16_400)
    (event,) = ClockJudge(OPTIONS).judge([apart], 0)
    assert event == LagClocksDiffer(flow=OPTIONS.flow, topic=TOPIC, seconds=16.4, broker_ahead=False)
    assert "differ by up to 16 s: the lag history uses the broker's time" in event.text()


def test_what_lasts_is_told_again_after_a_while_and_late_rows_are_added_up() -> None:
    judge, bad = ClockJudge(OPTIONS), BatchClocks(began_ms=BEGAN_MS, off=1, apart_ms=20_000, late=5)
    first = list(judge.judge([bad], 100))
    assert [type(event).__name__ for event in first] == ["LagClocksDiffer", "LagSamplesLate"]
    assert list(judge.judge([bad, bad], 100 + AGAIN_S - 1)) == []
    apart, late = judge.judge([bad], 100 + AGAIN_S)
    assert late == LagSamplesLate(flow=OPTIONS.flow, topic=TOPIC, rows=15, seconds=15.0)
    assert late.text().startswith(f"{TOPIC}: 15 rows of samples are missing in the lag history")
    assert (late.severity, late.about, apart.about) == ("warning", TOPIC, TOPIC)


class Query:
    """A query that has made some batches, as PySpark gives their reports."""

    def __init__(self) -> None:
        self.recentProgress = list[dict[str, Any]]()  # PySpark's name

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        return self.recentProgress[-1] if self.recentProgress else None


def test_each_batch_is_looked_at_once() -> None:
    query: Any = Query()
    watch = ClockWatch(OPTIONS)

    def late_rows(now_s: float) -> list[int]:
        events: list[Event] = list(watch.look(query, now_s))
        return [event.rows for event in events if isinstance(event, LagSamplesLate)]

    assert late_rows(0) == []
    query.recentProgress.append(progress("2026-09-21T14:13:20.000Z", late=1))
    query.recentProgress.append(progress("2026-09-21T14:13:25.000Z", late=2))
    assert late_rows(0) == [1]
    query.recentProgress.append(progress("2026-09-21T14:13:30.000Z", late=4))
    assert late_rows(AGAIN_S) == [6], "the batch that was held back, and the new one"
    assert late_rows(3 * AGAIN_S) == []
