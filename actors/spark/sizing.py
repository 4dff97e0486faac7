"""Keeps a session at the size that its jobs need, beside the checks of its host.

A resize asks Ray's control store, which may be away for a minute. So it runs beside the host's checks of the session:
they neither wait for it nor take its failure for one of Spark.
"""

import asyncio
from typing import NamedTuple, Protocol

from actors.logging.logs import log_sentence
from actors.spark.executor_target import ExecutorTarget
from engine.jobs.runtime.core_budget import CoreBudget
from engine.jobs.runtime.runner import failure_text


class Sized(NamedTuple):
    """What a resize found: why executors have no place; the node of the host or of a master if that is drained.

    `unsettled`: it has ended executors, or some are missing, so another one is due soon.
    """

    waiting: str = ""
    leaving: str = ""
    unsettled: bool = False


class SizedSession(Protocol):
    """The part of a session that is resized."""

    def resize(self, wanted: int) -> Sized: ...


class Sizing:
    """The size of one session. `share`: where large jobs ask for all executors."""

    def __init__(self, session: SizedSession, target: ExecutorTarget, share: CoreBudget) -> None:
        self._session, self._target, self._share = session, target, share
        self._asked = asyncio.Event()
        self.wanted = target.at_first
        self.found = Sized()
        """What the last resize that succeeded has found."""

    async def run(self) -> None:
        """Resize whenever `ask` was called; one at a time."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._resize(self.wanted)

    def ask(self, now_s: float) -> None:
        """Have the session resized soon."""
        self.wanted = self._wanted(now_s)
        self._asked.set()

    def is_due(self, now_s: float) -> bool:
        """Whether the host should look at once: another number is wanted, executors change, or a node is left."""
        return bool(self.found.leaving) or self.found.unsettled or self._wanted(now_s) != self.wanted

    def _wanted(self, now_s: float) -> int:
        return self._target.wanted(now_s, large=self._share.has_large_job)

    async def _resize(self, wanted: int) -> None:
        try:
            self.found = await asyncio.to_thread(self._session.resize, wanted)
        except Exception as error:  # noqa: BLE001 Ray and Py4J raise anything; the next one tries again
            log_sentence("warning", f"the number of Spark's executors could not be changed: {failure_text(error)}")
