"""All stores of earlier versions: what waits, and what was converted."""

from pathlib import Path

from engine.config.storage import Storage
from engine.jobs.tables.catalog import TABLES
from engine.jobs.tables.listing import Unconverted
from engine.jobs.upgrade.old_stores import OLD_STORES, Converted, NotConverted, convert, unconverted
from tests.unit.engine.jobs.audit.test_store import row as audit_row
from tests.unit.engine.jobs.old_windows import add_old
from tests.unit.engine.jobs.upgrade.test_old_audit import write_old
from tests.unit.engine.jobs.windows_tables import row


def test_stores_are_found_and_converted_once(tmp_path: Path) -> None:
    storage = Storage.of_folder(tmp_path)
    assert unconverted(storage) == []
    add_old(tmp_path / "history" / "lag" / "A" / "B", "g-0", [row(1)])
    place = f"file:{tmp_path}/history/lag/A/B"
    assert unconverted(storage) == [Unconverted(what="the history of lag", place=place)]
    assert list(convert(storage)) == [Converted(place=place, table="lag", rows=1)]
    assert unconverted(storage) == []
    assert list(convert(storage)) == []


def test_a_damaged_store_hinders_no_other(tmp_path: Path) -> None:
    storage = Storage.of_folder(tmp_path)
    for flow in ("B", "C"):
        add_old(tmp_path / "history" / "lag" / "A" / flow, "g-0", [row(1, flow=f"A->{flow}")])
    write_old(storage, "1970-01-01", "1", audit_row("t", 5))
    commit = tmp_path / "history" / "lag" / "A" / "B" / "commits" / "g-1.json"
    commit.write_text("")
    damaged, *done = convert(storage)
    assert isinstance(damaged, NotConverted)
    assert (damaged.place, "g-1.json is no valid file" in damaged.why) == (f"file:{tmp_path}/history/lag/A/B", True)
    assert [(one.place.removeprefix(f"file:{tmp_path}/"), one.rows) for one in done if isinstance(one, Converted)] == [
        ("history/lag/A/C", 1),
        ("audit", 1),
    ]
    commit.unlink()
    assert [one.place for one in convert(storage)] == [damaged.place]


def test_each_goes_to_a_table_that_exists() -> None:
    assert {store.table for store in OLD_STORES} <= {spec.name for spec in TABLES}
