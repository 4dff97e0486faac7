"""Times a pass of each system: from its start until every copy has the right configs."""

import asyncio
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from types import TracebackType
from typing import NamedTuple, Self

from bench.configsync import mirror, mm2
from bench.configsync.logged_rounds import LoggedRounds, TimedRound
from bench.configsync.watch import Watch
from bench.errors import BenchError
from bench.measure import log_file, running
from bench.systems.launch import Job, write_properties
from engine.config.config import load_config
from engine.flow.config_sync.planning import Scope
from engine.flow.config_sync.sync import ConfigSync
from engine.services.config_service import config_sync

_DEADLINE_S = 1800.0
_LOGGED_S = 1.0
"""Seconds that a broker may need after an answer to write its line into the log."""
_TOPICS_A_SECOND = 500
"""Topics per second of MM2's interval: rounds are so rare that one ends before the next starts."""
Change = Callable[[], None]


class Pass(NamedTuple):
    """One pass: its start and its end, Unix time in seconds. `pauses_s`: how long no round ran in between."""

    began_s: float
    ended_s: float
    pauses_s: float = 0.0

    @property
    def wall_s(self) -> float:
        return self.ended_s - self.began_s - self.pauses_s


def carried(rounds: Sequence[TimedRound], changed_s: float, there_s: float) -> Pass:
    """Return the pass of the rounds that brought a change: those that ended after it began, until all of it was there.

    Tens of thousands of topics are changed for longer than a system pauses: then several rounds bring a part each, and
    the pauses between them count for none.
    """
    carrying = [one for one in rounds if one.ended_s > changed_s and one.began_s < there_s]
    if not carrying:
        raise BenchError("configsync", "the change was there, and no round of the system had brought it")
    pauses_s = sum(max(0.0, later.began_s - one.ended_s) for one, later in pairwise(carrying))
    return Pass(carrying[0].began_s, max(there_s, carrying[-1].ended_s), pauses_s)


class Passes(ABC):
    """One system on one job of many topics, as a context manager."""

    clients: tuple[str, ...] = ("raymirror",)
    """The client ids of the system's requests contain one of these texts."""

    def __init__(self, job: Job, topics: int, patience_s: float) -> None:
        self.job, self.topics = job, topics
        self._watch = Watch(job.target, patience_s)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._open(stack)
            stack.enter_context(self._watch)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Start the system; put what must end with it on the stack."""

    @abstractmethod
    def changed(self, change: Change, copies: Sequence[str], value: str) -> Pass:
        """Make the change at the source, and return a whole pass that brought it to the copies."""

    @abstractmethod
    def nothing(self) -> Pass:
        """Return a whole pass that found nothing to do."""

    def begin_costs(self) -> None:
        """Count the costs of passes from now on."""
        self._costed_s = time.time()

    def costs(self) -> dict[str, float]:
        """Return further figures of the passes since `begin_costs`; empty if the system has none."""
        return {}

    def over_s(self, one: Pass) -> float:
        """Wait until a pass has nothing left to do and the next may have begun; return when that was."""
        time.sleep(max(0.0, one.ended_s + _LOGGED_S - time.time()))
        return time.time()


class _OwnPasses(Passes):
    """Passes of raymirror: they start on request."""

    def changed(self, change: Change, copies: Sequence[str], value: str) -> Pass:
        """Time a pass; changes that appear after its end count too."""
        change()
        self._watch.begin(copies, value)
        one = self.nothing()
        return Pass(one.began_s, max(one.ended_s, self._watch.there_s()))

    def nothing(self) -> Pass:
        """Time a pass."""
        began_s = time.time()
        self._make()
        return Pass(began_s, time.time())

    @abstractmethod
    def _make(self) -> None:
        """Make a pass."""


class RaymirrorPasses(_OwnPasses):
    """`raymirror apply`, the whole command."""

    def _open(self, stack: ExitStack) -> None:
        self._file = write_properties(self.job, {})

    def _make(self) -> None:
        words = [sys.executable, "-m", "actors", "apply", str(self._file), "--json"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        environment["XDG_STATE_HOME"] = str(self.job.folder / "state")
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
        if done.returncode:
            raise BenchError("raymirror", f"apply ended with {done.returncode}: {done.stderr[-1000:]}")


class RoundPasses(_OwnPasses):
    """A round of a running mirror's loop: process and connections exist already, as in MM2."""

    def _open(self, stack: ExitStack) -> None:
        self._runner = stack.enter_context(asyncio.Runner())
        config = load_config(write_properties(self.job, {}))
        opened = config_sync(config, config.flows[0], "raymirror-round")
        self._sync: ConfigSync = self._runner.run(opened.__aenter__())
        stack.callback(lambda: self._runner.run(opened.__aexit__(None, None, None)))

    def _make(self) -> None:
        self._runner.run(_round(self._sync))


async def _round(sync: ConfigSync) -> None:
    looked = await sync.compare(Scope(shapes=False))
    if failed := [one.failure for one in await sync.apply(looked.changes) if one.failure] + list(
        looked.unread.values()
    ):
        raise BenchError("raymirror", f"{len(failed)} changes failed: {failed[0]}")


class _RoundsByThemselves(Passes):
    """Rounds in a process that continues: from the start of a round until the target has all of it."""

    name = ""

    def _open(self, stack: ExitStack) -> None:
        self._every_s = max(5, self.topics // _TOPICS_A_SECOND)
        self._rounds = self._start(stack, self._every_s)
        self._rounds.next_after(0.0, _DEADLINE_S)

    @abstractmethod
    def _start(self, stack: ExitStack, every_s: int) -> LoggedRounds[TimedRound]:
        """Start the system, with so many seconds between two rounds."""

    def changed(self, change: Change, copies: Sequence[str], value: str) -> Pass:
        """Make the change between two rounds, and time those that bring it."""
        self._rounds.next_after(time.time() - 1.0, _DEADLINE_S)
        began_s = time.time()
        change()
        changed_s = time.time()
        self._watch.begin(copies, value)
        there_s = self._watch.there_s()
        self._rounds.next_after(changed_s, _DEADLINE_S)
        return carried(self._rounds.seen(), began_s, there_s)

    def nothing(self) -> Pass:
        """Time the next round, without the requests that it leaves in flight."""
        one = self._rounds.next_after(time.time(), _DEADLINE_S)
        return Pass(one.began_s, one.ended_s)

    def over_s(self, one: Pass) -> float:
        """Wait for the next round: until then requests of this one may be in flight."""
        return self._rounds.next_after(one.ended_s, _DEADLINE_S).began_s


class Mm2Passes(_RoundsByThemselves):
    """MM2's rounds."""

    name = "mm2"
    clients = ("replication-source-admin", "replication-target-admin")

    def _start(self, stack: ExitStack, every_s: int) -> LoggedRounds[TimedRound]:
        process, _ = stack.enter_context(running(mm2.launch(self.job, every_s), self.job))
        return LoggedRounds(self.name, log_file(self.job), mm2.rounds, process)


class _MirrorPasses(_RoundsByThemselves):
    """The rounds of a running mirror."""

    clients = ("|configs",)
    by = ""

    def _start(self, stack: ExitStack, every_s: int) -> LoggedRounds[TimedRound]:
        process, self._tree = stack.enter_context(running(mirror.launch(self.job, every_s, self.by), self.job))
        return LoggedRounds(self.name, log_file(self.job), mirror.RoundReader(self.by), process)

    def begin_costs(self) -> None:
        super().begin_costs()
        self._costs = mirror.Costs(self._tree)

    def costs(self) -> dict[str, float]:
        """Return CPU seconds of the Metadata process and of all for each round, and their memory."""
        return self._costs.figures(self._rounds.count_since(self._costed_s))


class LoopPasses(_MirrorPasses):
    """Rounds that the Metadata process of a mirror plans."""

    name, by = "raymirror-loop", "loop"


class SparkPasses(_MirrorPasses):
    """Rounds that a mirror's Spark plans."""

    name, by = "raymirror-spark", "spark"
