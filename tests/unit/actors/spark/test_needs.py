"""Missing requirements of Spark are reported with the right value, before it starts."""

from pathlib import Path

import pytest

from actors.spark import needs
from actors.spark.needs import SparkLacks, bucket_jars, check_jars, check_storage
from deploy.local import jars
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


def test_no_storage_needs_nothing() -> None:
    check_storage(None)


BUCKET = Storage.parse("s3a://bucket/kept")


def test_a_bucket_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(needs, "check_bucket", asked.append)
    check_storage(BUCKET)
    assert asked == ["s3a://bucket/kept"]


def test_spark_gets_the_jars_of_buckets_only_for_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "s3_jar_paths", lambda: (Path("/cache/hadoop-aws.jar"),))
    assert bucket_jars(BUCKET) == (Path("/cache/hadoop-aws.jar"),)
    assert bucket_jars(BUCKET, ["/opt/hadoop-aws-3.3.4.jar"]) == (), "the user has brought others"
    assert bucket_jars(BUCKET, ["/opt/other.jar"]) != ()
    assert bucket_jars(Storage.parse("gs://bucket/kept")) == bucket_jars(None) == ()
    assert bucket_jars(Storage.parse("file:/kept")) == ()


def test_jars_that_are_missing_name_the_command_that_brings_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYMIRROR_CACHE", str(tmp_path))
    with pytest.raises(
        SparkLacks, match=rf"jars for s3a://bucket/kept are not in {tmp_path} on .*`raymirror setup s3`"
    ):
        bucket_jars(BUCKET)
