"""The reference to a configuration: a path, a digest and the plain settings; each actor loads the configuration by it.

An edit of the file while the mirror runs changes nothing until `raymirror reload` or `run`: restarted actors, also
those that Ray restarts, use the settings of the start. Only passwords are read from the current file.
"""

import hashlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from actors.local.session import absolute
from actors.model.messages import ConfigRef
from engine.base.errors import ConfigError, MirrorError
from engine.config.config import plain_settings, read_kept, reread_config
from engine.config.file.config_file import parse_file
from engine.config.file.properties import Properties
from engine.config.settings import MirrorConfig

IN_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray sets it in the entrypoint of a submitted job."""


class ConfigChanged(MirrorError):
    """The file differs from the one the mirror was started with, and the reference has no settings of that one."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(path, expected, found)
        self.path, self.expected, self.found = path, expected, found

    def __str__(self) -> str:
        return (
            f"{self.path}: changed since the mirror was started"
            f" (sha256 {self.expected[:12]} then, {self.found[:12]} now);"
            " restart the mirror to use the new file: raymirror stop, raymirror run"
        )


class ConfigMissing(MirrorError):
    """An actor's node does not have the configuration file."""

    def __init__(self, path: str, node: str) -> None:
        super().__init__(path, node)
        self.path, self.node = path, node

    def __str__(self) -> str:
        return (
            f"{self.path} is not on node {self.node}: mount the file there under the same path,"
            " or submit it with a job: ray job submit --working-dir"
        )


def refer(path: Path) -> ConfigRef:
    """Create a reference to a configuration file. Raises OSError, ConfigError.

    In a Ray job, the path of a file in the working directory is relative to it: every node has a copy of that
    directory, under a path of its own. Else symbolic links stay in it: what they lead to may change.
    """
    whole = absolute(path)
    data = whole.read_bytes()
    shipped = is_shipped(path, os.environ)
    return ConfigRef(
        path=str(path.resolve().relative_to(Path.cwd()) if shipped else whole),
        digest=digest_of(data),
        kept=plain_settings(parse_file(data, str(whole))),
    )


def digest_of(data: bytes) -> str:
    """Return the sha256 of a file, by which a mirror recognises its configuration."""
    return hashlib.sha256(data).hexdigest()


def is_shipped(path: Path, env: Mapping[str, str]) -> bool:
    """Whether a file was submitted to this Ray job with its working directory."""
    return IN_JOB in env and path.resolve().is_relative_to(Path.cwd())


def present(ref: ConfigRef) -> ConfigRef:
    """Return a reference to the same file as it is now. Raises ConfigMissing, OSError, ConfigError."""
    data = _read(ref)
    return ConfigRef(path=ref.path, digest=digest_of(data), kept=plain_settings(parse_file(data, ref.path)))


def load(ref: ConfigRef) -> MirrorConfig:
    """Read the configuration a reference names. Raises ConfigMissing, ConfigChanged, ConfigError."""
    data = _read(ref)
    digest = digest_of(data)
    if digest == ref.digest:
        return reread_config(parse_file(data, ref.path))
    if not ref.kept:
        raise ConfigChanged(ref.path, ref.digest, digest)
    try:
        present = parse_file(data, ref.path)
    except ConfigError:
        present = Properties(ref.path, {}, ())  # half written, for example: `read_kept` reports missing passwords
    return read_kept(ref.kept, present)


def is_edited(ref: ConfigRef) -> bool:
    """Whether the file now differs from the one the mirror was started with."""
    try:
        return digest_of(_read(ref)) != ref.digest
    except (OSError, ConfigMissing):
        return True


def _read(ref: ConfigRef) -> bytes:
    try:
        return Path(ref.path).read_bytes()
    except FileNotFoundError:
        raise ConfigMissing(ref.path, socket.gethostname()) from None
