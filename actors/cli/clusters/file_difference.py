"""`raymirror check CONFIG --diff OTHER`: what another file changes, setting by setting; asks no cluster."""

from pathlib import Path

from rich.table import Table

from actors.config.config_ref import digest_of
from actors.config.difference import (
    ADDED,
    CHANGED,
    NOTHING,
    REMOVED,
    ChangeRow,
    ConfigDifference,
    ConfigSide,
    difference,
)
from engine.config.config import plain_settings, read_config, read_properties

_STYLE = {ADDED: "green", REMOVED: "red", CHANGED: "yellow"}


def compare_files(path: Path, other: Path) -> ConfigDifference:
    """Compare two files by what they mean. Raises ConfigError for the first one that cannot be used."""
    return difference(_side(path), _side(other))


def _side(path: Path) -> ConfigSide:
    properties = read_properties(path)
    return ConfigSide(read_config(properties), plain_settings(properties), digest_of(path.read_bytes()))


def rows_of(found: ConfigDifference) -> list[ChangeRow]:
    """Return the rows that change something."""
    return [row for row in found.rows if row.change in _STYLE and row.takes_effect != NOTHING]


def table_of(found: ConfigDifference, path: Path, other: Path) -> Table:
    """Draw the rows, with one column for each file."""
    drawn = Table(box=None, pad_edge=False)
    for name in ("flow", "change", "key", path.name, other.name):
        drawn.add_column(name, overflow="fold")
    for row in rows_of(found):
        drawn.add_row(row.flow, row.change, row.key, row.running, row.new, style=_STYLE[row.change])
    return drawn
