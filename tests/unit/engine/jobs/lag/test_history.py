"""The history of windows: every window once, even if it was written several times, half written or compacted."""

from pathlib import Path

import pytest

from engine.jobs.lag.history import History, most_complete
from engine.jobs.tables.care import care
from engine.jobs.tables.options import CareOptions
from tests.unit.engine.jobs.windows_tables import BASE_MS, HOUR_MS, add, copier_row, read, row

NOW_MS = BASE_MS + 24 * HOUR_MS


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(f"file:{tmp_path}/tables/lag")


def compact(history: History) -> None:
    care(history.table, CareOptions(), NOW_MS, most_complete)


def test_a_history_exists_once_something_was_stored(history: History) -> None:
    assert not history.exists()
    add(history, "g-0", [row(1)])
    assert history.exists()


def test_a_file_that_nobody_committed_is_not_there(history: History) -> None:
    add(history, "g-0", [row(1)])
    add(history, "g-1", [row(2)], commit=False)
    assert read(history) == [(1, 0, 6)]


def test_the_most_complete_of_a_window_counts_whatever_the_order(history: History) -> None:
    add(history, "g-1", [row(1, samples=6), row(2, samples=2)])
    add(history, "g-0", [row(1, samples=3)])
    add(history, "other-0", [row(1, samples=5), row(2, samples=4)])
    assert read(history) == [(1, 0, 6), (2, 0, 4)]
    compact(history)
    assert read(history) == [(1, 0, 6), (2, 0, 4)]
    (file,) = history.table.snapshot().files
    assert file.rows == 2, "after compaction the table itself has each window once"


def test_of_equal_numbers_of_samples_the_later_counts(history: History) -> None:
    """A checkpoint was lost, and samples of before are gone: windows at the edge have other samples."""
    add(history, "g-0", [row(1, lag=1, last_ms=5)])
    add(history, "g-1", [row(1, lag=2, last_ms=7)])
    (table,) = history.windows(BASE_MS, NOW_MS, ["lag_records"])
    assert table.column("lag_records").to_pylist() == [2]


def test_lanes_copiers_and_flows_have_windows_of_their_own(history: History) -> None:
    rows = [row(1), row(1, partition=1), row(1, topic="u"), row(1, flow="A->C"), copier_row(1), copier_row(1, "other")]
    add(history, "g-0", rows)
    add(history, "g-1", rows)
    compact(history)
    (whole,) = history.windows(BASE_MS, NOW_MS)
    assert whole.num_rows == 6
    (some,) = history.windows(BASE_MS, NOW_MS, flow="A->C")
    assert some.column("flow").to_pylist() == ["A->C"]
    assert list(history.windows(BASE_MS, NOW_MS, flow="C->D")) == []


def test_only_what_is_asked_for_is_read(history: History) -> None:
    add(history, "g-0", [row(1, lag=7)])
    (table,) = history.windows(BASE_MS, NOW_MS, ["lag_records", "not there"])
    assert set(table.column_names) == {
        *("flow", "topic", "partition", "copier_key", "window_start_ms", "samples", "last_ms", "lag_records")
    }


def test_a_batch_that_comes_again_after_its_compaction_doubles_nothing(history: History) -> None:
    add(history, "g-0", [row(1)])
    add(history, "g-1", [row(2)])
    compact(history)
    add(history, "g-1", [row(2)])
    assert read(history) == [(1, 0, 6), (2, 0, 6)]
    assert len(history.table.snapshot().files) == 1
