"""Starts the tasks of one copier in its task group, so that none outlives it."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class CopierTasks:
    """Starts tasks while `group` is set: from the start of `FlowCopier.run` to its end."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None

    @property
    def running(self) -> bool:
        """Whether tasks may be started."""
        return self._group is not None

    def open(self, group: asyncio.TaskGroup) -> None:
        """Start tasks in this group from now on."""
        self._group = group

    def close(self) -> None:
        """Start no more tasks."""
        self._group = None

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task; it is dropped if the copier has ended, or is being cancelled."""
        if self._group is None:
            coroutine.close()
            return
        try:
            self._group.create_task(coroutine)
        except RuntimeError:  # the group is shutting down
            coroutine.close()
