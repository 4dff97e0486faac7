"""A run of a step whose notes are in memory."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from engine.flow.operations.driver import StepRun
from policies.dr.operations import DrOperation


class KeptRun:
    """A run whose notes are a dictionary."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.said: list[str] = []
        self.operation = DrOperation(id="1", kind="switchover", source="A", target="B", who="ann", began_ms=1)

    def notes(self, name: str, _kind: type[msgspec.Struct]) -> tuple[Any, ...] | None:
        return self.rows.get(name)

    async def keep(self, name: str, rows: Sequence[msgspec.Struct]) -> None:
        self.rows[name] = tuple(rows)

    def assure(self) -> None:
        """Nobody else drives."""

    def say(self, text: str) -> None:
        self.said.append(text)

    @property
    def run(self) -> StepRun:
        return cast("StepRun", self)
