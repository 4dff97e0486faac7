"""Which kind a configuration file is, by its name's ending, and how settings are written in it."""

import re
from pathlib import Path, PurePath

_YAML = (".yaml", ".yml")
_SETTING = re.compile(r"(?<![\w.>$-])([A-Za-z][\w>-]*(?:\.[\w>-]+)+) ?= ?(?=\S)")
"""A key with dots and what is set to it, as errors and warnings write them."""


def is_yaml(file: str) -> bool:
    """Whether a file of that name is a `mirror.yaml`; else it is read as `mm2.properties`."""
    return PurePath(file).suffix.lower() in _YAML


def worded(text: str, path: Path) -> str:
    """Write the settings that a text tells to make (`a.b = c`) as this file would have them (`a.b: c`)."""
    return _SETTING.sub(r"\1: ", text) if is_yaml(str(path)) else text
