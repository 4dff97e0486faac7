"""Looks at the nodes of a Ray cluster through a process of its own (`ray_probe`)."""

import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tests.harness.ray_probe import NodeSeen

DEADLINE_S = 120.0
_POLL_S = 0.1


class NodeWatch:
    """The table of nodes. One thread at a time; questions block while there is no GCS."""

    def __init__(self, address: str, env: Mapping[str, str], log_file: Path) -> None:
        with log_file.open("ab") as log:
            self._probe = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.ray_probe", address],
                env=dict(env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def nodes(self) -> list[NodeSeen]:
        """Ask the control store for all nodes, dead ones too."""
        assert self._probe.stdin is not None
        assert self._probe.stdout is not None
        self._probe.stdin.write(b"\n")
        self._probe.stdin.flush()
        assert select.select([self._probe.stdout], [], [], DEADLINE_S)[0], "no answer from the GCS"
        return msgspec.json.decode(self._probe.stdout.readline(), type=list[NodeSeen])

    def until(self, holds: Callable[[list[NodeSeen]], bool], what: str) -> list[NodeSeen]:
        """Ask until a condition holds of the nodes."""
        give_up_at = time.monotonic() + DEADLINE_S
        while True:
            nodes = self.nodes()
            if holds(nodes):
                return nodes
            assert time.monotonic() < give_up_at, f"not within {DEADLINE_S:.0f} s: {what}; last seen {nodes}"
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End the process."""
        self._probe.kill()
        self._probe.communicate()
