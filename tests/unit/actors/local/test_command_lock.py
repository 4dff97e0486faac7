"""The lock of a command: one process has it, its end gives it back, and other flows have locks of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.local.command_lock import CommandRuns, only_one

HOLD = """
import os, sys
from actors.local.command_lock import only_one
with only_one("failover", "A->B", "b:1", os.environ):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path)}


@pytest.mark.local
def test_a_second_process_is_refused_until_the_first_has_been_killed(env: dict[str, str]) -> None:
    first = subprocess.Popen([sys.executable, "-c", HOLD], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout is not None
    try:
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(CommandRuns) as refused, only_one("failover", "A->B", "b:1", env):
            pass
        assert f"another failover of A->B runs on this machine in process {first.pid}" in str(refused.value)
        with only_one("failover", "A->C", "b:1", env), only_one("failover", "A->B", "other:1", env):
            pass
    finally:
        first.kill()
        first.communicate()
    with only_one("failover", "A->B", "b:1", env):
        pass


def test_an_error_gives_the_lock_back(env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="lost"), only_one("failover", "A->B", "b:1", env):
        raise ValueError("lost")
    with only_one("failover", "A->B", "b:1", env):
        pass
