"""The configuration by reference: a path and a digest, read again by each actor."""

import hashlib
from pathlib import Path

from actors.messages import ConfigRef
from engine.config import load_config
from engine.errors import MirrorError
from engine.settings import MirrorConfig


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


def refer(path: Path) -> ConfigRef:
    """Make a reference to a configuration file. Raises OSError."""
    absolute = path.resolve()
    return ConfigRef(path=str(absolute), digest=hashlib.sha256(absolute.read_bytes()).hexdigest())


def load(ref: ConfigRef) -> MirrorConfig:
    """Read the configuration a reference names. Raises ConfigChanged, ConfigError, OSError."""
    found = refer(Path(ref.path))
    if found.digest != ref.digest:
        raise ConfigChanged(ref.path, ref.digest, found.digest)
    return load_config(Path(ref.path))
