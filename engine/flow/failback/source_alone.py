"""Takes a failback back while the target is dead: what it has changed on the source, which serves again then."""

from engine.flow.failback.first_steps import opened, unlent
from engine.flow.operations.driver import Facts, Step, StepRun
from engine.flow.operations.fencing import Fence
from engine.flow.ports.settings_port import Settings


def undo_steps(settings: Settings, fence: Fence) -> dict[str, Step]:
    """Return what takes back the steps of a failback that changed something; `settings`: of the source."""
    return {"fence": _FenceUndo(fence), "retention": _RetentionUndo(settings)}


class _UndoOnly:
    """A step that is only taken back."""

    async def do(self, run: StepRun) -> Facts:
        """See Step."""
        raise AssertionError(f"{run.operation.kind} goes on with both clusters only")


class _FenceUndo(_UndoOnly):
    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises FenceFailed."""
        return await opened(self._fence, run)


class _RetentionUndo(_UndoOnly):
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def undo(self, run: StepRun) -> Facts:
        """See Step. Raises NotStored."""
        return await unlent(self._settings, run)
