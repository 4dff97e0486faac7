"""The history of configs as tables: what is stored comes back, once, also after a kill between two commits."""

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from engine.base.clock import wall_ms
from engine.config.storage import Storage
from engine.flow.config_history.keeper import HistoryBatch, HistoryFailed
from engine.flow.config_history.rows import HistoryRows
from engine.flow.config_history.values import WriteTried
from engine.jobs.config_history.store import HistoryTables, history_store
from engine.jobs.sql.query import sql_session
from engine.jobs.sql.views import add_tables
from engine.jobs.tables.catalog import CONFIG_CHANGES, CONFIGS, DRIFT
from engine.jobs.tables.table import Table
from tests.unit.engine.config_files import mirror
from tests.unit.engine.flow.config_history.rounds import FLOW, Days

KEY = "retention.ms"
PLACE = ("orders", KEY)
DAY_MS = 86_400_000


class StoredDays(Days):
    """A history whose rounds are stored at once."""

    def __init__(self, tables: HistoryTables, at_ms: int) -> None:
        super().__init__()
        self.tables, self.at_ms, self.number = tables, at_ms, 0

    async def own(self, source: str, copy: str, *, failure: str = "") -> None:
        """See one topic; what differs was tried to set right."""
        tried = {PLACE: WriteTried(source, failure)} if source != copy else {}
        step = self.round({"orders": {KEY: source}}, {"orders": {KEY: copy}}, tried)
        if len(step.rows):
            await self.tables.write(HistoryBatch("w", self.number, step.rows))
            self.number += 1


def rows(storage: Storage, query: str) -> list[tuple[object, ...]]:
    with sql_session() as session:
        add_tables(session, storage)
        return list(session.ask(query).rows())


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of_folder(tmp_path)


async def test_the_state_comes_back_as_it_was(storage: Storage) -> None:
    tables = HistoryTables(storage)
    assert await tables.load(str(FLOW)) is None
    days = StoredDays(tables, wall_ms())
    await days.own("5", "5")
    await days.own("7", "9", failure="denied")
    assert await tables.load(str(FLOW)) == days.state
    assert await tables.load("X->Y") is None
    assert await tables.load("it's another") is None
    await days.own("7", "9")
    assert await tables.load(str(FLOW)) == days.state
    told = rows(storage, "SELECT found, outcome, settled_ms, day FROM drift")
    assert [(one[0], one[1], one[2] is not None) for one in told] == [("9", "set_right", True)]
    assert rows(storage, "SELECT old, new, outcome, latency_ms FROM config_changes") == [("5", "7", "copied", 1_050)]


async def test_a_batch_that_comes_again_changes_nothing_in_any_table(storage: Storage) -> None:
    tables, days = HistoryTables(storage), Days()
    days.round({"orders": {KEY: "5"}}, {"orders": {KEY: "5"}})
    step = days.round({"orders": {KEY: "7"}}, {"orders": {KEY: "9"}}, {PLACE: WriteTried("7")})
    batch = HistoryBatch("w", 3, step.rows)
    await tables.write(HistoryBatch("w", 3, HistoryRows(changes=step.rows.changes, drift=step.rows.drift)))
    await tables.write(batch)
    await tables.write(batch)
    for spec, count in ((CONFIGS, len(step.rows.values)), (CONFIG_CHANGES, 1), (DRIFT, 1)):
        snapshot = Table(storage.path("tables", spec.name), spec).snapshot()
        assert sum(file.rows for file in snapshot.files) == count, spec.name


async def test_rows_of_one_thing_count_once_also_after_past_days_became_one_file(storage: Storage) -> None:
    tables = HistoryTables(storage)
    days = StoredDays(tables, wall_ms() - 3 * DAY_MS)
    await days.own("5", "5")
    await days.own("5", "9", failure="denied")
    days.at_ms += DAY_MS
    await days.own("5", "9")
    await tables.care(wall_ms())
    files = Table(storage.path("tables", DRIFT.name), DRIFT).snapshot().files
    assert [file.rows for file in files] == [2]
    assert rows(storage, "SELECT outcome FROM drift") == [("set_right",)]
    assert await tables.load(str(FLOW)) == days.state


async def test_old_days_go_but_no_value_that_still_holds(storage: Storage) -> None:
    tables = HistoryTables(storage, keep_days=10)
    now_ms = wall_ms()
    days = StoredDays(tables, now_ms - 120 * DAY_MS)
    await days.own("5", "5")
    await days.own("5", "9")
    for ago in (85, 50, 15):
        days.at_ms = now_ms - ago * DAY_MS
        await days.own("5", "5")
    await tables.care(now_ms)
    assert rows(storage, "SELECT count(*) FROM drift") == [(1,)], "old, but the newest: a wrong clock must not take it"
    (oldest,) = rows(storage, "SELECT min(at_ms) FROM configs")[0]
    assert oldest == now_ms - 85 * DAY_MS + 1_000
    assert await tables.load(str(FLOW)) == days.state


async def test_a_storage_that_cannot_be_used_says_where_and_why(tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("in the way")
    tables = HistoryTables(Storage.of_folder(tmp_path))
    with pytest.raises(HistoryFailed) as told:
        await tables.write(HistoryBatch("w", 0, Days().round({"t": {}}, {}).rows))
    assert f"history of configs at file:{tmp_path}/tables/configs: cannot be written: " in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("damage", ["short", "other bytes", "gone"])
async def test_a_file_that_cannot_be_read_is_one_line(storage: Storage, damage: str) -> None:
    tables, days = HistoryTables(storage), Days()
    await tables.write(HistoryBatch("w", 0, days.round({"t": {"a": "1"}}, {}).rows))
    (file,) = Path(storage.path("tables", CONFIGS.name).removeprefix("file:")).glob("*/*.parquet")
    whole = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(whole[:100] if damage == "short" else b"x" * len(whole))
    with pytest.raises(HistoryFailed) as told:
        await tables.load(str(FLOW))
    assert "cannot be read: " in str(told.value)
    assert "\n" not in str(told.value)


async def test_a_table_of_a_newer_version_is_refused_in_one_line(storage: Storage) -> None:
    tables, days = HistoryTables(storage), Days()
    await tables.write(HistoryBatch("w", 0, days.round({"t": {}}, {}).rows))
    folder = storage.path("tables", CONFIGS.name).removeprefix("file:")
    DeltaTable(folder).alter.set_table_properties({"raymirror.format": "9"}, raise_if_not_exists=False)
    with pytest.raises(HistoryFailed) as told:
        await tables.load(str(FLOW))
    assert "\n" not in str(told.value)


def test_the_store_is_that_of_the_configuration(tmp_path: Path) -> None:
    assert history_store(mirror()) is None
    made = history_store(mirror(f"raymirror.storage = file:{tmp_path}\n"))
    assert made is not None
    assert made.where == f"file:{tmp_path}/tables/configs"


@pytest.mark.local
def test_writing_and_reading_need_no_pyarrow(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from pathlib import Path
from engine.config.storage import Storage
from engine.flow.config_history.keeper import HistoryBatch
from engine.jobs.config_history.store import HistoryTables
from tests.unit.engine.flow.config_history.rounds import Days
assert "deltalake" not in sys.modules
tables = HistoryTables(Storage.of_folder(Path({str(tmp_path)!r})))
asyncio.run(tables.write(HistoryBatch("w", 0, Days().round({{"t": {{"a": "1"}}}}, {{}}).rows)))
assert asyncio.run(tables.load("A->B")).source.topics == {{"t": {{"a": "1"}}}}
asyncio.run(tables.care(10**13))
print({{"pyarrow", "pyspark"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr
