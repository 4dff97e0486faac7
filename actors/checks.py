"""Everything that is checked before Ray starts: the file, the clusters, what would be copied. Changes nothing."""

import asyncio
from pathlib import Path

from engine.config import load_config
from engine.preflight import FlowPreview, preview
from engine.settings import MirrorConfig


def prepare(path: Path) -> tuple[MirrorConfig, tuple[FlowPreview, ...]]:
    """Read a configuration and ask its clusters. Raises ConfigError and what `engine.preflight.preview` raises."""
    config = load_config(path)
    return config, asyncio.run(preview(config))
