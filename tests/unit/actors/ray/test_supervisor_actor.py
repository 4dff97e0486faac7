"""The supervisor actor when its run fails: if a new process may help, it ends, and Ray starts another."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from actors.config.config_ref import ConfigMissing, refer
from actors.config.settings_change import CannotChange
from actors.control.ports import RememberedFlow
from actors.local.session import MirrorPlace
from actors.local_socket.client import reach
from actors.model.messages import AlteredOffset, ConfigRef, MirrorSpec, StoredOffset
from actors.model.needs import CopierNeeds
from actors.model.states import Command, NotAtRest, Replaced, StopKind
from actors.model.status import MirrorStatus, decode_status
from actors.ray.supervisor_actor import FAILED, SupervisorActor
from engine.base.clock import pause
from policies.model import FlowName
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, lanes

TEXT = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
SPEC = msgspec.msgpack.encode(
    MirrorSpec(
        config=ConfigRef(path="/c", digest="d"), namespace="raymirror-t", version="0", deployment_id="x", drain_s=1.0
    )
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures end the process at once."""
    monkeypatch.setattr("actors.ray.supervisor_actor.END_S", 0.0)
    monkeypatch.setattr("actors.ray.supervisor_actor.END_AGAIN_S", 0.0)


async def ended(failure: Exception | None) -> list[int]:
    """Run a shell that fails so, or ends well; give the exit codes with which it ended its process."""

    class Failing(SupervisorActor):
        async def _run(self) -> None:
            self._begun.set()
            if failure is not None:
                raise ExceptionGroup("of the task group", [failure])

    codes: list[int] = []
    shell = Failing(SPEC, end=codes.append)
    if failure is not None:
        with pytest.raises(type(failure)):
            await shell.status()  # who asks meanwhile is told
    for _ in range(5):
        await asyncio.sleep(0.001)
    return codes


async def test_a_failure_nobody_meant_ends_the_process() -> None:
    assert await ended(KeyError("a bug")) == [FAILED]


async def test_an_end_in_order_does_not() -> None:
    assert await ended(None) == []


async def test_who_was_replaced_does_not_come_back() -> None:
    assert await ended(Replaced(1, 2)) == []


async def test_a_mirror_that_cannot_begin_is_left_to_who_starts_it() -> None:
    assert await ended(ConfigMissing("/c", "node")) == []


async def test_a_mirror_that_had_begun_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.ray.supervisor_actor._was_restarted", lambda: True)
    assert await ended(ConfigMissing("/c", "node")) == [FAILED], "the file may be there again in a moment"


class FakeMetadata(FakeFleet):
    """A RayMetadata without an actor; what is to be kept is owed as long as the target is away."""

    def __init__(self, *_words: object) -> None:
        super().__init__(Clock())
        self.discover(*lanes("a", 1))
        self.owed: tuple[FlowName, ...] = ()
        self.away = False
        self.settled = False
        self.altered: list[tuple[FlowName, tuple[AlteredOffset, ...] | None]] = []
        self.reloaded: list[tuple[MirrorSpec, tuple[FlowName, ...]]] = []

    def reload(self, spec: MirrorSpec, flows: tuple[FlowName, ...]) -> None:
        self.reloaded.append((spec, flows))

    def store_state(self, flow: FlowName, state: RememberedFlow) -> None:
        super().store_state(flow, state)
        self.owed = (flow,) if self.away else ()

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def wait_written(self, _within_s: float) -> None:
        return

    async def positions(self, _flow: FlowName) -> bytes:
        return msgspec.msgpack.encode((StoredOffset(topic="t", partition=3, source_next=9),))

    async def alter_positions(self, flow: FlowName, wanted: tuple[AlteredOffset, ...] | None) -> None:
        self.altered.append((flow, wanted))

    async def settle(self) -> None:
        self.settled = True


class Stage:
    """A shell that runs as in its actor, around a fleet and a metadata actor that are none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, instance_id: str = "", text: str = TEXT) -> None:
        self.file = folder / "mm2.properties"
        self.file.write_text(text)
        self.metadata = FakeMetadata()
        self.codes: list[int] = []
        fleet: Any = FakeFleet(Clock())
        fleet.leave = lambda: None
        self.needs: dict[FlowName, CopierNeeds] = {}
        fleet.reload = lambda _spec, needs: self.needs.update(needs)
        monkeypatch.setattr("actors.ray.supervisor_actor.STEP_S", 0.01)
        monkeypatch.setattr("actors.ray.supervisor_actor.CONFIG_LOOK_S", 0.01)
        monkeypatch.setattr("actors.ray.mirror_parts.RayFleet", lambda *_words: fleet)
        monkeypatch.setattr("actors.ray.mirror_parts.RayMetadata", lambda *_words: self.metadata)
        no_hosts: Any = SimpleNamespace(clear=lambda: None)  # the real one asks Ray, which would start one here
        monkeypatch.setattr("actors.ray.mirror_parts.RayHosts", lambda *_words: no_hosts)
        spec = MirrorSpec(
            config=refer(self.file),
            namespace="raymirror-t",
            version="0",
            deployment_id="x",
            drain_s=1.0,
            instance_id=instance_id,
        )
        self.shell = SupervisorActor(msgspec.msgpack.encode(spec), end=self.codes.append)

    async def status(self) -> MirrorStatus:
        return decode_status(await self.shell.status())

    async def until(self, holds: Callable[[MirrorStatus], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds(await self.status()):
                await pause(0.01)

    async def end(self) -> None:
        """Drain; the run ends in order."""
        await self.shell.drain()
        async with asyncio.timeout(60):
            await self.shell._task


async def test_an_edited_file_is_told_and_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage = Stage(monkeypatch, tmp_path)
    await stage.until(lambda status: status.flows[0].desired == "running")
    stage.file.write_text("clusters = elsewhere\n")
    await stage.until(lambda status: any("was edited" in event.text for event in status.events))
    assert [flow.flow for flow in (await stage.status()).flows] == ["A->B"]
    await stage.end()
    assert (stage.metadata.settled, stage.codes) == (True, [])


async def test_a_command_says_what_is_not_remembered_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage = Stage(monkeypatch, tmp_path)
    stage.metadata.away = True
    assert decode_status(await stage.shell.command("pause", None, ())).unremembered == (str(FLOW),)
    stage.metadata.away = False
    assert decode_status(await stage.shell.command("resume", None, ())).unremembered == ()
    await stage.end()


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.local
async def test_it_answers_commands_of_its_machine_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, short: Path
) -> None:
    monkeypatch.setattr("actors.local_socket.folder.socket_folder", lambda: short / "sockets")
    stage = Stage(monkeypatch, tmp_path, instance_id="one")
    path = Path((await stage.status()).socket)
    place = MirrorPlace(address="h:1", namespace="raymirror-t", instance_id="one", socket=str(path))
    local = await asyncio.to_thread(reach, place)
    assert local is not None
    told = await asyncio.to_thread(local.status, lanes=True)
    assert (told.config_digest, told.socket) == ((await stage.status()).config_digest, str(path))
    assert (await asyncio.to_thread(local.command, Command.PAUSE)).flows[0].desired == "paused"
    local.close()
    await stage.end()
    assert not path.exists()


@pytest.mark.local
@pytest.mark.parametrize("mode", [0o700, 0o755])
async def test_rounds_that_fail_close_the_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, short: Path, mode: int
) -> None:
    monkeypatch.setattr("actors.local_socket.folder.socket_folder", lambda: short / "sockets")
    (short / "sockets").mkdir(mode=mode)
    stage = Stage(monkeypatch, tmp_path, instance_id="one")
    assert bool((await stage.status()).socket) == (mode == 0o700), "a mirror without a socket is a mirror"

    def step() -> None:
        raise ValueError("a bug")

    assert stage.shell._parts is not None
    monkeypatch.setattr(stage.shell._parts.supervisor, "step", step)
    async with asyncio.timeout(60):
        await asyncio.wait([stage.shell._task])
    assert list((short / "sockets").iterdir()) == []


async def test_rounds_that_fail_end_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage = Stage(monkeypatch, tmp_path)
    await stage.until(lambda status: status.flows[0].desired == "running")

    def step() -> None:
        raise ValueError("a bug")

    assert stage.shell._parts is not None
    monkeypatch.setattr(stage.shell._parts.supervisor, "step", step)
    async with asyncio.timeout(60):
        await asyncio.wait([stage.shell._task])
        while not stage.codes:
            await pause(0.01)
    with pytest.raises(ValueError, match="a bug"):
        await stage.shell.status()
    assert stage.codes == [FAILED]


async def test_positions_of_a_stopped_flow_are_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage = Stage(monkeypatch, tmp_path, text=TEXT + "A->B.topics = t\nraymirror.http.port = 1\n")
    monkeypatch.setattr("actors.http.service.HttpService.run", lambda _self: asyncio.sleep(0))
    wanted = (AlteredOffset(topic="t", partition=0, offset=7),)
    await stage.until(lambda status: status.flows[0].desired == "running")
    with pytest.raises(NotAtRest):
        await stage.shell.alter_positions("A->B", wanted)
    await stage.shell.command("stop", "A->B", ())
    await stage.until(lambda status: not status.copiers)
    await stage.shell.alter_positions("A->B", wanted)
    await stage.shell.alter_positions("A->B", None)
    with pytest.raises(CannotChange, match="topic other is not one that flow A->B copies"):
        await stage.shell.alter_positions("A->B", (AlteredOffset(topic="other", partition=0, offset=7),))
    assert stage.metadata.altered == [(FLOW, wanted), (FLOW, None)]
    await stage.end()


async def test_a_deleted_flow_is_stored_as_such(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stage = Stage(monkeypatch, tmp_path, text=TEXT + "raymirror.http.port = 1\n")
    monkeypatch.setattr("actors.http.service.HttpService.run", lambda _self: asyncio.sleep(0))
    await stage.until(lambda status: status.flows[0].desired == "running")
    await stage.shell.delete_flow("A->B")
    assert (await stage.status()).flows[0].deleted
    assert stage.metadata.kept[-1].stop is StopKind.DELETED
    await stage.end()


async def test_a_mirror_that_ends_does_not_wait_for_a_change_of_positions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stage = Stage(monkeypatch, tmp_path, text=TEXT + "raymirror.http.port = 1\n")
    monkeypatch.setattr("actors.http.service.HttpService.run", lambda _self: asyncio.sleep(0))
    begun = asyncio.Event()

    async def forever(_flow: FlowName, _wanted: object) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(stage.metadata, "alter_positions", forever)
    await stage.until(lambda status: status.flows[0].desired == "running")
    await stage.shell.command("stop", "A->B", ())
    await stage.until(lambda status: not status.copiers)
    caller = asyncio.create_task(stage.shell.alter_positions("A->B", None))
    await begun.wait()
    await stage.end()
    with pytest.raises(asyncio.CancelledError):
        await caller
