"""A flow copied on the loop of the test, as a command of `raymirror` sees it: a mirror without Ray."""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from actors.cli.failover import failover
from actors.cli.main import build_parser
from actors.cli.running import pause
from actors.local.session import MirrorPlace
from actors.model.events import FailoverOutcome
from actors.model.states import Command, Desired
from actors.model.status import FlowStatus, MirrorStatus
from deploy.local.cluster import EmbeddedCluster
from engine.base.clock import now_s, wall_ms
from engine.base.errors import ConnectionLost
from engine.config.config import load_config
from engine.core.reports.progress import LaneProgress
from engine.flow.ports.discovery import Discovery
from engine.services.runner import Copier
from engine.services.topic_service import TopicService
from policies.model import PartitionSet
from tests.harness.flow_file import flow_settings, write_settings

T = TypeVar("T")
DEADLINE_S = 240.0
_CALL_S = 60.0


class Rayless:
    """One flow `ALIAS->there`: its configuration, its copier, and commands given to it."""

    def __init__(
        self,
        folder: Path,
        alias: str,
        source: EmbeddedCluster,
        target: EmbeddedCluster,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        path = write_settings(folder / "mm2.properties", flow_settings(alias, source, target, settings))
        self._read(path, f"{alias}->there")

    @classmethod
    def of(cls, path: Path, flow: str) -> "Rayless":
        """Return the flow of a file that is there already."""
        made = cls.__new__(cls)
        made._read(path, flow)
        return made

    def _read(self, path: Path, flow: str) -> None:
        self.flow, self.path = flow, path
        self.config = load_config(self.path)
        self._flow = next(one for one in self.config.flows if str(one.name) == self.flow)
        self._loop = asyncio.get_running_loop()
        self._copier: Copier | None = None
        self.outcomes: list[FailoverOutcome] = []

    @asynccontextmanager
    async def run(self) -> AsyncIterator["Rayless"]:
        """Discover once and copy until the block ends."""
        found = await self._discover()
        self._copier = Copier(self.config, self._flow, copier_id="copier-1", deployment_id="test")
        epoch = found.highest_epoch + 1
        self._copier.assign(
            PartitionSet(set_id=f"{self.flow}/000", flow=self._flow.name, epoch=epoch, lanes=found.lanes)
        )
        task = asyncio.create_task(self._copier.run())
        try:
            yield self
            await self._copier.drain()
            await task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _discover(self) -> Discovery:
        keeper = TopicService(self.config, self._flow)
        try:
            await keeper.open()
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    with suppress(ConnectionLost):  # not every broker knows new topics at once
                        if (found := await keeper.step()).lanes:
                            return found
                    await asyncio.sleep(0.1)
        finally:
            await keeper.close()

    @property
    def copier(self) -> Copier:
        """The copier at work."""
        assert self._copier is not None
        return self._copier

    def lanes(self) -> list[LaneProgress]:
        """Return how every lane is, on the loop of the copier."""
        return list(self.copier.progress().lanes)

    async def until(self, holds: Callable[[list[LaneProgress]], Any], what: str) -> None:
        """Wait until the lanes are so."""
        give_up_at_s = now_s() + DEADLINE_S
        while not holds(lanes := self.lanes()):
            assert now_s() < give_up_at_s, f"not within {DEADLINE_S:.0f} s: {what}; {lanes}"
            await asyncio.sleep(0.1)

    async def ask(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
        """Give a command, e.g. `failover --timeout 5`: exit code, and what it printed (`failover`: its JSON)."""
        command, *rest = words
        is_failover = command == "failover"
        monkeypatch.setattr(failover, "mirror_on_ray", self._found)
        monkeypatch.setattr(pause, "running_mirror", self._found)
        args = build_parser(command).parse_args([command, self.flow, *(["--json"] if is_failover else []), *rest])
        capsys.readouterr()
        code = await asyncio.to_thread((failover if is_failover else pause).run, args)
        said = capsys.readouterr()
        return code, json.loads(said.out) if is_failover else said.out + said.err

    @contextmanager
    def _found(self, _args: argparse.Namespace) -> Iterator[tuple["Handle", MirrorPlace]]:
        yield Handle(self), MirrorPlace(address="h:1", namespace=Handle.namespace, local=False)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop of the copier, from the thread of a command."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_S)


class Handle:
    """What a command has of a mirror (`actors.ray.mirror.Mirror`), in the thread of the command."""

    namespace = "n"

    def __init__(self, world: Rayless) -> None:
        self._world = world

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        return self._world.call(self._status(lanes=lanes))

    async def _status(self, *, lanes: bool) -> MirrorStatus:
        rows = self._world.lanes()
        flow = FlowStatus(
            flow=self._world.flow,
            desired=Desired.RUNNING,
            paused_topics=(),
            topics=1,
            lanes=len(rows),
            unknown_lanes=0,
            lane_states={},
            lag_records=0,
            records=0,
            wire_bytes=0,
            records_per_s=0.0,
            bytes_per_s=0.0,
            errors=0,
            waiting_for="",
        )
        return MirrorStatus(
            namespace="n",
            version="0",
            config_path=str(self._world.path),
            config_digest="",
            desired=Desired.RUNNING,
            phase="running",
            at_ms=wall_ms(),
            up_s=0.0,
            flows=(flow,),
            copiers=(),
            events=(),
            lanes=tuple(rows) if lanes else (),
        )

    def command(self, command: Command, flow: str | None = None, topics: tuple[str, ...] = ()) -> MirrorStatus:
        del flow

        async def do() -> None:
            (self._world.copier.pause if command is Command.PAUSE else self._world.copier.resume)(
                frozenset(topics) or None
            )

        self._world.call(do())
        return self.status()

    def fail_over(self, _flow: str, outcome: FailoverOutcome) -> None:
        self._world.outcomes.append(outcome)
