"""Changes settings of a flow in the file of a running mirror, as a request over HTTP asks.

The file is written whole, next to the old one, and takes its place by a rename. A file that this process may not write
is never changed: a mount of Kubernetes, the working directory of a Ray job, `mirror.yaml`.
"""

import os
import stat
from pathlib import Path

from actors.config.config_ref import ConfigMissing, digest_of
from actors.config.settings_change import ChangedFile, SettingChanges, changed_file
from actors.model.messages import ConfigRef
from engine.base.errors import MirrorError
from engine.config.file.file_kind import is_yaml
from policies.model import FlowName


class FileFixed(MirrorError):
    """The configuration file cannot be written by the mirror."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return (
            f"the mirror cannot change its file {self.path}: {self.why}. Change the setting where the file comes from,"
            f" then: raymirror reload {self.path}"
        )


class FileEdited(MirrorError):
    """The file was edited since the mirror read it, so a change would apply that edit too."""

    exit_code = 1

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} was edited and is not applied yet; apply it first: raymirror reload {self.path}"


def planned(ref: ConfigRef, flow: FlowName, changes: SettingChanges) -> tuple[bytes, ChangedFile]:
    """Return the present bytes of a mirror's file, and the changed file; nothing is written.

    Raises FileFixed, FileEdited, CannotChange, ConfigError, ConfigMissing, OSError.
    """
    path = Path(ref.path)
    if why := _why_fixed(path):
        raise FileFixed(ref.path, why)
    data = path.read_bytes()
    if digest_of(data) != ref.digest:
        raise FileEdited(ref.path)
    return data, changed_file(data, ref.path, flow, changes)


def _why_fixed(path: Path) -> str:
    if not path.is_absolute():
        return "it was submitted with the working directory of a Ray job"
    if is_yaml(str(path)):
        return "only .properties files are changed"
    if not path.exists():
        raise ConfigMissing(str(path), os.uname().nodename)
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return "it may only read the file or its folder"
    return ""


def take_back(path: Path, before: bytes, after: bytes) -> None:
    """Replace a file by what it was, unless somebody else has changed it since. Raises OSError."""
    if path.read_bytes() == after:
        replace_file(path, before)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file at once, with the same mode. Raises OSError; the old file is whole then."""
    mode = stat.S_IMODE(path.stat().st_mode)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            os.fchmod(out.fileno(), mode)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
