"""Checks that a storage in a bucket can be written, and words the errors of stores for users."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from engine.base.errors import MirrorError
from engine.base.redaction import redacted
from engine.jobs.runtime.storage_files import open_storage

_RIGHTS = (
    "see that the process has credentials (docs/object-storage.md), and allow them s3:ListBucket on the bucket, and"
    " s3:GetObject, s3:PutObject and s3:DeleteObject below the path"
)
_CREDENTIALS = (
    "give the process AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role (docs/object-storage.md)"
)
# Parts of the errors of stores and clients, in capitals without underscores; what would be right; may waiting help.
_KNOWN = (
    (("NOSUCHBUCKET",), "create the bucket, or name another", False),
    (("INVALIDACCESSKEYID", "SIGNATURE", "ACCESS KEY", "LOADING CREDENTIALS"), _CREDENTIALS, False),
    (("ACCESSDENIED", "FORBIDDEN"), _RIGHTS, False),
    (("QUOTA", "NO SPACE", "INSUFFICIENT"), "make room in the store", True),
)
_OF_ARROW = re.compile(r".*?AWS Error (?P<code>.+?) during (?P<request>\w+) operation: (?P<text>.*)", re.DOTALL)
_OF_DELTALAKE = re.compile(r"\s*\x1b\[\d+m↳\x1b\[0m\s*")
"""What deltalake puts before each cause of an error, on a line of its own."""
_OF_RUST = re.compile(r"\n\s*0: .*", re.DOTALL)
"""A trace of Rust's calls."""
_OF_STORE = re.compile(r".*<Code>(?P<code>\w+)</Code>\s*<Message>(?P<text>[^<]*)</Message>.*", re.DOTALL)
_REQUEST_ID = re.compile(r" ?\(Request ID: \w*\)")
_AWAY = "see that the store runs and that AWS_ENDPOINT_URL names it"


class StorageUnusable(MirrorError):
    """A storage cannot be used: its URI, why, what would be right, and whether waiting may help."""

    def __init__(self, uri: str, why: str, right: str, may_pass: bool = True) -> None:
        super().__init__(uri, why, right, may_pass)
        self.uri, self.why, self.right, self.may_pass = uri, why, right, may_pass

    def __str__(self) -> str:
        return f"raymirror.storage: {self.uri} cannot be used: {self.why}; {self.right}"


def unusable(uri: str, error: BaseException) -> StorageUnusable:
    """Return the error of a store or of its client as one line for users."""
    why = error_line(error)
    words = why.upper().replace("_", "")
    known = ((right, may_pass) for parts, right, may_pass in _KNOWN if any(part in words for part in parts))
    right, may_pass = next(known, (_AWAY, True))
    return StorageUnusable(uri, why, right, may_pass)


def error_line(error: BaseException) -> str:
    """Return the text of an error of pyarrow or deltalake as one line, without what only a program reads."""
    text = _OF_DELTALAKE.sub(": ", _OF_RUST.sub("", redacted(str(error))))
    if of_store := _OF_STORE.fullmatch(text):
        text = f"{of_store['code']}: {of_store['text']}"
    elif of_arrow := _OF_ARROW.fullmatch(text):
        text = f"{of_arrow['request']}: {of_arrow['code']}: {of_arrow['text']}"
    return " ".join(_REQUEST_ID.sub("", text).split()) or type(error).__name__


@contextmanager
def worded(uri: str) -> Iterator[None]:
    """Turn errors of pyarrow, while a storage is used, into StorageUnusable."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise unusable(uri, error) from None


def check_bucket(uri: str) -> None:
    """Write and delete a small object below the URI. Raises StorageUnusable, BadStorageAccess."""
    with worded(uri):
        files, root = open_storage(uri)
        probe = f"{root}/.raymirror-{uuid4().hex}"
        with files.open_output_stream(probe) as stream:
            stream.write(b"raymirror checks that it may write here")
        files.delete_file(probe)


def list_bucket(uri: str) -> None:
    """List what is right below the URI; changes nothing. Raises StorageUnusable, BadStorageAccess."""
    import pyarrow.fs as arrow_fs

    with worded(uri):
        files, root = open_storage(uri)
        files.get_file_info(arrow_fs.FileSelector(root, allow_not_found=True))
