"""The copier's shell around a fake engine, on one loop, without Ray's processes."""

import asyncio

import msgspec
import pytest

from actors.copier import CopierShell, first_cause
from actors.messages import ConfigRef, CopierSpec
from engine.core.events import LaneReleased
from engine.core.progress import FlowProgress
from policies.model import PartitionSet, TopicPartition
from tests.unit.actors.fakes import FLOW, lane_progress, lanes

SPEC = msgspec.msgpack.encode(
    CopierSpec(config=ConfigRef(path="/c", digest="d"), flow=FLOW, copier_id="copier-1", deployment_id="x")
)
RELEASED = LaneReleased(flow=FLOW, lane=TopicPartition("t", 0))


class FakeEngine:
    """Runs until drained, or until told to fail."""

    def __init__(self) -> None:
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sets: list[PartitionSet] = []
        self.calls: list[object] = []
        self.events: list[LaneReleased] = []

    async def run(self) -> None:
        await self.end

    def assign(self, partition_set: PartitionSet) -> None:
        self.sets.append(partition_set)

    def pause(self, topics: frozenset[str] | None) -> None:
        self.calls.append(("pause", topics))

    def resume(self, topics: frozenset[str] | None) -> None:
        self.calls.append(("resume", topics))

    def progress(self) -> FlowProgress:
        events, self.events = tuple(self.events), []
        owned = tuple(lane_progress(lane, source_next=7) for group in self.sets for lane in group.lanes)
        return FlowProgress(flow=FLOW, at_ms=0, lanes=owned, events=events, buffer_bytes=0, set_ids=())

    async def drain(self) -> None:
        self.calls.append("drain")
        self.end.set_result(None)


def make() -> tuple[CopierShell, FakeEngine]:
    engine = FakeEngine()
    return CopierShell(SPEC, make=lambda spec: engine), engine


def unpack(data: bytes) -> FlowProgress:
    return msgspec.msgpack.decode(data, type=FlowProgress)


async def test_a_drain_ends_it_with_the_last_snapshot() -> None:
    shell, engine = make()
    group = PartitionSet(set_id="A->B/000", flow=FLOW, epoch=3, lanes=lanes("t", 2))
    await shell.assign(msgspec.msgpack.encode(group))
    assert engine.sets == [group]
    engine.events.append(RELEASED)
    await shell.drain()
    last = unpack(await shell.wait_closed())
    assert engine.calls == ["drain"]
    assert [lane.source_next for lane in last.lanes] == [7, 7]
    assert last.events == (RELEASED,)


async def test_a_parked_call_raises_what_the_engine_raised() -> None:
    shell, engine = make()
    engine.end.set_exception(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await shell.wait_closed()


async def test_two_parked_calls_and_one_that_is_given_up() -> None:
    shell, _ = make()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await shell.wait_closed()
    await shell.drain()
    assert await shell.wait_closed() == await shell.wait_closed()


async def test_events_are_handed_over_once() -> None:
    shell, engine = make()
    engine.events.append(RELEASED)
    seen: list[object] = []

    async with asyncio.timeout(10):
        while not seen:
            seen.extend(unpack(await shell.progress()).events)  # type: ignore[operator] # Ray types the method as remote
            await asyncio.sleep(0.01)
    assert seen == [RELEASED]
    assert unpack(await shell.progress()).events == ()  # type: ignore[operator]
    await shell.drain()
    await shell.wait_closed()


async def test_pause_and_resume_pass_through() -> None:
    shell, engine = make()
    await shell.hello()
    await shell.pause(None)
    await shell.resume(("a", "b"))
    assert engine.calls == [("pause", None), ("resume", frozenset({"a", "b"}))]
    await shell.drain()
    await shell.wait_closed()


def test_the_first_cause_is_inside_the_groups() -> None:
    inner = ValueError("x")
    assert first_cause(ExceptionGroup("o", [ExceptionGroup("i", [inner])])) is inner
    assert first_cause(inner) is inner
