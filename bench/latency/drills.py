"""Drills of a mirror, one after the other, while its latency is measured: each as the mirror's own schedule runs it."""

import asyncio
import threading
from pathlib import Path
from typing import Self

from actors.config import config_ref
from actors.drills.process import DrillOrder, drill_apart
from bench.errors import BenchError

MANY = 1_000_000


class Drills:
    """A context in which drills of a flow run, `most` of them; `count`: how many have ended.

    Its exit waits for the last one.
    """

    def __init__(self, flow: str, config: Path, most: int = MANY) -> None:
        self._most = most
        self._order = DrillOrder(flow=flow, config=config_ref.refer(config))
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._why = ""
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self._thread.join()

    def require_done(self) -> None:
        """Raise BenchError if a drill stored no result, or none has ended."""
        if self._why or not self.count:
            raise BenchError("a scheduled drill", self._why or "none has ended")

    def _run(self) -> None:
        while self.count < self._most and not self._ends.is_set() and not self._why:
            self._why = asyncio.run(drill_apart(self._order))
            self.count += not self._why
