"""Missing requirements of Spark are reported with the right value, before it starts."""

from pathlib import Path

import pytest

from actors.spark.needs import SparkLacks, check_jars, check_storage
from engine.config.storage import Storage


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    there, away = tmp_path / "there.jar", tmp_path / "away.jar"
    there.touch()
    check_jars([str(there)])
    with pytest.raises(
        SparkLacks, match=rf"raymirror\.spark\.jars names {away}, which cannot be read on .*; put the jar"
    ):
        check_jars([str(there), str(away)])


def test_a_folder_is_made_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    check_storage(Storage.of_folder(folder))
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        SparkLacks, match=r"raymirror\.storage: .*/file/kept cannot be written on .* \(Not a directory\)"
    ):
        check_storage(Storage.of_folder(tmp_path / "file" / "kept"))


@pytest.mark.parametrize("storage", [None, Storage.parse("s3a://bucket/kept")])
def test_what_is_no_folder_is_left_to_those_who_use_it(storage: Storage | None) -> None:
    check_storage(storage)
