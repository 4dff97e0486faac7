"""Tells the kind of a configuration file by its suffix, and writes settings in the syntax of that kind."""

import re
from pathlib import Path, PurePath

_YAML = (".yaml", ".yml")
_SETTING = re.compile(r"(?<![\w.>$-])([A-Za-z][\w>-]*(?:\.[\w>-]+)+) ?= ?(?=\S)")
"""A dotted key and `=` before a value, as errors and warnings write settings."""


def is_yaml(file: str) -> bool:
    """Whether the file is a `mirror.yaml`; any other file is read as `mm2.properties`."""
    return PurePath(file).suffix.lower() in _YAML


def worded(text: str, path: Path) -> str:
    """Return a text with its settings (`a.b = c`) in the syntax of this file (`a.b: c` for YAML)."""
    return _SETTING.sub(r"\1: ", text) if is_yaml(str(path)) else text
