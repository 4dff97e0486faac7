"""What users are told of a bucket that cannot be used, and what a check leaves behind."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from engine.jobs.runtime import storage_check
from engine.jobs.runtime.storage_check import (
    StorageUnusable,
    check_bucket,
    error_line,
    list_bucket,
    unusable,
    worded,
)

URI = "s3a://bucket/kept"
PYARROWS = (
    "When completing multiple part upload for key 'kept/x' in bucket 'bucket': AWS Error {} during PutObject operation:"
    " {} (Request ID: 847QQGHFYNTKNVS4)"
)


@pytest.mark.parametrize(
    ("said", "why", "right", "may_pass"),
    [
        (
            PYARROWS.format("NO_SUCH_BUCKET", "It does not exist."),
            "PutObject: NO_SUCH_BUCKET: It does not",
            "create",
            False,
        ),
        (PYARROWS.format("ACCESS_DENIED", "No."), "PutObject: ACCESS_DENIED: No.", "allow them s3:ListBucket", False),
        (PYARROWS.format("SIGNATURE_DOES_NOT_MATCH", "No."), "PutObject: SIGNATURE", "give the process AWS_", False),
        (PYARROWS.format("UNKNOWN (HTTP status 507)", "No space\nleft"), "No space left", "make room", True),
        (
            PYARROWS.format("NETWORK_CONNECTION", "curlCode: 7"),
            "NETWORK_CONNECTION: curlCode",
            "see that the store",
            True,
        ),
        ("something\n else", "something else", "see that the store runs", True),
        ("", "OSError", "see that the store runs", True),
    ],
)
def test_an_error_becomes_one_line_with_what_would_be_right(said: str, why: str, right: str, may_pass: bool) -> None:
    told = unusable(URI, OSError(said))
    assert str(told).startswith(f"raymirror.storage: {URI} cannot be used: ")
    assert why in told.why
    assert right in told.right
    assert told.may_pass == may_pass
    assert "\n" not in str(told)
    assert "Request ID" not in str(told)
    assert str(pickle.loads(pickle.dumps(told))) == str(told)


def test_an_error_of_deltalake_has_its_causes_in_one_line() -> None:
    """These texts are those of deltalake 1.6.3, shortened."""
    cause = "\n      \x1b[31m↳\x1b[0m "
    away = f"Kernel error -> Generic S3 error{cause}Error performing GET http://store{cause}Connection refused\n"
    assert error_line(OSError(away)) == (
        "Kernel error -> Generic S3 error: Error performing GET http://store: Connection refused"
    )
    answer = '<?xml version="1.0"?>\n<Error><Code>NoSuchBucket</Code><Message>No bucket.</Message><HostId>x</HostId>'
    told = unusable(URI, OSError(f"Kernel error{cause}404 Not Found{cause}{answer}"))
    assert (told.why, told.right) == ("NoSuchBucket: No bucket.", "create the bucket, or name another")
    assert error_line(OSError("Generic S3 error: refused\n   0: <unknown>\n   1: main")) == "Generic S3 error: refused"
    none = f"Operation not supported{cause}an error occurred while loading credentials{cause}disabled\n"
    assert "give the process AWS_ACCESS_KEY_ID" in unusable(URI, OSError(none)).right


@pytest.mark.parametrize("error", [OSError("away"), pa.ArrowInvalid("away")])
def test_what_pyarrow_raises_is_worded_and_nothing_else(error: Exception) -> None:
    with pytest.raises(StorageUnusable, match="away"), worded(URI):
        raise error
    with pytest.raises(ZeroDivisionError), worded(URI):
        raise ZeroDivisionError


def test_a_check_writes_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_check, "open_storage", lambda uri: (fs.LocalFileSystem(), str(tmp_path)))
    check_bucket(URI)
    list_bucket(URI)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(storage_check, "open_storage", lambda uri: (fs.LocalFileSystem(), str(tmp_path / "gone")))
    with pytest.raises(StorageUnusable, match="cannot be used"):
        check_bucket(URI)
    list_bucket(URI)  # a path without an object does not exist in a bucket, and that is fine
