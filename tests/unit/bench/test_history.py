"""The bench of the lag history: both layouts have the same windows, and what has no end is stopped."""

import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from bench.history import command
from bench.history.rows import HOUR_MS, hour_of
from bench.history.stores import read_stored, storage_uri, store
from engine.config.storage import Storage
from engine.jobs.lag.history import History
from engine.jobs.lag.options import lag_table_uri
from engine.jobs.upgrade.old_history import OldHistory


def _windows(storage: Storage, begin_ms: int) -> list[dict[str, object]]:
    history = History(lag_table_uri(storage))
    return [row for table in history.windows(begin_ms, begin_ms + 2 * HOUR_MS) for row in table.to_pylist()]


def test_both_layouts_have_every_window_of_every_hour(tmp_path: Path) -> None:
    stored = store(tmp_path, 3, 2, commits=True)
    assert read_stored(tmp_path) == stored
    made = [
        row for hour in (0, 1) for table in hour_of(3, stored.begin_ms + hour * HOUR_MS) for row in table.to_pylist()
    ]
    assert len(made) == stored.rows == 3 * 2 * 120
    table, old = (Storage.parse(storage_uri(tmp_path, layout)) for layout in ("table", "commits"))
    assert _windows(table, stored.begin_ms) == made
    assert [OldHistory().convert(old, place).rows for place in OldHistory().places(old)] == [stored.rows]
    assert _windows(old, stored.begin_ms) == made


def test_a_size_counts_the_logs_too(tmp_path: Path) -> None:
    sizes = store(tmp_path, 1, 2, commits=True).sizes
    assert (sizes["commits"].files, sizes["commits"].parquet_files) == (4, 2)
    assert (sizes["table"].files, sizes["table"].parquet_files) == (5, 2)
    assert sizes["table"].parquet_bytes == sizes["commits"].parquet_bytes < sizes["commits"].bytes


def test_a_folder_that_is_not_finished_is_no_history(tmp_path: Path) -> None:
    assert read_stored(tmp_path) is None


def test_times_are_those_of_the_history_however_long_ago_it_was_stored(tmp_path: Path) -> None:
    stored = msgspec.structs.replace(store(tmp_path, 1, 2, commits=False), begin_ms=0, end_ms=2 * HOUR_MS)
    words = {name: words for name, (words, _) in command.commands(stored).items()}
    assert words["lag of an hour"][-1] == "1970-01-01T01:00:00Z"
    assert words["lag of a day"][-1] == "1970-01-01T00:00:00Z"
    assert "1970-01-01T00:00:00Z" in words["report of all"]


@pytest.mark.local
@pytest.mark.parametrize(("most_s", "most_mib", "why"), [(0.0, 1e6, "not ended"), (1e6, 0.0, "MiB")])
def test_a_command_that_takes_too_much_is_stopped_and_said_so(most_s: float, most_mib: float, why: str) -> None:
    ran = psutil.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    found = command.watched(ran, time.monotonic(), most_s=most_s, most_mib=most_mib)
    assert why in found["stopped"]
    assert not ran.is_running()
