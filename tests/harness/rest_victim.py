"""An HTTP server without a mirror, in a process of its own: so its memory and the stalls of its loop can be measured.

`python -m tests.harness.rest_victim PORT IDLE_S` serves until its standard input ends. A line of input is answered with
a line of JSON: what the supervisor was asked to do, the longest stall of the loop in seconds since the last line, the
resident bytes, and how many bytes were written to the log.
"""

import asyncio
import json
import logging
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.local.ports import pick_ports
from tests.harness.eventually import wait_until
from tests.harness.rest_attacks import AttackedPort

TICK_S = 0.01
ROOT = Path(__file__).parents[2]


class Victim(AttackedPort):
    """The process as its test sees it."""

    def __init__(self, port: int, process: subprocess.Popen[str]) -> None:
        super().__init__(port)
        self._process = process

    def is_open(self) -> bool:
        """Whether it listens."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def look(self) -> dict[str, Any]:
        """Return `asked`, `stall_s`, `resident` and `logged`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def victim(idle_s: float) -> Iterator[Victim]:
    """Serve in a process of its own until the end of the block."""
    (port,) = pick_ports(1)
    command = [sys.executable, "-m", "tests.harness.rest_victim", str(port), str(idle_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        try:
            one = Victim(port, process)
            wait_until(one.is_open, "it listens")
            yield one
        finally:
            process.stdin.close()


class _CountingHandler(logging.Handler):
    """Counts what a log file would get."""

    bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.bytes += len(self.format(record))


async def _serve(port: int, idle_s: float) -> None:
    from actors.console.sessions import SessionBook
    from actors.http import server
    from actors.http.views import SupervisorViews
    from engine.config.settings import HttpConfig
    from tests.unit.actors.http.test_views import FakePages, FakeSupervisor, facts

    class QuickSupervisor(FakeSupervisor):
        async def status(self, lanes: bool, follower: str) -> bytes:
            from actors.model.status import encode_status

            return encode_status(self.now)

    told = _CountingHandler()
    logging.getLogger().addHandler(told)
    server.IDLE_S = idle_s  # type: ignore[misc] # the product's is 15 s
    supervisor, stall = QuickSupervisor(), [0.0]
    views = SupervisorViews(supervisor, FakePages(), facts())
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK_S)
            stall[0] = max(stall[0], time.monotonic() - before - TICK_S)

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(tick()),
            group.create_task(server.MirrorServer(HttpConfig(port=port), views, SessionBook(), again_s=0.1).run()),
        ]
        while await reader.readline():
            asked = [one for one in supervisor.asked if one[0] != "status"]
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            seen = {"asked": asked, "stall_s": stall[0], "resident": pages * os.sysconf("SC_PAGE_SIZE")}
            seen["logged"] = told.bytes
            stall[0] = 0.0
            sys.stdout.write(json.dumps(seen) + "\n")
            sys.stdout.flush()
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2])))
