"""The history of earlier versions: its windows get into the table once, whatever interrupts the conversion."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.base.errors import NewerFormat
from engine.config.storage import Storage
from engine.jobs.lag.history import History
from engine.jobs.lag.options import lag_table_uri
from engine.jobs.tables.table import Table
from engine.jobs.upgrade.old_files import Added, OldFileDamaged
from engine.jobs.upgrade.old_history import OldHistory, is_unconverted, old_history_uri
from policies.model import FlowName
from tests.unit.engine.jobs.old_windows import add_old
from tests.unit.engine.jobs.windows_tables import add, read, row


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of_folder(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "history" / "lag" / "A" / "B"


def history(storage: Storage) -> History:
    return History(lag_table_uri(storage))


def convert(storage: Storage) -> list[int]:
    return [OldHistory().convert(storage, place).rows for place in OldHistory().places(storage)]


def test_every_window_that_counted_gets_into_the_table_once(storage: Storage, place: Path) -> None:
    files = add_old(place, "g-0", [row(1), row(61)])
    add_old(place, "g-1", [row(2, samples=3)])
    add_old(place, "g-2", [row(2, samples=6)])
    add_old(place, "compact-1", [row(1)], removes=tuple(files[:1]))
    add_old(place, "g-3", [row(9)], commit=False)
    other = place.with_name("C")
    add_old(other, "g-0", [row(5, flow="A->C")])
    assert OldHistory().places(storage) == [f"{storage.uri}/history/lag/A/B", f"{storage.uri}/history/lag/A/C"]
    assert convert(storage) == [4, 1]
    assert read(history(storage)) == [(1, 0, 6), (2, 0, 6), (5, 0, 6), (61, 0, 6)]
    assert convert(storage) == []
    assert len(list(place.rglob("*.parquet"))) == 6, "the old files stay"


def test_a_flow_with_any_name_is_found(storage: Storage) -> None:
    uri = old_history_uri(storage, FlowName("a b", "c/d"))
    assert not is_unconverted(uri)
    add_old(Path(uri.removeprefix("file:")), "g-0", [row(1)])
    assert is_unconverted(uri)
    assert OldHistory().places(storage) == [uri]
    assert convert(storage) == [1]
    assert not is_unconverted(uri)


@pytest.mark.parametrize("kill", range(4))
def test_an_interrupted_conversion_continues(
    storage: Storage, place: Path, kill: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_old(place, "g-0", [row(1), row(61), row(121)])
    left, commit = [kill], Table.commit

    def killed(self: Table, *given: object) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return commit(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Table, "commit", killed)
        if kill < 3:
            with pytest.raises(KeyboardInterrupt):
                convert(storage)
        else:
            assert convert(storage) == [3]
    assert is_unconverted(f"{storage.uri}/history/lag/A/B") is (kill < 3)
    assert convert(storage) == ([3 - kill] if kill < 3 else [])
    assert read(history(storage)) == [(1, 0, 6), (61, 0, 6), (121, 0, 6)]
    assert sum(file.rows for file in history(storage).table.snapshot().files) == 3, "no row is there twice"


def test_a_mirror_of_this_version_may_store_meanwhile(storage: Storage, place: Path) -> None:
    add_old(place, "g-0", [row(1, samples=6), row(2, samples=3)])
    add(history(storage), "g-1", [row(2, samples=6), row(3)])
    convert(storage)
    assert read(history(storage)) == [(1, 0, 6), (2, 0, 6), (3, 0, 6)]


def test_what_cannot_be_read_is_named_and_nothing_is_marked_as_done(storage: Storage, place: Path) -> None:
    (file,) = add_old(place, "g-0", [row(1)])
    commit = place / "commits" / "g-1.json"
    commit.write_text('{"at_ms":1,"format":9}')
    with pytest.raises(NewerFormat, match=r"g-1\.json"):
        convert(storage)
    commit.write_text("")
    with pytest.raises(OldFileDamaged, match=r"g-1\.json is no valid file .* convert again"):
        convert(storage)
    commit.unlink()
    (place / "data" / file).write_bytes(b"PAR1")
    with pytest.raises(OldFileDamaged, match=r"part-0\.parquet is no valid file"):
        convert(storage)
    assert OldHistory().places(storage) != []
    (place / "data" / file).rename(place / "moved-away")
    place_uri = f"{storage.uri}/history/lag/A/B"
    assert OldHistory().convert(storage, place_uri) == Added(missing=1), "as the message says"
    assert OldHistory().places(storage) == []


def test_files_that_a_mirror_of_an_earlier_version_still_adds_are_added_too(
    storage: Storage, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To an hour that is done, while a conversion waits to continue, and after it."""
    add_old(place, "g-0", [row(1), row(61)])
    commit, left = Table.commit, [1]

    def killed(self: Table, *given: object) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return commit(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Table, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            convert(storage)
    add_old(place, "g-1", [row(2)])
    assert convert(storage) == [2]
    add_old(place, "g-2", [row(3)])
    assert is_unconverted(f"{storage.uri}/history/lag/A/B")
    assert convert(storage) == [1]
    assert convert(storage) == []
    assert read(history(storage)) == [(1, 0, 6), (2, 0, 6), (3, 0, 6), (61, 0, 6)]


@pytest.mark.parametrize("folder", ["hour=zzz", "hour=2026-05-01", "other"])
def test_a_file_in_a_folder_of_no_hour_is_named(storage: Storage, place: Path, folder: str) -> None:
    add_old(place, "g-0", [row(1)])
    told = {"at_ms": 1, "adds": [f"{folder}/part-0.parquet"], "format": 1}
    (place / "commits" / "g-1.json").write_bytes(msgspec.json.encode(told))
    with pytest.raises(
        OldFileDamaged, match=rf"{folder}/part-0\.parquet is no valid file \(its folder names no hour\)"
    ):
        convert(storage)


def test_a_file_of_other_columns_is_named(storage: Storage, place: Path) -> None:
    (file,) = add_old(place, "g-0", [row(1)])
    pq.write_table(pa.table({"x": [1]}), place / "data" / file)
    with pytest.raises(OldFileDamaged, match=r"part-0\.parquet is no valid file"):
        convert(storage)
