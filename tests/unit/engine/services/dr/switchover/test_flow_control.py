"""What an operation without a mirror stores as the wanted state of its flow."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self, cast

import pytest

from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.dr.switchover import flow_control
from engine.services.dr.switchover.flow_control import StoredControl
from engine.state.state import DESIRED, DesiredState, Key, StateHolder, Value

HOLDER = StateHolder(deployment_id="d", instance_id="i", mirror="m", version="1", where="w")


class Kept:
    """The state of the flow, owned by the command."""

    def __init__(self, wanted: DesiredState | None) -> None:
        self.wanted = wanted

    @asynccontextmanager
    async def held(self, *_args: object) -> AsyncIterator[Self]:
        yield self

    def load(self) -> Mapping[Key, Value]:
        return {} if self.wanted is None else {DESIRED: self.wanted}

    async def put(self, entries: Mapping[Key, Any]) -> None:
        self.wanted = entries[DESIRED]


def control(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> StoredControl:
    monkeypatch.setattr(flow_control, "held", kept.held)
    config, flow = cast("MirrorConfig", None), cast("FlowConfig", None)
    return StoredControl(config, flow, HOLDER, lambda _owner: False, "by hand", "no mirror")


@pytest.mark.parametrize(
    ("does", "state", "is_over"), [("pause", "paused", False), ("resume", "running", False), ("stop", "stopped", True)]
)
async def test_the_next_mirror_finds_what_was_wanted(
    monkeypatch: pytest.MonkeyPatch, does: str, state: str, is_over: bool
) -> None:
    kept = Kept(DesiredState(state="paused", paused_topics=("t",), moved_topics=("t",)))
    await getattr(control(kept, monkeypatch), does)()
    assert kept.wanted is not None
    assert kept.wanted.moved_topics == ("t",)
    assert (kept.wanted.state, kept.wanted.failed_over, kept.wanted.paused_topics) == (state, is_over, ("t",))
    assert (kept.wanted.switched is True) is is_over, "a switchover stops it, no failover"


@pytest.mark.parametrize("stop", ["failover", "failback"])
@pytest.mark.parametrize("does", ["pause", "resume", "stop"])
async def test_a_flow_that_was_failed_over_meanwhile_is_not_started_by_an_abort(
    monkeypatch: pytest.MonkeyPatch, does: str, stop: Any
) -> None:
    over = DesiredState(state="stopped", stop=stop, at_ms=7)
    kept = Kept(over)
    await getattr(control(kept, monkeypatch), does)()
    assert kept.wanted == over


@pytest.mark.parametrize(
    ("before", "state"),
    [(None, "running"), (DesiredState(state="paused", paused_topics=("t",)), "paused")],
)
async def test_the_next_mirror_finds_the_moved_topics(
    monkeypatch: pytest.MonkeyPatch, before: DesiredState | None, state: str
) -> None:
    kept = Kept(before)
    asked = control(kept, monkeypatch)
    await asked.pause_moved(["t", "u"])
    await asked.pause_moved(["u"])
    assert kept.wanted is not None
    assert (kept.wanted.state, kept.wanted.paused_topics, kept.wanted.moved_topics) == (state, ("t", "u"), ("t", "u"))
    await asked.release_moved(["u", "other"])
    assert (kept.wanted.paused_topics, kept.wanted.moved_topics) == (("t",), ("t",))


async def test_topics_that_move_do_not_change_the_time_of_a_failover(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(DesiredState(state="stopped", stop="failover", at_ms=7))
    await control(kept, monkeypatch).pause_moved(["t"])
    assert kept.wanted == DesiredState(
        state="stopped", stop="failover", at_ms=7, paused_topics=("t",), moved_topics=("t",)
    )
