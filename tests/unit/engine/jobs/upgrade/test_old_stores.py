"""All stores of earlier versions: what waits, and what was converted."""

from pathlib import Path

from engine.config.storage import Storage
from engine.jobs.tables.catalog import TABLES
from engine.jobs.upgrade.old_stores import OLD_STORES, Converted, Unconverted, convert, unconverted
from tests.unit.engine.jobs.old_windows import add_old
from tests.unit.engine.jobs.windows_tables import row


def test_stores_are_found_and_converted_once(tmp_path: Path) -> None:
    storage = Storage.of_folder(tmp_path)
    assert unconverted(storage) == []
    add_old(tmp_path / "history" / "lag" / "A" / "B", "g-0", [row(1)])
    place = f"file:{tmp_path}/history/lag/A/B"
    assert unconverted(storage) == [Unconverted(what="the history of lag", place=place)]
    assert list(convert(storage)) == [Converted(place=place, table="lag", rows=1)]
    assert (unconverted(storage), list(convert(storage))) == ([], [])


def test_each_goes_to_a_table_that_exists() -> None:
    assert {store.table for store in OLD_STORES} <= {spec.name for spec in TABLES}
