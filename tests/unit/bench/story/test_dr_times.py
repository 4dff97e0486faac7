"""The cells of the times of operations, their groups, and the table."""

import pytest

from bench.errors import BenchError
from bench.story.backlog import PER_GROUP, Cell, cells_of, commits_of
from bench.story.dr_times import CellTimes, at_wanted, rows


def test_cells_are_read() -> None:
    assert cells_of("8x50,1000x5x70x7", 20, 3) == [
        Cell(partitions=8, groups=50, records=20, new=3),
        Cell(partitions=1000, groups=5, records=70, new=7),
    ]


@pytest.mark.parametrize("text", ["", "8", "8x", "8x0", "axb", "1x2x3", "1x2x3x4x5", "8x50,"])
def test_what_is_no_cell_is_refused(text: str) -> None:
    with pytest.raises(BenchError, match="is no cell"):
        cells_of(text, 20, 3)


def test_partitions_are_spread_over_topics() -> None:
    cell = Cell(partitions=1_001, groups=1, records=1, new=1)
    assert list(cell.topics.values()) == [500, 500, 1]
    assert len(set(cell.places)) == 1_001


def test_groups_commit_within_what_was_written() -> None:
    cell = Cell(partitions=3, groups=20, records=10, new=1)
    held = dict(zip(cell.places, (4, 3, 3), strict=True))
    commits = commits_of(cell)
    assert len(commits) == 20
    for offsets in commits.values():
        assert len(offsets) == min(PER_GROUP, 3)
        assert all(0 <= offset <= held[place] for place, offset in offsets.items())
    assert {offset for offsets in commits.values() for offset in offsets.values()} > {0, 3}


def test_only_copying_grows_with_the_records() -> None:
    seconds = {"failback": {"new-copy": 4.0, "count": 2.0}, "switchover": {"drain": 1.0}}
    assert at_wanted(seconds, 2_000, 200_000) == {"failback new-copy": 400.0}
    assert at_wanted({"switchover": {"drain": 1.0}}, 2_000) == {}


def test_a_step_that_a_cell_lacks_is_empty() -> None:
    cell = Cell(partitions=1, groups=1, records=1, new=1)
    times = [
        CellTimes(cell=cell, seconds=seconds, copied=1, bytes_to_source=1, bytes_of_full_copy=1, at_wanted={})
        for seconds in ({"failover": {"take": 1.0}}, {"failover": {"take": 2.0, "stop": 0.25}})
    ]
    assert rows(times) == [("failover", "take", "1.0", "2.0"), ("failover", "stop", "", "0.2")]
