"""The metadata shell around a fake keeper."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from actors import metadata
from actors.messages import ConfigRef, MirrorSpec
from actors.metadata import MetadataShell, Watch
from actors.ports import Found
from engine.core.events import TopicCreated
from engine.errors import MirrorError
from policies.model import LaneName
from tests.unit.actors.fakes import FLOW, lanes

SPEC = msgspec.msgpack.encode(
    MirrorSpec(
        config=ConfigRef(path="/c", digest="d"), namespace="raymirror-t", version="0", deployment_id="x", drain_s=1.0
    )
)
CREATED = TopicCreated(flow=FLOW, topic="t", target="A.t", partitions=1)


class Seen(msgspec.Struct, frozen=True):
    lanes: tuple[LaneName, ...]
    events: tuple[TopicCreated, ...] = ()
    highest_epoch: int = 0


class FakeKeeper:
    """Answers from a script; the last answer is repeated."""

    def __init__(self, script: list[Seen | Exception]) -> None:
        self.script = script
        self.opened = 0
        self.closed = 0

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1

    async def step(self) -> Seen:
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def look(shell: MetadataShell, until: Callable[[Found], bool]) -> Found:
    async with asyncio.timeout(10):
        while True:
            found = msgspec.msgpack.decode(await shell.found("A", "B"), type=Found)
            if until(found):
                return found
            await asyncio.sleep(0.005)


def make(*script: Seen | Exception) -> tuple[MetadataShell, FakeKeeper]:
    keeper = FakeKeeper(list(script))
    return MetadataShell(SPEC, make=lambda spec: (Watch(flow=FLOW, keeper=keeper, every_s=0.01),)), keeper


async def test_rounds_go_on_and_events_come_once() -> None:
    shell, _ = make(Seen(lanes("t", 1), (CREATED,), 4), Seen(lanes("t", 2)))
    first = await look(shell, lambda found: bool(found.events))
    assert (first.events, first.highest_epoch >= 0) == ((CREATED,), True)
    later = await look(shell, lambda found: len(found.lanes) == 2)
    assert later.serial > 1
    assert later.events == ()


async def test_a_failed_round_is_told_and_the_keeper_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "RETRY_S", (0.01,))
    shell, keeper = make(Seen(lanes("t", 1)), *[MirrorError("source: no answer")] * 4, Seen(lanes("t", 3)))
    seen: list[str] = []

    def recovered(found: Found) -> bool:
        seen.append(found.failure)
        return len(found.lanes) == 3 and not found.failure

    await look(shell, recovered)
    assert keeper.opened == 5
    assert keeper.closed == 4
    assert set(seen) <= {"", "source: no answer"}


async def test_a_bug_reaches_the_caller() -> None:
    shell, keeper = make(KeyError("bug"))
    with pytest.raises(KeyError, match="bug"):
        await look(shell, lambda found: False)
    assert keeper.closed == 1
