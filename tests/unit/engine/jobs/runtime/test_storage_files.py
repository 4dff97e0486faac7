"""The file system of a storage: a folder, a bucket that the environment describes, or what pyarrow finds."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs

from engine.jobs.runtime import storage_files
from engine.jobs.runtime.storage_access import ANSWER_S, CONNECT_S
from engine.jobs.runtime.storage_files import open_storage

URI = "s3a://bucket/raymirror/audit/"
VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "HOME")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What clients of buckets were made with."""
    seen: list[dict[str, Any]] = []

    def client(**options: Any) -> str:
        seen.append(options)
        return f"client {len(seen)}"

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fs, "S3FileSystem", client)
    monkeypatch.setattr(fs, "resolve_s3_region", lambda bucket: f"region of {bucket}")
    storage_files._s3.cache_clear()
    yield seen
    storage_files._s3.cache_clear()


def test_a_folder_is_one_of_this_machine() -> None:
    files, path = open_storage("file:/kept/audit")
    assert (type(files), path) == (fs.LocalFileSystem, "/kept/audit")


def test_a_bucket_of_amazon_is_asked_for_its_region(made: list[dict[str, Any]]) -> None:
    assert open_storage(URI) == ("client 1", "bucket/raymirror/audit")
    (options,) = made
    assert options["region"] == "region of bucket"
    assert (options["connect_timeout"], options["request_timeout"]) == (CONNECT_S, ANSWER_S)
    assert "endpoint_override" not in options


def test_a_store_of_ones_own_is_asked_where_the_environment_says(
    made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:7070")
    open_storage(URI)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store")
    monkeypatch.setenv("AWS_REGION", "here")
    open_storage(URI)
    assert [(one["endpoint_override"], one["scheme"], one["region"]) for one in made] == [
        ("127.0.0.1:7070", "http", "us-east-1"),
        ("store", "https", "here"),
    ]


def test_a_store_has_one_client_for_all_its_paths(made: list[dict[str, Any]]) -> None:
    assert open_storage(URI)[0] == open_storage("s3a://bucket/other")[0]
    assert len(made) == 1


def test_another_store_is_found_by_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def from_uri(uri: str) -> tuple[str, str]:
        asked.append(uri)
        return "files", "bucket/raymirror/audit/"

    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=from_uri))
    assert open_storage("gs://bucket/raymirror/audit") == ("files", "bucket/raymirror/audit")
    assert asked == ["gs://bucket/raymirror/audit"]
