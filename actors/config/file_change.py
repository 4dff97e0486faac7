"""Changes the file of a running mirror, as a request over HTTP asks: settings of a flow, or a new flow.

The file is written whole, next to the old one, and takes its place by a rename. A file that this process may not write
is never changed: a mount of Kubernetes, the working directory of a Ray job, `mirror.yaml`.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from actors.config.config_ref import ConfigMissing, digest_of
from actors.config.reload_errors import CannotReload
from actors.config.settings_change import ChangedFile, SettingChanges, changed_file, file_with_flow
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


def present_file(ref: ConfigRef) -> bytes:
    """Return the bytes of a mirror's file, which may be changed. Raises FileFixed, FileEdited, ConfigMissing."""
    path = Path(ref.path)
    if why := _why_fixed(path):
        raise FileFixed(ref.path, why)
    data = path.read_bytes()
    if digest_of(data) != ref.digest:
        raise FileEdited(ref.path)
    return data


def with_changes(
    flow: FlowName, changes: SettingChanges, data: bytes, file: str, before: Mapping[str, str] | None = None
) -> ChangedFile:
    """Return a file in which a flow has other settings. Raises what `changed_file` raises."""
    return changed_file(data, file, flow, changes, before)


def with_flow(flow: FlowName, settings: Mapping[str, str], data: bytes, file: str) -> ChangedFile:
    """Return a file with a new flow, whose clusters were asked as by a start. Raises CannotChange, ConfigError.

    Raises CannotReload with every problem of the clusters. It blocks, so call it in a thread.
    """
    from actors.config.checks import (  # imports clients of Kafka, which are else not needed
        ask_clusters,
        unchecked_flows,
    )

    found = file_with_flow(data, file, flow, settings)
    absent: list[str] = []
    config = msgspec.structs.replace(found.config, flows=[found.config.flow(flow)])
    try:
        config, checked = ask_clusters(config, absent.append)
    except MirrorError as problem:
        raise CannotReload((str(problem),)) from problem
    if unchecked_flows(config, checked):
        why = "; ".join(absent) or "one of its clusters is unreachable"
        raise CannotReload((f"{flow} cannot be checked: {why}; try again when both clusters answer",))
    return found


def _why_fixed(path: Path) -> str:
    if not path.is_absolute():
        return "it was submitted with the working directory of a Ray job"
    if is_yaml(str(path)):
        return "only .properties files are changed"
    if not path.exists():
        raise ConfigMissing(str(path), os.uname().nodename)
    if not (os.access(path, os.W_OK) and os.access(path.resolve().parent, os.W_OK)):
        return "it may only read the file or its folder"
    return ""


def take_back(path: Path, before: bytes, after: bytes) -> None:
    """Replace a file by what it was, unless somebody else has changed it since. Raises OSError, FileFixed."""
    with contextlib.suppress(FileEdited):
        replace_file(path, after, before)


def replace_file(path: Path, before: bytes, data: bytes) -> None:
    """Replace a file at once, with the same mode and owner; of a link, the file that it leads to.

    Raises FileEdited if it is not `before` any more, FileFixed, OSError; the old file is whole then.
    """
    real = path.resolve()
    found = real.stat()
    part = real.with_name(f".{real.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # of a process with the same number that was killed: in containers they repeat
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            _give_to_owner(out.fileno(), found, path)
            os.fchmod(out.fileno(), stat.S_IMODE(found.st_mode))
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if real.read_bytes() != before:
            raise FileEdited(str(path))
        _take_place(part, real, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _take_place(part: Path, real: Path, path: Path) -> None:
    """Rename a file over another. Raises FileFixed: a file that is mounted alone into a container stays."""
    try:
        part.replace(real)
    except OSError as error:
        raise FileFixed(str(path), f"it cannot be replaced ({error.strerror})") from error


def _give_to_owner(handle: int, found: os.stat_result, path: Path) -> None:
    """Give a new file the owner and the group of the old one, or at least its group. Raises FileFixed."""
    for owner in (found.st_uid, -1):
        with contextlib.suppress(PermissionError):
            os.fchown(handle, owner, found.st_gid)
            return
    raise FileFixed(str(path), "it cannot give the file back to its owner or group, who could then not read it")
