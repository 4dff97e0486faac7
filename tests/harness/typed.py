"""The command line in the process of the test: exit code, JSON and complaints of one command."""

import asyncio
import json
from typing import Any

import pytest

from actors.cli.main import main


async def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    """Give a command with `--json`: exit code, its JSON (None: it printed none), and what it complained of."""
    capsys.readouterr()
    code = await asyncio.to_thread(main, [*words, "--json"])
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err
