"""A failover without a mirror that is killed or loses its target at any request: the same command finishes it."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.cli.common import exits
from actors.cli.failover import failover, failover_alone
from actors.local.session import NoMirror
from engine.base.errors import ConnectionLost
from engine.core.events.events import Event
from engine.core.reports.drain import Ends
from engine.flow.failback.lent_configs import LentConfigs
from engine.flow.groups.status import GroupStatus
from engine.flow.topic_logs.last_known import LastKnown
from engine.services.dr.lifting import LiftedFences
from engine.state.state import DESIRED, DesiredState, Key, Value
from tests.unit.actors.cli.failover.test_failover_alone import World, ask
from tests.unit.engine.config_files import BASE


class Killed(BaseException):
    """The command's process has ended."""


class StruckWorld(World):
    """A target that is asked, and struck at one request. `effects`: what the whole command has made, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.strike_at, self.asked = -1, 0
        self.strike: type[BaseException] = Killed
        self.effects: list[str] = []

    def reach(self, effect: str = "") -> None:
        self.asked += 1
        if self.asked - 1 == self.strike_at:
            raise self.strike("struck")
        if effect:
            self.effects.append(effect)

    async def state(self) -> Mapping[Key, Value]:
        self.reach()
        return await super().state()

    async def stored(self) -> LastKnown:
        self.reach()
        return await super().stored()

    async def ends(self, lanes: Any) -> Ends:
        self.reach()
        return await super().ends(lanes)

    async def hold(
        self, _timeout_s: float, *, commit: bool, undrained: Mapping[Any, str], gone: str, say: Callable[[str], None]
    ) -> GroupStatus:
        self.reach("groups")
        return await super().hold(_timeout_s, commit=commit, undrained=undrained, gone=gone, say=say)

    async def keep_tombstones(self, topics: Any, least_ms: int) -> LentConfigs:
        self.reach("tombstones")
        return await super().keep_tombstones(topics, least_ms)

    async def lift_fences(self) -> LiftedFences:
        self.reach("fences")
        return await super().lift_fences()

    async def put(self, entries: Mapping[Key, Value | None]) -> None:
        self.reach("stopped")
        await super().put(entries)

    async def write_down(self, _config: object, _flow: object, event: Event) -> str:
        self.reach("event")
        return await super().write_down(_config, _flow, event)


def patched(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def none_runs(_args: argparse.Namespace) -> Iterator[None]:
        raise NoMirror("nowhere")
        yield

    monkeypatch.setattr(failover, "mirror_on_ray", none_runs)
    monkeypatch.setattr(failover_alone, "Failover", lambda *_args: world)
    monkeypatch.setattr(failover_alone, "held", world.held)
    monkeypatch.setattr(failover_alone, "_write_down", world.write_down)


@pytest.mark.parametrize("strike", [Killed, ConnectionLost])
def test_the_same_command_finishes_it(
    strike: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    whole = StruckWorld()
    patched(whole, monkeypatch)
    ask(str(path))
    order = ["groups", "tombstones", "fences", "stopped", "event"]
    assert whole.effects == order
    for at in range(whole.asked):
        world = StruckWorld()
        world.strike_at, world.strike = at, strike
        patched(world, monkeypatch)
        try:
            code = ask(str(path))
        except Killed:
            code = -9
        assert code not in (exits.OK, exits.NOT_EQUAL), f"struck at {at}: it must not look finished"
        before = len(world.effects)
        assert world.effects == order[:before], at
        ask(str(path))
        assert world.effects[before:] == order, at
        wanted = world.entries[DESIRED]
        assert isinstance(wanted, DesiredState)
        assert (wanted.state, wanted.stop) == ("stopped", "failover")
