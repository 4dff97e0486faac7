"""What an operation makes of the stored wish of a flow that no mirror runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.services.dr.switchover import flow_control
from engine.services.dr.switchover.flow_control import WAS_FAILED_OVER, StoredControl
from engine.state.state import DESIRED, DesiredState

FAILED_OVER = DesiredState(state="stopped", stop="failover", paused_topics=("t",), at_ms=5)


class Stored:
    """The state of a flow, which anybody may take."""

    def __init__(self, wanted: DesiredState | None) -> None:
        self.entries: dict[Any, Any] = {} if wanted is None else {DESIRED: wanted}

    @asynccontextmanager
    async def held(self, *_args: Any) -> AsyncIterator["Stored"]:
        yield self

    def load(self) -> dict[Any, Any]:
        return self.entries

    async def put(self, entries: dict[Any, Any]) -> None:
        self.entries |= entries


def control(monkeypatch: pytest.MonkeyPatch, stored: Stored) -> StoredControl:
    monkeypatch.setattr(flow_control, "held", stored.held)
    nothing: Any = None
    return StoredControl(nothing, nothing, nothing, nothing, "by hand", "none runs")


async def test_a_failover_outlasts_a_pause_and_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(FAILED_OVER)
    asked = control(monkeypatch, stored)
    await asked.pause()
    assert await asked.resume() == WAS_FAILED_OVER
    assert stored.entries == {DESIRED: FAILED_OVER}


@pytest.mark.parametrize("before", [None, DesiredState(state="paused"), DesiredState(state="stopped", stop="mirror")])
async def test_any_other_wish_gives_way(monkeypatch: pytest.MonkeyPatch, before: DesiredState | None) -> None:
    stored = Stored(before)
    asked = control(monkeypatch, stored)
    assert await asked.resume() == ""
    assert stored.entries[DESIRED].state == "running"
    await asked.pause()
    assert stored.entries[DESIRED].state == "paused"
    await asked.stop()
    assert (stored.entries[DESIRED].state, stored.entries[DESIRED].stop) == ("stopped", "failover")
