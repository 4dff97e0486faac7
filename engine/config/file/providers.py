"""Resolves the placeholders of a configuration, as Kafka's config providers do (KIP-297).

A placeholder is `${file:PATH:KEY}`, `${env:NAME}` or `${directory:PATH:FILE}`; `config.providers` may give other names.
The process that needs a value resolves it.
"""

import os
import re
from pathlib import Path

import msgspec

from engine.base.errors import ConfigError
from engine.config.file.properties import load_properties

_PLACEHOLDER = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}]*)\}")
_CLASSES = {
    "FileConfigProvider": "file",
    "EnvVarConfigProvider": "env",
    "DirectoryConfigProvider": "directory",
}
_RIGHT = "use ${file:PATH:KEY}, ${env:NAME} or ${directory:PATH:FILE}"


def has_placeholder(text: str) -> bool:
    """Whether a value has a placeholder, so that a part of it is not known before it is used."""
    return "${" in text


def is_placeholder(text: str) -> bool:
    """Whether a value is one placeholder and nothing else."""
    return _PLACEHOLDER.fullmatch(text.strip()) is not None


def with_stand_ins(text: str, word: str) -> str:
    """Return a value with a word in the place of each placeholder, to judge what stands around them."""
    return _PLACEHOLDER.sub(lambda _found: word, text)


class Where(msgspec.Struct, frozen=True):
    """The place of a value, for errors about it: file, line (0: not known), key."""

    file: str
    line: int
    key: str

    def error(self, wrong: str, right: str) -> ConfigError:
        """Return an error at this place."""
        return ConfigError(self.file, self.line, self.key, wrong, right)


def kind_of(class_name: str, where: Where) -> str:
    """Return `file`, `env` or `directory` for one of Kafka's provider classes. Raises ConfigError for other classes."""
    kind = _CLASSES.get(class_name.rpartition(".")[2])
    if kind is None:
        raise where.error(f"unknown config provider {class_name!r}", f"use one of {', '.join(_CLASSES)}")
    return kind


class Providers(msgspec.Struct, frozen=True):
    """The declared providers of a file: name -> kind. The three kinds also work undeclared, under their own names."""

    kinds: dict[str, str] = {}

    def resolve(self, text: str, where: Where) -> str:
        """Replace placeholders. Raises ConfigError with the place, never with the value."""
        return _PLACEHOLDER.sub(lambda found: self._value(found[1], found[2] or "", found[3], where), text)

    def _value(self, provider: str, path: str, name: str, where: Where) -> str:
        match self.kinds.get(provider, provider):
            case "env":
                if name not in os.environ:
                    raise where.error(f"environment variable {name} is not set", "set it for this process")
                return os.environ[name]
            case "file" if path:
                return _from_file(Path(path), name, where)
            case "directory" if path:
                return _read(Path(path) / name, where)
        raise where.error(f"cannot resolve a placeholder of provider {provider!r}", _RIGHT)


def _from_file(path: Path, name: str, where: Where) -> str:
    try:
        found = load_properties(path).get(name)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, where) from None
    if found is None:
        raise where.error(f"{path} has no key {name}", "name a key of that file")
    return found


def _read(path: Path, where: Where) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, where) from None


def _unreadable(path: Path, error: OSError | ValueError, where: Where) -> ConfigError:
    """Return the error of a file that cannot be read, or that is no text."""
    if isinstance(error, OSError):
        return where.error(f"cannot read {path}: {error.strerror}", "give a readable file")
    if isinstance(error, UnicodeDecodeError):
        return where.error(f"{path} is not UTF-8", "save it as UTF-8")
    return where.error("names a file with a NUL in its name", "give a readable file")
