"""Gives the commands of one operation: begins it, kills in it, goes on as the runbook says, until it has ended."""

import time
from collections.abc import Mapping
from typing import Any

from bench.dr.commands import Outcome, WatchedCommand
from bench.dr.kills import Kill, Victim
from bench.dr.operations import Operation, Words, answer_of
from bench.dr.striking import strike
from bench.dr.world import World
from bench.errors import BenchError

ATTEMPTS, WITHIN_S = 40, 1200.0
_BETWEEN_S = 1.0


class Steering:
    """The commands of one operation in a world. `attempts`: how each has ended. `killed`: why nothing was killed."""

    def __init__(self, operation: Operation, kill: Kill | None, world: World, seed: int) -> None:
        self._operation, self._kill, self._world, self._seed = operation, kill, world, seed
        self.attempts: list[str] = []
        self.notes: list[str] = []
        self.killed = "nothing was to be killed" if kill is None else ""
        self.stored: Mapping[str, Any] = {}
        """What the clusters have stored of an operation that had ended with the killed command."""

    def command(self, *words: str) -> Outcome:
        """Give one command about the flow, with its configuration, and wait for its end."""
        return self.give((*words, "--config", str(self._world.config), "--json"))

    def give(self, words: Words) -> Outcome:
        """Give a whole command, and wait for its end."""
        return WatchedCommand(words, self._world.folder, self._world.env).wait()

    def operate(self, *, restart_mirror: bool) -> Outcome | None:
        """Begin the operation, kill, and go on until it has ended; None: it ended with the killed command."""
        began_ms, give_up_at = int(time.time() * 1000), time.monotonic() + WITHIN_S
        words = self._operation.begin(self._world)
        for number in range(ATTEMPTS):
            command = WatchedCommand(words, self._world.folder, self._world.env)
            kill = self._kill if number == 0 else None
            if kill is not None:
                self.killed = strike(kill, command, self._world, seed=self._seed, restart_mirror=restart_mirror)
            outcome = command.wait()
            self.attempts.append(outcome.told)
            if outcome.code in self._operation.done:
                return outcome
            if kill is not None and kill.victim is Victim.RUN and restart_mirror:
                self._settle_mirror()
            if time.monotonic() > give_up_at:
                break
            following = self._next_words(began_ms)
            if following is None:
                return None
            words = following
        raise BenchError("dr", f"not done after {len(self.attempts)} commands: {' | '.join(self.attempts[-6:])}")

    def _settle_mirror(self) -> None:
        """Wait until a mirror that was started again answers; it ends if the flow was stopped for good."""
        if told := self._world.wait_answer():
            self.notes.append(f"the mirror that was started again ended: {told[-200:]}")

    def _next_words(self, began_ms: int) -> Words | None:
        """Return the command that goes on; None if the operation has ended."""
        time.sleep(_BETWEEN_S)
        operation, world = self._operation, self._world
        if not operation.kind:
            return operation.again(world)
        outcome = self.command("dr", "status", world.flow)
        if outcome.code != 0:  # it has not ended, or no cluster answers
            return operation.again(world)
        stored = answer_of(outcome).get("operation") or {}
        is_ours = stored.get("began_ms", -1) >= began_ms and stored["kind"] == operation.kind
        if is_ours and stored["state"] == "finished":
            self.stored = stored
            return None
        return operation.begin(world)
