"""The judge of the lag bench: every sample of every lane present, in time, and none with a false lag."""

import msgspec
import pytest

from bench.errors import BenchError
from bench.lag.judge import Load, judge_newest
from bench.lag.samples import lag_of
from bench.lag.topic import Record

LOAD = Load(lanes=2, every_s=5, from_s=1_000, until_s=1_020, counts_from_s=1_010)


def told(lane: int, at_s: int, late_s: int = 1, more: int = 0) -> Record:
    key = {"flow": "a->b", "topic": "topic-0", "partition": lane}
    value = {"format": 1, "last_ms": at_s * 1000, "lag_records": lag_of(lane, at_s) + more}
    return (at_s + late_s) * 1000, msgspec.json.encode(key), msgspec.json.encode(value)


def test_a_sample_was_told_when_its_last_lane_was() -> None:
    records = [told(lane, at_s, late_s=1 + lane) for at_s in range(1_000, 1_020, 5) for lane in (0, 1)]
    assert judge_newest(records, LOAD) == [2.0, 2.0]


def test_a_later_sample_tells_those_before_and_one_that_comes_again_tells_nothing() -> None:
    both = [told(lane, at_s) for at_s in (1_000, 1_010) for lane in (0, 1)]
    again = [told(0, 1_000), *(told(lane, 1_015, late_s=3) for lane in (0, 1))]
    assert judge_newest([*both, *again], LOAD) == [1.0, 3.0]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "4 samples missing, 0 false"),
        ([told(0, 1_015), told(1, 1_010)], "1 samples missing, 0 false"),
        ([told(0, 1_015), told(1, 1_015, more=1)], "0 samples missing, 1 false"),
    ],
)
def test_what_is_missing_or_false_is_counted(records: list[Record], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        judge_newest(records, LOAD)
