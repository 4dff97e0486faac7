"""A switchover between two embedded clusters in the process of a test: the copiers, a producer, kills of its driver."""

import asyncio
import stat
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from copy import copy
from pathlib import Path
from unittest import mock

from actors.cli.common.quiesce import is_still
from actors.cli.dr.driving import Drive, ShownProgress, driven
from actors.cli.dr.mirror_control import STOPPED
from actors.cli.dr.operated_flow import OperatedFlow, flow_of_file, new_id
from deploy.local.cluster import EmbeddedCluster
from engine.base.errors import ConnectionLost
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.reports.progress import LaneProgress
from engine.services.dr.switchover.build import SwitchoverChoices, settled_choices
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.runner import Copier
from engine.services.topic_service import TopicService
from policies.dr.operations import DrOperation, NextMove
from policies.model import PartitionSet, TopicPartition
from tests.harness.flow_file import QUIET, flow_settings, write_settings

DEADLINE_S = 240.0


class DriverKilled(BaseException):
    """The driver's process has ended."""


@asynccontextmanager
async def copying(config: MirrorConfig, flow: FlowConfig) -> AsyncIterator[Copier]:
    """Discover once and copy a flow until the block ends."""
    found, keeper = None, TopicService(config, flow)
    try:
        await keeper.open()
        async with asyncio.timeout(DEADLINE_S):
            while found is None or not found.lanes:
                with suppress(ConnectionLost):
                    found = await keeper.step()
                await asyncio.sleep(0.1)
    finally:
        await keeper.close()
    copier = Copier(config, flow, copier_id="copier-1", deployment_id="test")
    epoch = found.highest_epoch + 1
    copier.assign(PartitionSet(set_id=f"{flow.name}/000", flow=flow.name, epoch=epoch, lanes=found.lanes))
    task = asyncio.create_task(copier.run())
    try:
        yield copier
        await copier.drain()
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


class CopierControl:
    """The control of a flow that a copier of this process copies (`FlowControl`)."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self.paused = self.stopped = False
        self.paused_topics: list[str] = []

    async def is_copying(self) -> bool:
        return not self.paused and not self.stopped

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        return {one.lane: one.reason for one in self._copier.progress().lanes if one.state in STOPPED}

    async def pause(self) -> None:
        self._copier.pause(None)
        self.paused = True
        async with asyncio.timeout(DEADLINE_S):
            while not all(map(is_still, self._copier.progress().lanes)):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)

    async def pause_moved(self, topics: Sequence[str]) -> None:
        self._copier.pause(frozenset(topics))
        self.paused_topics += topics
        async with asyncio.timeout(DEADLINE_S):
            while not all(map(is_still, self._lanes_of(topics))):  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)

    async def release_moved(self, topics: Sequence[str]) -> None:
        self._copier.resume(frozenset(topics))
        self.paused_topics = [one for one in self.paused_topics if one not in topics]

    def _lanes_of(self, topics: Sequence[str]) -> list[LaneProgress]:
        return [one for one in self._copier.progress().lanes if one.lane.topic in topics]

    async def resume(self) -> str:
        self._copier.resume(None)
        self.paused = False
        return ""

    async def stop(self) -> None:
        await self._copier.drain()
        self.stopped = True

    async def start_reverse(self) -> str:
        return "by the test"


class SwitchoverStage:
    """A flow `ALIAS->there` of topic `ALIAS-t`, and the driver of its switchover. `gate`: it exists while fenced."""

    def __init__(
        self,
        folder: Path,
        alias: str,
        source: EmbeddedCluster,
        target: EmbeddedCluster,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.flow, self.path, self.gate = f"{alias}->there", folder / "mm2.properties", folder / "gate"
        script = folder / "fence.sh"
        script.write_text(
            f'#!/bin/sh\ncase "$1" in\nclose) cat > "{self.gate}.topics"; touch "{self.gate}" ;;\n'
            f'open) rm -f "{self.gate}" ;;\nesac\n'
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        usual = {**QUIET, "sync.topic.acls.enabled": "false", "raymirror.dr.fence.command": str(script)}
        write_settings(self.path, flow_settings(alias, source, target, {**usual, **(settings or {})}))

    @property
    def found(self) -> OperatedFlow:
        """The flow and its reverse."""
        found = flow_of_file(self.path, self.flow)
        assert found is not None
        return found

    def turned(self, flow: str) -> "SwitchoverStage":
        """Return the stage of the reverse flow, with the same file and gate."""
        other = copy(self)
        other.flow = flow
        return other

    @asynccontextmanager
    async def drive(self, control: FlowControl) -> AsyncIterator[Drive]:
        """Own the operations."""
        async with driven(self.found, control) as drive:
            yield drive

    async def start(self, control: FlowControl, choices: SwitchoverChoices) -> DrOperation:
        """Begin a switchover."""
        found = self.found
        async with self.drive(control) as drive:
            settled = await settled_choices(choices, drive.source, found.config.fence_command, found.reverse)
            new = DrOperation(
                id=new_id(),
                kind="switchover",
                source=found.flow.name.source,
                target=found.flow.name.target,
                who="test",
                began_ms=1,
                choices=settled.facts(),
            )
            return await drive.run(lambda driver: driver.start(new), settled)

    async def resume(self, control: FlowControl) -> DrOperation:
        """Go on."""
        async with self.drive(control) as drive:
            return await drive.resume()

    async def abort(self, control: FlowControl) -> DrOperation:
        """Go back."""
        async with self.drive(control) as drive:
            return await drive.abort("told to")


@contextmanager
def killed_before(step: str) -> Iterator[None]:
    """End every driver that is about to begin a step, or to undo it."""
    moved = ShownProgress.moved

    def dies(self: ShownProgress, operation: DrOperation, move: NextMove) -> None:
        moved(self, operation, move)
        if move.step is not None and move.step.name == step:
            raise DriverKilled

    with mock.patch.object(ShownProgress, "moved", dies):
        yield
