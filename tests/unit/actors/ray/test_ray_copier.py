"""A copier as the supervisor sees it: its reports are whole, also those that leave out lanes which are known."""

import asyncio
from typing import Any, cast

import msgspec

from actors.model.messages import Orders, Report
from actors.ray.ray_copier import RayCopier
from engine.core.reports.progress import FlowProgress, LaneProgress
from policies.model import FlowName, TopicPartition

FLOW = FlowName("A", "B")


def lanes(copied: int) -> tuple[LaneProgress, ...]:
    source, target = TopicPartition("t", 0), TopicPartition("A.t", 0)
    return (
        LaneProgress(
            lane=source,
            target=target,
            state="copying",
            reason="",
            source_next=copied,
            target_next=copied,
            source_end=copied,
            records=copied,
            wire_bytes=0,
            in_flight=0,
            queued_bytes=0,
            resumed_by="",
            reencoded=0,
            skipped=0,
        ),
    )


class Copier:
    """An actor that answers from a script, and notes which snapshots it heard of."""

    def __init__(self, *script: tuple[int, tuple[LaneProgress, ...], bool]) -> None:
        self.script = list(script)
        self.heard: list[int] = []
        self.is_done = asyncio.Event()
        self.hello = self.wait_closed = self.attend = self

    def remote(self, *words: bytes) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().create_future()
        if words:
            self.heard.append(msgspec.msgpack.decode(words[0], type=Orders).sample)
            if self.script:
                answer.set_result(self._report(*self.script.pop(0)))
            else:
                self.is_done.set()
        return answer

    @staticmethod
    def _report(sample: int, told: tuple[LaneProgress, ...], same: bool) -> bytes:
        progress = FlowProgress(flow=FLOW, at_ms=1, lanes=told, events=(), buffer_bytes=sample, set_ids=())
        return msgspec.msgpack.encode(
            Report(
                copier_id="c",
                fingerprint="r",
                node="n",
                term=1,
                version=1,
                stamp=1.0,
                beat=1,
                held={},
                progress=progress,
                sample=sample,
                same_lanes=same,
            )
        )


async def test_a_report_has_the_lanes_of_the_snapshot_that_was_known() -> None:
    actor = Copier((1, lanes(5), False), (1, (), True), (2, lanes(7), False), (2, (), True))
    async with asyncio.TaskGroup() as group:
        copier = RayCopier(cast("Any", actor), FLOW, "c", group, asyncio.Event())
        copier.send(Orders(term=1, version=1, sets=(), lease_s=6.0))
        await actor.is_done.wait()
        reports = copier.reports()
        copier.end()
    assert actor.heard == [0, 1, 1, 2, 2]
    assert [one.progress.lanes for one in reports] == [lanes(5), lanes(5), lanes(7), lanes(7)]
    assert [one.progress.buffer_bytes for one in reports] == [1, 1, 2, 2]
