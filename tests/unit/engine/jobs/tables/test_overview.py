"""The list of tables: what the log says of their sizes."""

from pathlib import Path

from engine.config.storage import Storage
from engine.jobs.lag.history import History
from engine.jobs.lag.options import lag_table_uri
from engine.jobs.tables.overview import overview
from tests.unit.engine.jobs.windows_tables import BASE_MS, WINDOW_MS, add, row


def test_tables_that_exist_are_listed_with_their_sizes(tmp_path: Path) -> None:
    storage = Storage.of_folder(tmp_path)
    assert overview(storage) == []
    history = History(lag_table_uri(storage))
    history.table.create()
    (empty,) = overview(storage)
    assert (empty.name, empty.files, empty.rows, empty.bytes, empty.newest_ms) == ("lag", 0, 0, 0, None)
    add(history, "g-0", [row(1), row(61)])
    (line,) = overview(storage)
    assert (line.files, line.rows, line.newest_ms, line.version) == (2, 2, BASE_MS + 61 * WINDOW_MS, 1)
    assert line.bytes == sum(path.stat().st_size for path in tmp_path.rglob("part-0.parquet"))
    assert line.uri == f"file:{tmp_path}/tables/lag"
