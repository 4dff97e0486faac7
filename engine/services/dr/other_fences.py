"""Fences without ACLs: a command of the operator's, or producers that the operator has stopped already."""

import asyncio
import shlex
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from engine.base.tasks import first_cause
from engine.flow.operations.driver import Facts, StepRun
from engine.flow.operations.fencing import FenceFailed, FenceRefused
from engine.services.dr.outside_command import failed_call

COMMAND_KEY = "raymirror.dr.fence.command"
COMMAND_S = 60.0
"""Seconds that the command may take; then it is killed with all its processes."""
_LOOK_S = 0.2
"""Seconds between two looks whether the driver that has called it may go on."""
COMMAND_NOTES = "fence-command"
"""The name of the stored calls."""


class CalledCommand(msgspec.Struct, frozen=True):
    """A call of the command, stored before it is made; its words are not: they may hold a secret."""

    verb: str


class CommandFence:
    """Calls `COMMAND close FLOW OPERATION` and `COMMAND open FLOW OPERATION`, with the topics on standard input.

    Exit code 0: done. Anything else: not done, and the last words of standard error say why. Both calls may come again
    after a kill.
    """

    def __init__(self, command: str, flow: str, *, within_s: float = COMMAND_S) -> None:
        self._command, self._flow, self._within_s = command, flow, within_s

    async def refuse(self, topics: Sequence[str]) -> Facts:
        """See Fence."""
        try:
            words = shlex.split(self._command)
        except ValueError as error:
            raise FenceRefused((("bad-command", f"{COMMAND_KEY} cannot be split into words: {error}"),)) from error
        if not words:
            raise FenceRefused((("no-command", f"{COMMAND_KEY} is empty"),))
        return {"fence": "command", "topics": len(topics)}

    async def close(self, run: StepRun, topics: Sequence[str]) -> Facts:
        """See Fence."""
        facts = await self.refuse(topics)
        await run.keep(COMMAND_NOTES, [CalledCommand("close")])
        await _while_assured(run, self._call("close", run.operation.id, topics))
        return facts

    async def open(self, run: StepRun) -> Facts:
        """See Fence."""
        if not run.notes(COMMAND_NOTES, CalledCommand):
            return {}
        await _while_assured(run, self.lift(run.operation.id))
        return {}

    async def lift(self, operation: str) -> None:
        """Take back what the command has made for an operation. Raises FenceRefused without a command, FenceFailed."""
        await self.refuse(())
        await self._call("open", operation, ())

    async def _call(self, verb: str, operation: str, topics: Sequence[str]) -> None:
        words = [*shlex.split(self._command), verb, self._flow, operation]
        if failed := await failed_call(words, topics, within_s=self._within_s):
            raise FenceFailed(f"{COMMAND_KEY} ({verb})", failed)


async def _while_assured(run: StepRun, call: Coroutine[Any, Any, None]) -> None:
    """Make a call, and give it up when this driver may not go on: another one may open what it closes."""
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(call)
            while not task.done():
                run.assure()
                await asyncio.wait({task}, timeout=_LOOK_S)
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None


class NoFence:
    """No fence: the operator has stopped the producers. Whether that is true is watched all the same."""

    async def refuse(self, topics: Sequence[str]) -> Facts:
        """See Fence."""
        return {"fence": "none", "topics": len(topics)}

    async def close(self, run: StepRun, topics: Sequence[str]) -> Facts:
        """See Fence."""
        del run
        return await self.refuse(topics)

    async def open(self, run: StepRun) -> Facts:
        """See Fence."""
        del run
        return {}
