"""A pass of each system: what it takes from its beginning until every copy is as it should be."""

import asyncio
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.admin import admin
from bench.configsync import mm2
from bench.configsync.topics import behind
from bench.errors import BenchError
from bench.measure import ended, started
from bench.processes import ProcessTree
from bench.systems.launch import Job, write_properties
from engine.config import load_config
from engine.config_keeper import config_sync
from engine.flow.config_sync import ConfigSync, Scope

_DEADLINE_S = 600.0
_POLL_S = 0.05
_SAMPLE = 5
_TOPICS_A_SECOND = 150
"""So rarely does MM2 begin a round that one has ended before the next."""
Change = Callable[[], None]


class Passes(ABC):
    """One system over one job of so many topics, as a context manager; times are seconds of wall time."""

    def __init__(self, job: Job, topics: int) -> None:
        self.job, self.topics = job, topics

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    @abstractmethod
    def changed(self, change: Change, copies: Sequence[str], value: str) -> float:
        """Make the change at the source, and return how long a whole pass took that brought it to the copies."""

    @abstractmethod
    def nothing(self) -> float:
        """Return how long a whole pass took that found nothing to do."""

    def until_there(self, copies: Sequence[str], value: str) -> float:
        """Wait until every copy has the value; return the Unix time of the look that saw it. Raises BenchError."""
        return asyncio.run(self._until_there(copies, value))

    async def _until_there(self, copies: Sequence[str], value: str) -> float:
        sample = copies[:: max(1, len(copies) // _SAMPLE)]
        deadline = time.monotonic() + _DEADLINE_S
        async with admin(self.job.target) as client:
            while time.monotonic() < deadline:
                seen_s = time.time()
                # A few are cheap to ask, so that looking costs the system little.
                if not await behind(client, sample, value) and not await behind(client, copies, value):
                    return seen_s
                await asyncio.sleep(_POLL_S)
            left = await behind(client, copies, value)
        raise BenchError(self.job.alias, f"{len(left)} copies were not brought in step within {_DEADLINE_S:.0f} s")


class RaymirrorPasses(Passes):
    """`raymirror apply`, the whole command."""

    def __enter__(self) -> Self:
        self._file = write_properties(self.job, {})
        return self

    def changed(self, change: Change, copies: Sequence[str], value: str) -> float:
        """Time the command; what comes later than its end is counted too."""
        change()
        began_s = time.time()
        self._apply()
        ended_s = time.time()
        return max(ended_s, self.until_there(copies, value)) - began_s

    def nothing(self) -> float:
        """Time the command."""
        began_s = time.time()
        self._apply()
        return time.time() - began_s

    def _apply(self) -> None:
        words = [sys.executable, "-m", "actors", "apply", str(self._file), "--json"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        environment["XDG_STATE_HOME"] = str(self.job.folder / "state")
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
        if done.returncode:
            raise BenchError("raymirror", f"apply ended with {done.returncode}: {done.stderr[-1000:]}")


class RoundPasses(Passes):
    """A round of a running mirror's loop: process and connections are there already, as MM2's are."""

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        config = load_config(write_properties(self.job, {}))
        self._opened = config_sync(config, config.flows[0], "raymirror-round")
        self._sync: ConfigSync = self._runner.run(self._opened.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._opened.__aexit__(kind, error, trace))
        self._runner.close()

    def changed(self, change: Change, copies: Sequence[str], value: str) -> float:
        """Time a round; what comes later than its end is counted too."""
        change()
        began_s = time.time()
        self._round()
        ended_s = time.time()
        return max(ended_s, self.until_there(copies, value)) - began_s

    def nothing(self) -> float:
        """Time a round."""
        began_s = time.time()
        self._round()
        return time.time() - began_s

    def _round(self) -> None:
        self._runner.run(_round(self._sync))


async def _round(sync: ConfigSync) -> None:
    looked = await sync.look(Scope(shapes=False))
    if failed := [one.failure for one in await sync.apply(looked.changes) if one.failure] + list(
        looked.unread.values()
    ):
        raise BenchError("raymirror", f"{len(failed)} changes failed: {failed[0]}")


class Mm2Passes(Passes):
    """MM2's rounds, in a process that goes on: from the beginning of a round until the target has all of it."""

    def __enter__(self) -> Self:
        self._every_s = max(5, self.topics // _TOPICS_A_SECOND)
        self._stack = ExitStack()
        process = self._stack.enter_context(started(mm2.launch(self.job, self._every_s), self.job))
        self._stack.enter_context(ended(process, ProcessTree(process.pid), self.job))
        self._rounds = mm2.Rounds(Path(self.job.folder) / "output.log")
        self._rounds.next_after(0.0, _DEADLINE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def changed(self, change: Change, copies: Sequence[str], value: str) -> float:
        """Make the change between two rounds, and time the next."""
        self._rounds.next_after(time.time() - 1.0, _DEADLINE_S)
        change()
        changed_s = time.time()
        there_s = self.until_there(copies, value)
        carrying = self._rounds.next_after(changed_s, _DEADLINE_S)
        if there_s < carrying.began_s:
            raise BenchError("mm2", f"a round of more than {self._every_s} s was under way when the topics changed")
        return max(there_s, carrying.ended_s) - carrying.began_s

    def nothing(self) -> float:
        """Time the next round, without what it leaves to be done behind it."""
        one = self._rounds.next_after(time.time(), _DEADLINE_S)
        return one.ended_s - one.began_s
