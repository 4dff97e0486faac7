"""The pace of a copy, from looks at its end offsets."""

import pytest

from bench.wan.measure import Pace


def paced(counts: tuple[int, ...], *looks: tuple[float, list[int]]) -> Pace:
    pace = Pace(counts)
    for at, ends in looks:
        pace.add(at, ends)
    return pace


def test_markers_behind_the_last_record_are_no_records() -> None:
    pace = paced((10, 10), (0.0, [0, 0]), (1.0, [11, 10]))
    assert pace.records == 20
    assert pace.has_all


def test_the_middle_leaves_out_a_slow_start_and_end() -> None:
    pace = paced((400,), (0.0, [0]), (10.0, [100]), (11.0, [200]), (12.0, [300]), (22.0, [390]), (32.0, [400]))
    assert pace.middle_per_s() == pytest.approx(100.0)


def test_a_copy_that_came_within_one_look_has_no_middle() -> None:
    assert paced((400,), (0.0, [0]), (1.0, [400])).middle_per_s() == 0.0


def test_looks_without_progress_are_not_kept() -> None:
    pace = paced((400,), (0.0, [0]), (1.0, [0]), (2.0, [5]), (3.0, [5]))
    assert pace.looks == [(0.0, 0), (2.0, 5)]
    assert not pace.has_all
