"""The commands of README's first mirror, unchanged and in order, on the clusters that the first command starts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.ray_temp import ray_temp_folder
from tests.harness.readme import first_mirror_commands
from tests.harness.shell import DEADLINE_S, Shell

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

COPIED = re.compile(r"lag 0, .* 2,0\d\d records")
"""Both topics of the sample, and heartbeats."""


def bash(shell: Shell, command: str) -> subprocess.Popen[str]:
    """Begin a command as a reader types it, in the environment that README's step 0 activates."""
    env = {**shell.env, "PATH": f"{Path(sys.executable).parent}:{shell.env['PATH']}"}
    out = subprocess.PIPE
    return subprocess.Popen(
        ["bash", "-c", f"exec {command}"], env=env, cwd=shell.folder, stdout=out, stderr=subprocess.STDOUT, text=True
    )


def test_every_command_of_the_first_mirror_succeeds_in_order(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    commands = first_mirror_commands()
    assert commands[0].startswith("raymirror cluster up")
    assert commands[-1] == "raymirror cluster down"
    with ray_temp_folder() as temp:
        shell.env["TMPDIR"] = temp
        mirror = None
        try:
            for command in commands:
                process = bash(shell, command)
                if " run " in command:
                    mirror = process
                    until_copied(mirror)
                else:
                    said, _ = process.communicate(timeout=2 * DEADLINE_S)
                    assert process.returncode == 0, f"{command}: exit code {process.returncode}\n{said}"
            assert mirror is not None
            assert mirror.wait(DEADLINE_S) == 0
        finally:
            if mirror is not None:
                end(mirror)
            bash(shell, commands[-1]).communicate(timeout=DEADLINE_S)


def until_copied(mirror: subprocess.Popen[str]) -> None:
    assert mirror.stdout is not None
    said = []
    for line in mirror.stdout:
        said.append(line)
        if COPIED.search(line):
            return
    pytest.fail("the mirror ended\n" + "".join(said))


def end(mirror: subprocess.Popen[str]) -> None:
    assert mirror.stdout is not None
    mirror.terminate()
    mirror.stdout.read()
    mirror.wait(DEADLINE_S)
    mirror.stdout.close()
