"""The folder of everything that Spark stores: `raymirror.storage`, which every node sees.

<storage>/checkpoints   checkpoints of streaming queries; raymirror rebuilds lost ones from the progress topics
<storage>/tables        tables of results, in the Delta Lake format: the history of lag, the audit trail, the proofs
<storage>/history, <storage>/audit, <storage>/proofs        what earlier versions stored
"""

import re
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import msgspec

from engine.base.errors import MirrorError

KEY = "raymirror.storage"
"""The setting that names the storage."""
Area = Literal["checkpoints", "tables", "history", "audit", "proofs"]
SCHEMES = ("file", "s3a", "gs")
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?P<rest>.*)", re.DOTALL)
_GLOBBED = re.compile(r"[*?\[\]{}#%\\]")
"""Characters with a special meaning in a path of Spark or in a URI. deltalake makes a slash of a backslash."""
_BUCKET = re.compile(r"//(?P<bucket>[^/:]+)(?P<path>/.*)?", re.DOTALL)
_FILE = re.compile(r"(?://(?:localhost)?)?(?P<path>/[^/].*)", re.DOTALL)
_EXAMPLES = "file:/var/lib/raymirror, s3a://bucket/raymirror or gs://bucket/raymirror"


class BadStorage(MirrorError):
    """A text does not name a storage: what is wrong, and what would be right."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(wrong, right)
        self.wrong, self.right = wrong, right

    def __str__(self) -> str:
        return f"raymirror.storage: {self.wrong}; {self.right}"


class NoStorage(MirrorError):
    """No storage is set, but something must be stored."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"raymirror.storage is not set, and {self.what} is kept there; write {_EXAMPLES}"


class Storage(msgspec.Struct, frozen=True):
    """The place of checkpoints, history, audit and proofs: a URI for Spark, without a slash at its end."""

    uri: str

    @classmethod
    def parse(cls, text: str) -> "Storage":
        """Parse a user's text. Raises BadStorage, which does not repeat a possible password."""
        found = _URI.fullmatch(text)
        if found is None:
            right = f"write file:{text}" if text.startswith("/") else f"write {_EXAMPLES}"
            raise BadStorage(f"{text!r} does not say what kind of storage it is", right)
        scheme, rest = found["scheme"].lower(), found["rest"]
        if scheme not in SCHEMES:
            raise BadStorage(f"storage of kind {scheme!r} is not supported", _instead(scheme))
        if scheme != "file" and "@" in rest:
            right = "remove them: give the nodes a role, or use the settings of the store"
            raise BadStorage(f"the {scheme} address contains a user name or a password", right)
        if odd := _GLOBBED.search(rest):
            raise BadStorage(
                f"its path contains {odd[0]!r}, which not every client reads literally", "use another name"
            )
        return cls(_file_uri(rest) if scheme == "file" else _bucket_uri(scheme, rest))

    @classmethod
    def of_folder(cls, folder: Path) -> "Storage":
        """Return the storage in a folder of this machine; the path must be absolute. Raises BadStorage."""
        return cls.parse(f"file:{folder}")

    @property
    def is_local(self) -> bool:
        """Whether the storage is a local path, which other nodes may or may not see."""
        return self.uri.startswith("file:")

    def path(self, area: Area, *parts: str) -> str:
        """Return the URI of something in an area; each part is the name of one level and may contain any character."""
        return "/".join([self.uri, area, *(quote(part, safe="=") for part in parts)])

    def folder(self, area: Area, *parts: str) -> Path | None:
        """Return what `path` returns, as a path of this machine; None if the storage is not local."""
        return Path(self.path(area, *parts).removeprefix("file:")) if self.is_local else None


def needed(storage: Storage | None, what: str) -> Storage:
    """Return the storage that stores `what`. Raises NoStorage if none is set."""
    if storage is None:
        raise NoStorage(what)
    return storage


def _file_uri(rest: str) -> str:
    found = _FILE.fullmatch(rest)
    if found is None:
        raise BadStorage(f"'file:{rest}' is not an absolute path", "write e.g. file:/var/lib/raymirror")
    return "file:" + found["path"].rstrip("/")


def _bucket_uri(scheme: str, rest: str) -> str:
    found = _BUCKET.fullmatch(rest)
    if found is None:
        raise BadStorage(f"'{scheme}:{rest}' names no bucket", f"write e.g. {scheme}://bucket/raymirror")
    return f"{scheme}://{found['bucket']}{(found['path'] or '').rstrip('/')}"


def _instead(scheme: str) -> str:
    meant = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}.get(scheme)
    return f"write {meant}:" if meant else f"write {_EXAMPLES}"
