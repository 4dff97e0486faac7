"""What an operation asks of a running mirror, and what it makes of the answers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from actors.cli.dr import mirror_control
from actors.cli.dr.mirror_control import SWITCHED, MirrorControl, NotAtRestInTime, how_to_reverse
from actors.local.session import MirrorPlace
from actors.model.events import FailedOver
from actors.model.requests import ENDED, MirrorLost
from actors.model.states import Command, Desired
from actors.ray.mirror import Mirror
from policies.model import FlowName, TopicPartition

FLOW = FlowName("A", "B")


class FakeMirror:
    """A mirror that obeys at once; it ends with its last flow if `ends`."""

    def __init__(self, *, reverse: Desired | None = Desired.STOPPED, ends: bool = False) -> None:
        self.flows = {"A->B": Desired.RUNNING} | ({"B->A": reverse} if reverse is not None else {})
        self.failed_over: set[str] = set()
        self.commands: list[tuple[str, str]] = []
        self.copiers = ["A->B"]
        self.lanes: list[Any] = []
        self.ends = ends
        self.moved: dict[str, tuple[str, ...]] = {}

    def status(self, *, lanes: bool = False) -> Any:
        del lanes
        if self.ends and self.failed_over:
            raise MirrorLost("raymirror-x", ENDED)
        flows = [
            SimpleNamespace(
                flow=name,
                desired=desired,
                failed_over=name in self.failed_over,
                heeded=True,
                moved_topics=self.moved.get(name, ()),
            )
            for name, desired in self.flows.items()
        ]
        copiers = [SimpleNamespace(flow=flow) for flow in self.copiers]
        return SimpleNamespace(flows=flows, copiers=copiers, phase="running", unremembered=(), lanes=self.lanes)

    def command(self, command: Command, flow: str, topics: tuple[str, ...] = ()) -> None:
        self.commands.append((command.value, " ".join((flow, *topics))))
        if topics:
            return
        if command is not Command.FORGET:
            self.flows[flow] = Desired.PAUSED if command is Command.PAUSE else Desired.RUNNING

    def fail_over(self, flow: str, _outcome: Any) -> None:
        self.commands.append(("fail over", flow))
        self.flows[flow], self.copiers = Desired.STOPPED, []
        self.failed_over.add(flow)


def control(mirror: FakeMirror) -> MirrorControl:
    place = MirrorPlace(address="h:1", namespace="n")
    return MirrorControl(cast("Mirror", mirror), place, FLOW, "by hand")


async def test_a_flow_is_paused_resumed_and_stopped_once() -> None:
    mirror = FakeMirror()
    asked = control(mirror)
    assert await asked.is_copying()
    await asked.pause()
    assert not await asked.is_copying()
    await asked.resume()
    await asked.stop()
    await asked.stop()
    await asked.pause()  # a driver was killed behind the stop: nothing is to be paused any more
    assert mirror.commands == [("pause", "A->B"), ("resume", "A->B"), ("fail over", "A->B")]


async def test_partitions_that_do_not_get_on_are_told_with_the_reason() -> None:
    mirror = FakeMirror()
    told = (("A->B/000", 0, "copying", ""), ("A->B/001", 1, "refused", "too large"), ("A->B/001", 2, "failed", ""))
    rows = (*told, ("B->A/000", 3, "refused", "of the other direction"))
    mirror.lanes = [
        SimpleNamespace(set_id=set_id, lane=TopicPartition("t", number), state=state, reason=reason)
        for set_id, number, state, reason in rows
    ]
    assert await control(mirror).stopped_lanes() == {
        TopicPartition("t", 1): "too large",
        TopicPartition("t", 2): "failed",
    }


async def test_a_flow_that_somebody_has_stopped_is_stopped_for_good() -> None:
    mirror = FakeMirror()
    mirror.flows["A->B"], mirror.copiers = Desired.STOPPED, []
    await control(mirror).stop()
    assert mirror.failed_over == {"A->B"}


async def test_a_flow_that_was_failed_over_meanwhile_is_not_said_to_copy_again() -> None:
    mirror = FakeMirror()
    assert await control(mirror).resume() == ""
    mirror.fail_over("A->B", None)
    assert "was failed over" in await control(mirror).resume()
    assert mirror.commands == [("resume", "A->B"), ("fail over", "A->B")]


async def test_a_flow_that_does_not_come_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_control, "comes_to_rest", lambda *_args: False)
    with pytest.raises(NotAtRestInTime, match="flow A->B was not at rest after 60 s"):
        await control(FakeMirror()).pause()


async def test_topics_whose_producers_move_are_paused_and_a_stopped_flow_has_no_copiers_to_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirror = FakeMirror()
    asked = control(mirror)
    await asked.pause_moved(["t", "u"])
    await asked.release_moved(["u"])
    assert mirror.commands == [("pause-moved", "A->B t u"), ("release-moved", "A->B u")]
    assert await asked.is_copying()
    monkeypatch.setattr(mirror_control, "comes_to_rest", lambda *_args: False)
    with pytest.raises(NotAtRestInTime):
        await asked.pause_moved(["t"])
    await asked.stop()
    mirror.commands.clear()
    await asked.pause_moved(["t"])
    assert mirror.commands == [("pause-moved", "A->B t")]


async def test_copiers_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = FakeMirror()
    monkeypatch.setattr(mirror_control, "until", lambda _s, _holds: False)
    with pytest.raises(NotAtRestInTime, match="was not stopped"):
        await control(mirror).stop()


@pytest.mark.parametrize("wanted", [Desired.STOPPED, Desired.PAUSED, Desired.RUNNING])
@pytest.mark.parametrize("is_failed_over", [True, False])
async def test_the_reverse_flow_of_the_mirror_is_started(wanted: Desired, is_failed_over: bool) -> None:
    mirror = FakeMirror(reverse=wanted)
    if is_failed_over and wanted is Desired.STOPPED:
        mirror.failed_over.add("B->A")
    assert await control(mirror).start_reverse() == ""
    assert mirror.flows["B->A"] is Desired.RUNNING
    forgets = is_failed_over and wanted is Desired.STOPPED
    assert (("forget-failover", "B->A") in mirror.commands) == forgets


async def test_a_switchover_back_releases_the_topics_whose_producers_had_moved() -> None:
    mirror = FakeMirror(reverse=Desired.STOPPED)
    mirror.failed_over.add("B->A")
    mirror.moved["B->A"] = ("t", "u")
    await control(mirror).start_reverse()
    assert mirror.commands == [("forget-failover", "B->A"), ("release-moved", "B->A t u"), ("resume", "B->A")]


async def test_a_reverse_flow_that_the_mirror_does_not_know_is_the_operators() -> None:
    assert await control(FakeMirror(reverse=None)).start_reverse() == "by hand"


async def test_a_mirror_that_ended_with_its_last_flow() -> None:
    mirror = FakeMirror(reverse=None, ends=True)
    asked = control(mirror)
    await asked.stop()
    assert await asked.start_reverse() == "by hand"


def test_how_an_operator_starts_the_reverse_flow() -> None:
    assert how_to_reverse(Path("f"), FLOW, is_enabled=True) == "start its mirror: raymirror run f"
    assert "--reverse-config FILE" in how_to_reverse(Path("f"), FLOW, is_enabled=False)


def test_the_event_of_a_switchover_does_not_speak_of_a_failover() -> None:
    said = FailedOver(flow=FlowName("A", "B"), outcome=SWITCHED).text()
    assert said == "a switchover stopped the flow for good; nothing is left to copy, and the target serves"
