"""The range that a proof reads of a lane: by the request, by the logs, by earlier proofs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.offset_map.map_runs import MapHead, MapStart
from engine.jobs.proof.model import Proven
from engine.jobs.proof.plan import MapColumns
from engine.jobs.proof.stretch import Known, Stretch, stretch_of
from policies.model import LaneName, TopicPartition

NAME = LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0))
RUNS = MapColumns([10, 30, 60], [101, 121, 145], [20, 20, 40])
"""10-29 -> 101-120, 30-49 -> 121-140, 60-99 -> 145-184; a marker at 100, nothing of ours from 141 to 144."""


def stretch(**fields: Any) -> Stretch:
    known = {
        "begins": MapStart(10, 100, first=True),
        "head": MapHead(1, 0, 105, 186, ()),
        "source_bounds": (0, 120),
        "target_bounds": (0, 190),
        **fields,
    }
    return stretch_of(Known(name=NAME, runs=RUNS, **known))


def places(found: Stretch) -> tuple[int, int, int, int]:
    lane = found.lane
    return lane.source_from, lane.source_to, lane.target_from, lane.target_to


def test_all_of_a_map() -> None:
    found = stretch()
    assert places(found) == (10, 105, 100, 186)
    assert found[1:] == (10, 0, 0)
    assert found.lane.runs.records == 80


def test_what_lies_below_a_map_that_is_not_the_first_is_counted() -> None:
    assert stretch(begins=MapStart(10, 100, first=False)).unmapped == 10
    assert stretch(begins=MapStart(10, 100, first=False), source_bounds=(15, 120)).unmapped == 0


@pytest.mark.parametrize(
    ("bounds", "expected", "lost"),
    [
        ({"source_bounds": (40, 120)}, (40, 105, 131, 186), 30),
        ({"source_bounds": (55, 120)}, (55, 105, 141, 186), 40),
        ({"target_bounds": (111, 190)}, (20, 105, 111, 186), 10),
        ({"target_bounds": (143, 190)}, (60, 105, 143, 186), 40),
        ({"target_bounds": (300, 300)}, (105, 105, 300, 300), 80),
        ({"source_bounds": (200, 200)}, (105, 105, 185, 186), 80),
    ],
)
def test_what_retention_has_eaten_is_not_comparable(
    bounds: dict[str, Any], expected: tuple[int, ...], lost: int
) -> None:
    found = stretch(**bounds)
    assert (places(found), found.not_comparable) == (expected, lost)
    assert found.proven_from == expected[0]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"since": 35}, (35, 105, 126, 186)),
        ({"since": 5}, (10, 105, 100, 186)),
        ({"until": 35}, (10, 35, 100, 126)),
        ({"until": 55}, (10, 55, 100, 141)),
        ({"since": 35, "until": 70}, (35, 70, 126, 155)),
        ({"since": 70, "until": 35}, (70, 70, 155, 155)),
        ({"until": 0}, (10, 10, 100, 100)),
        ({"since": 105}, (105, 105, 185, 186)),
    ],
)
def test_times_cut_both_sides(times: dict[str, int], expected: tuple[int, ...]) -> None:
    assert places(stretch(**times)) == expected


@pytest.mark.parametrize(
    ("before", "since", "expected", "proven_from"),
    [
        (Proven(10, 40), -1, (40, 105, 131, 186), 10),
        (Proven(10, 60), -1, (60, 105, 141, 186), 10),
        (Proven(10, 500), -1, (105, 105, 185, 186), 10),
        (Proven(20, 40), -1, (10, 105, 100, 186), 10),
        (Proven(10, 40), 35, (40, 105, 131, 186), 10),
        (Proven(10, 40), 50, (50, 105, 141, 186), 50),
    ],
)
def test_what_was_proven_is_not_read_again(
    before: Proven, since: int, expected: tuple[int, ...], proven_from: int
) -> None:
    found = stretch(before=before, since=since)
    assert (places(found), found.proven_from, found.not_comparable) == (expected, proven_from, 0)


@given(st.integers(-1, 130), st.integers(-1, 130), st.integers(0, 130), st.integers(0, 200), st.booleans())
def test_every_record_that_both_have_is_read_or_left_out(
    since: int, until: int, source_start: int, target_start: int, again: bool
) -> None:
    found = stretch(
        since=since,
        until=until,
        source_bounds=(source_start, 130),
        target_bounds=(target_start, 200),
        before=None if again else Proven(10, 40),
    )
    lane = found.lane
    table = {
        source + n: target + n
        for source, target, count in zip(RUNS.source, RUNS.target, RUNS.count, strict=True)
        for n in range(count)
    }
    wanted = {at: to for at, to in table.items() if at >= since and (until < 0 or at < until)}
    there = {at for at, to in wanted.items() if at >= source_start and to >= target_start}
    read = {at for at in wanted if lane.source_from <= at < lane.source_to}
    assert read == {at for at in there if at >= lane.source_from}
    assert all(lane.target_from <= table[at] < lane.target_to for at in read)
    assert all(found.proven_from <= at < 40 for at in there - read)
    assert found.not_comparable == len(wanted) - len(there)
