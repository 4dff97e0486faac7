"""The Parquet files of earlier versions: complete ones only, with the columns that are wanted."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.jobs.upgrade.old_files import OldFileDamaged, OldFiles

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


@pytest.fixture
def files(tmp_path: Path) -> OldFiles:
    return OldFiles(f"file:{tmp_path}/old")


def write(tmp_path: Path, path: str, **columns: list[object]) -> None:
    file = tmp_path / "old" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)


def test_a_folder_that_does_not_exist_is_empty(files: OldFiles) -> None:
    assert (files.paths(), files.folders(), files.late(["x"])) == ([], [], ["x"])


def test_files_that_are_not_complete_are_passed_over(files: OldFiles, tmp_path: Path) -> None:
    for path in ("x/1.parquet", "2.parquet", "x/_3.parquet", "_temporary/0/4.parquet", ".5.parquet"):
        write(tmp_path, path, a=[1])
    (tmp_path / "old" / "x" / "6.parquet.part").write_bytes(b"half")
    (tmp_path / "old" / "x" / "_SUCCESS").touch()
    assert (files.paths(), files.folders()) == (["2.parquet", "x/1.parquet"], ["_temporary", "x"])


def test_columns_are_those_that_are_wanted(files: OldFiles, tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", c=["other"], a=pa.array([7], pa.int32()))
    assert files.read("1.parquet", SCHEMA, "a").to_pylist() == [{"a": 7, "b": None}]


def test_a_broken_file_is_named(files: OldFiles, tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", a=[1])
    (tmp_path / "old" / "1.parquet").write_bytes(b"no parquet")
    with pytest.raises(OldFileDamaged, match=r"old/1\.parquet is no valid file \(.*move it out of this folder") as told:
        files.read("1.parquet", SCHEMA, "a")
    assert "\n" not in str(told.value)
    with pytest.raises(FileNotFoundError):
        files.read("2.parquet", SCHEMA, "a")


@pytest.mark.parametrize("columns", [{"x": [1]}, {"a": [None, 1]}, {"a": ["text"]}])
def test_a_file_without_what_each_row_needs_is_named(
    files: OldFiles, tmp_path: Path, columns: dict[str, list[object]]
) -> None:
    write(tmp_path, "1.parquet", **columns)
    with pytest.raises(OldFileDamaged, match=r"old/1\.parquet is no valid file"):
        files.read("1.parquet", SCHEMA, "a")


def test_a_mark_lists_what_is_converted_and_a_file_that_came_later_is_found(files: OldFiles, tmp_path: Path) -> None:
    write(tmp_path, "1.parquet", a=[1])
    files.mark("file:/tables/x", ["1.parquet"])
    write(tmp_path, "2.parquet", a=[1])
    assert files.paths() == ["1.parquet", "2.parquet"]
    assert OldFiles(files.uri).late(files.paths()) == ["2.parquet"]
    files.mark("file:/tables/x", ["2.parquet"])
    assert files.late(files.paths()) == []


@pytest.mark.parametrize(
    ("mark", "late"), [('{"at_ms":1,"table":"t"}', []), ('{"at_m', ["1.parquet"]), ("", ["1.parquet"])]
)
def test_a_mark_without_a_list_means_all_and_one_that_was_cut_off_nothing(
    files: OldFiles, tmp_path: Path, mark: str, late: list[str]
) -> None:
    write(tmp_path, "1.parquet", a=[1])
    (tmp_path / "old" / "converted.json").write_text(mark)
    assert files.late(files.paths()) == late
