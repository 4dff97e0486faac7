"""Reads a configuration file: `mirror.yaml` if its suffix says so, else `.properties`."""

from pathlib import Path

from engine.base.errors import ConfigError
from engine.config.file.file_kind import is_yaml
from engine.config.file.mirror_yaml import parse_yaml
from engine.config.file.properties import Properties, parse_properties
from policies.files.foreign_files import UTF_8_BOM, Foreign, foreign_bytes, foreign_text


def read_file(path: Path) -> Properties:
    """Read a configuration file. Raises OSError, ConfigError."""
    return parse_file(path.read_bytes(), str(path))


def parse_file(data: bytes, file: str) -> Properties:
    """Parse the bytes of a configuration file. Raises ConfigError, also if it is plainly another kind of file."""
    _refuse(foreign_bytes(data), file)
    data = data.removeprefix(UTF_8_BOM)
    _refuse(foreign_text(data.decode("iso-8859-1"), is_yaml=is_yaml(file)), file)
    if not is_yaml(file):
        return parse_properties(data.decode("iso-8859-1"), file)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, line, "YAML", "bytes that are not UTF-8", "save the file as UTF-8") from None
    return parse_yaml(text, file)


def _refuse(foreign: Foreign | None, file: str) -> None:
    if foreign is not None:
        raise ConfigError(file, foreign.line, "file", foreign.what, foreign.right)
