"""The configuration by reference: a path and a digest, read again by each actor."""

import hashlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from actors.messages import ConfigRef
from engine.config import load_config
from engine.errors import MirrorError
from engine.settings import MirrorConfig

IN_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray sets it in the entrypoint of a submitted job."""


class ConfigChanged(MirrorError):
    """The file is not the one the mirror was started with."""

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(path, expected, found)
        self.path, self.expected, self.found = path, expected, found

    def __str__(self) -> str:
        return (
            f"{self.path}: changed since the mirror was started"
            f" (sha256 {self.expected[:12]} then, {self.found[:12]} now);"
            " restart the mirror to use the new one: raymirror stop, raymirror run"
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
    """Make a reference to a configuration file. Raises OSError.

    In a Ray job, a file below the working directory is named from there: every node has a copy of that directory, and
    each may have it elsewhere.
    """
    absolute = path.resolve()
    digest = hashlib.sha256(absolute.read_bytes()).hexdigest()
    shipped = is_shipped(path, os.environ)
    return ConfigRef(path=str(absolute.relative_to(Path.cwd()) if shipped else absolute), digest=digest)


def is_shipped(path: Path, env: Mapping[str, str]) -> bool:
    """Whether a file came to this Ray job with its working directory."""
    return IN_JOB in env and path.resolve().is_relative_to(Path.cwd())


def load(ref: ConfigRef) -> MirrorConfig:
    """Read the configuration a reference names. Raises ConfigMissing, ConfigChanged, ConfigError."""
    path = Path(ref.path)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        raise ConfigMissing(ref.path, socket.gethostname()) from None
    if digest != ref.digest:
        raise ConfigChanged(ref.path, ref.digest, digest)
    return load_config(path)
