"""Commands of a recorded mirror: what they would print, without a process."""

from pathlib import Path
from typing import Any

import msgspec

from actors.api.view import RunFiles
from actors.http.command_runs import RunBook
from actors.model.step_lines import StepLine, timed
from actors.rest.exchange import EndCommand, HttpRefusal, StartCommand
from engine.base.clock import wall_ms

STEPS = {
    "connect": "connect to the clusters, and ask whether another operation is open",
    "drain": "copy what the source still has",
    "pause": "pause the flow",
    "judge": "compare what is copied with the ends of the source",
    "groups": "place the consumer groups on the target",
    "tombstones": "let compacted copies keep tombstones for longer, and lift old fences of the target",
    "stop": "stop the flow for good",
}
FAILOVER = {"stopped": True, "drained": True, "equal": True, "source": "", "standing": {"groups": 9}}
DRY: dict[str, Any] = {"reasons": [], "facts": {}, "steps": []}
REASONS = {"reasons": [["groups-not-equal", "billing: orders-2: not translated"]], "facts": {}, "steps": []}


class RecordedRuns(RunBook):
    """Runs that go on when a test says so. `refuses`: why the next command is refused; `is_blocked`: for a check."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))
        self.started: list[StartCommand] = []
        self.stopped: list[EndCommand] = []
        self.done: dict[str, tuple[int, Any, str]] = {}
        """By run: its exit code, what it has printed, what it has said last."""
        self.refuses = ""
        self.is_blocked = False

    async def start(self, call: StartCommand) -> None:
        """Begin a command; a check is done at once."""
        if self.refuses:
            raise HttpRefusal(409, self.refuses)
        self.started.append(call)
        if call.dry_run:
            self.done[call.run] = (1, REASONS, "") if self.is_blocked else (0, DRY, "")

    def stop(self, wanted: EndCommand) -> None:
        """End a command, as a signal does."""
        self.stopped.append(wanted)
        self.done[wanted.run] = 143, None, ""

    def end(self, code: int, printed: Any = None, said: str = "") -> None:
        """End the last command."""
        self.done[self.started[-1].run] = code, printed, said

    def all(self, whole: str = "") -> tuple[RunFiles, ...]:
        """Return the runs, the newest first."""
        return tuple(self._files(call, whole) for call in reversed(self.started))

    def _files(self, call: StartCommand, whole: str) -> RunFiles:
        code, printed, said = self.done.get(call.run, (None, None, ""))
        begun = list(STEPS.items())[: 3 if code is None else None]
        lines = [
            timed(at, str(StepLine(number=at + 1, of=len(STEPS), name=name, does=does)))
            for at, (name, does) in enumerate(begun)
        ]
        return RunFiles(
            call=call,
            alive=code is None,
            code=code,
            ended_ms=None if code is None else wall_ms(),
            said="\n".join([*lines, said]),
            printed=msgspec.json.encode(printed) if whole == call.run else b"",
            has_printed=printed is not None,
        )
