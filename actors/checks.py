"""x"""

from pathlib import Path

from engine.config import MirrorConfig, load_config


def prepare(path: Path) -> MirrorConfig:
    return load_config(path)
