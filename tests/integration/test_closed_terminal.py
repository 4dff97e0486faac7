"""A closed terminal (SIGHUP to all of its processes, Ray's too) drains a mirror as SIGTERM does."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from actors.demo.topics import create_topics
from deploy.local.cluster import EmbeddedCluster
from tests.harness.ray_temp import ray_temp_folder
from tests.harness.shell import DEADLINE_S, Shell, write_config
from tests.integration.test_run_command import produce, same

pytestmark = [pytest.mark.integration, pytest.mark.ray]

TOPIC = "hung-up"


class Terminal:
    """A command at a terminal of its own: it leads the session, so that closing the terminal hangs it up."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self._master, self._slave = pty.openpty()
        os.set_blocking(self._master, False)
        self._process = subprocess.Popen(
            # setsid, then the terminal is taken as the controlling one by opening it
            [sys.executable, "-c", _LEAD, os.ttyname(self._slave), sys.executable, "-m", "actors", *words],
            env=shell.env,
            cwd=shell.folder,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def process(self) -> psutil.Process:
        """The command."""
        return psutil.Process(self._process.pid)

    def until_printed(self, condition: Callable[[str], bool]) -> None:
        """Read what it prints until it is right."""
        deadline, printed = time.monotonic() + DEADLINE_S, b""
        while not condition(printed.decode(errors="replace")):
            assert time.monotonic() < deadline, printed.decode(errors="replace")[-3000:]
            assert self._process.poll() is None, printed.decode(errors="replace")[-3000:]
            try:
                printed += os.read(self._master, 65536)
            except BlockingIOError:
                time.sleep(0.05)

    def answer(self, words: str) -> int:
        """Type a line; wait for the end of the command; its exit code."""
        os.write(self._master, f"{words}\n".encode())
        return self._process.wait(DEADLINE_S)

    def close(self) -> int:
        """Close it; wait for the end of the command; its exit code."""
        os.close(self._slave)  # before the command has opened it too, the terminal would count as closed
        os.close(self._master)
        try:
            return self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            raise


_LEAD = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)
for descriptor in (0, 1, 2):
    os.dup2(terminal, descriptor)
os.close(terminal)
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_a_closed_terminal_drains_the_mirror_and_leaves_nothing(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    asyncio.run(create_topics(source_cluster.bootstrap_servers, {TOPIC: 2}))
    produce(source_cluster, TOPIC, 1000)
    shell = Shell(tmp_path)
    config = write_config(tmp_path, source_cluster, target_cluster, TOPIC)
    with ray_temp_folder() as temp:
        shell.env["TMPDIR"] = temp
        terminal = Terminal(shell, "run", str(config), "--json")
        terminal.until_printed(lambda text: '"records":1000' in text)
        children = terminal.process.children(recursive=True)
        assert len(list(Path(temp).glob("ray-*"))) == 1
        assert terminal.close() == 0
        assert not list(Path(temp).glob("ray-*"))
        assert not psutil.wait_procs(children, timeout=DEADLINE_S)[1]
    assert same(source_cluster, target_cluster, TOPIC)
    assert shell("status").returncode == 3


@pytest.mark.full
def test_a_terminal_that_is_closed_while_ray_starts_leaves_nothing(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    shell = Shell(tmp_path)
    config = write_config(tmp_path, source_cluster, target_cluster, "nothing-yet")
    with ray_temp_folder() as temp:
        shell.env["TMPDIR"] = temp
        terminal = Terminal(shell, "run", str(config))
        terminal.until_printed(lambda _: any(Path(temp).glob("ray-*/session_latest")))
        children = terminal.process.children(recursive=True)
        assert terminal.close() == 128 + signal.SIGHUP
        assert not list(Path(temp).glob("ray-*"))
        assert not psutil.wait_procs(children, timeout=DEADLINE_S)[1]
