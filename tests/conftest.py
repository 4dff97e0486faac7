"""What every test may use."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _own_user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep state files out of the user's own folder; the cache of jars is shared on purpose."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
