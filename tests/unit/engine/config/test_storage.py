"""The storage of Spark: accepted values, and the texts of refusals."""

from pathlib import Path

import pytest

from engine.config.storage import BadStorage, Storage


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("file:/var/lib/raymirror", "file:/var/lib/raymirror"),
        ("file:///var/lib/raymirror/", "file:/var/lib/raymirror"),
        ("file://localhost/var/lib", "file:/var/lib"),
        ("FILE:/var/my lib", "file:/var/my lib"),
        ("s3a://bucket", "s3a://bucket"),
        ("s3a://bucket/", "s3a://bucket"),
        ("gs://bucket/a/b/", "gs://bucket/a/b"),
    ],
)
def test_a_storage_is_read(text: str, uri: str) -> None:
    assert Storage.parse(text).uri == uri


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("/var/lib/x", "does not say what kind", "write file:/var/lib/x"),
        ("", "does not say what kind", "write file:/var/lib/raymirror, s3a:"),
        ("s3://bucket/x", "'s3' is not supported", "write s3a:"),
        ("gcs://bucket/x", "'gcs' is not supported", "write gs:"),
        ("hdfs://name/x", "'hdfs' is not supported", "s3a://bucket/raymirror or gs:"),
        ("file:here/there", "'file:here/there' is not an absolute path", "write e.g. file:/var/lib/raymirror"),
        ("file://host/there", "is not an absolute path", "write e.g. file:"),
        ("file:/", "is not an absolute path", "write e.g. file:"),
        ("s3a:/bucket/x", "names no bucket", "write e.g. s3a://bucket/raymirror"),
        ("gs:///x", "names no bucket", "write e.g. gs://bucket/raymirror"),
        ("s3a://bucket/year=*", "contains '*'", "use another name"),
        ("file:/var/lib/a\\b", r"contains '\\'", "use another name"),
    ],
)
def test_what_is_none_is_refused_with_what_would_be_right(text: str, wrong: str, right: str) -> None:
    with pytest.raises(BadStorage) as raised:
        Storage.parse(text)
    assert wrong in raised.value.wrong
    assert right in raised.value.right


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(BadStorage) as raised:
        Storage.parse("s3a://AKIA:geheim@bucket/x")
    assert "geheim" not in str(raised.value)
    assert "give the nodes a role" in str(raised.value)


def test_paths_are_of_an_area_and_names_stay_one_level(tmp_path: Path) -> None:
    storage = Storage.of_folder(tmp_path)
    assert storage.path("proofs", "A->B", "orders/eu", "day=2026-11-21") == (
        f"file:{tmp_path}/proofs/A-%3EB/orders%2Feu/day=2026-11-21"
    )
    assert storage.folder("audit", "A->B") == tmp_path / "audit" / "A-%3EB"
    assert storage.folder("history") == tmp_path / "history"


def test_a_bucket_is_no_folder() -> None:
    storage = Storage.parse("s3a://bucket/x")
    assert not storage.is_local
    assert storage.folder("checkpoints") is None
    assert storage.path("checkpoints") == "s3a://bucket/x/checkpoints"
