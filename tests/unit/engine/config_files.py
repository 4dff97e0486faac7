"""Configuration text for tests."""

from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import FlowConfig, MirrorConfig

BASE = """\
clusters = A, B
A.bootstrap.servers = a1:9092, a2:9092
B.bootstrap.servers = b1:9092
A->B.enabled = true
"""


def mirror(extra: str = "", base: str = BASE) -> MirrorConfig:
    """Read the base and some more lines, the first of which is line 5."""
    return read_config(parse_properties(base + extra, "mm2.properties"))


def flow(extra: str = "") -> FlowConfig:
    """Read the one flow."""
    (found,) = mirror(extra).flows
    return found
