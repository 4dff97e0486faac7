"""`pause` reports when paused partitions have stopped."""

import argparse
import json

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.common import quiesce as stillness
from actors.cli.running import pause
from actors.model.states import Command
from actors.model.status import MirrorStatus
from actors.ray.mirror import MirrorLost
from engine.core.reports.progress import LaneProgress
from tests.unit.actors.cli.running.test_wishes import FakeMirror, meet
from tests.unit.actors.fakes import Clock, FakeFleet, lane_progress, lanes
from tests.unit.actors.mirrors import started

FIRST, SECOND = lanes("a", 2)
STILL = lane_progress(FIRST, state="paused")


def status_of(status: MirrorStatus, *rows: LaneProgress, heeded: bool = True) -> MirrorStatus:
    """Give a status of the flow A->B with these lanes."""
    (flow,) = status.flows
    return msgspec.structs.replace(status, flows=(msgspec.structs.replace(flow, heeded=heeded),), lanes=rows)


@pytest.fixture
def status(fleet: FakeFleet, clock: Clock) -> MirrorStatus:
    return started(fleet, clock).status()


def test_a_lane_is_still_when_it_is_paused_and_has_nothing_on_its_way() -> None:
    assert stillness.is_still(STILL)
    for change in ({"state": "copying"}, {"in_flight": 1}, {"queued_bytes": 1}, {"committed": False}):
        assert not stillness.is_still(msgspec.structs.replace(STILL, **change))
    failed = msgspec.structs.replace(STILL, state="failed", committed=False)
    assert stillness.is_still(failed), "nobody will commit for it"


def test_a_flow_rests_when_its_copiers_have_heard_and_its_lanes_are_still(status: MirrorStatus) -> None:
    still = msgspec.structs.replace(STILL, set_id="A->B/000")
    moving = msgspec.structs.replace(still, state="copying")
    foreign = msgspec.structs.replace(moving, set_id="B->C/000")
    for flow in (None, "A->B"):
        assert stillness.rests(status_of(status, still, foreign), flow, ())
        assert not stillness.rests(status_of(status, still, moving), flow, ())
        assert not stillness.rests(status_of(status, still, heeded=False), flow, ())
    assert stillness.rests(status_of(status, moving, heeded=False), "B->C", ())


def test_only_the_topics_that_were_paused_must_rest(status: MirrorStatus) -> None:
    still = msgspec.structs.replace(STILL, set_id="A->B/000")
    (other,) = lanes("b", 1)
    moving = msgspec.structs.replace(lane_progress(other), set_id="A->B/000")
    assert stillness.rests(status_of(status, still, moving), None, ("a",))
    assert not stillness.rests(status_of(status, still, moving), None, ("a", "b"))


class Slow(FakeMirror):
    """Comes to rest at the given look."""

    def __init__(self, moving: MirrorStatus, still: MirrorStatus, looks: int) -> None:
        super().__init__(moving)
        self._left, self._still = looks, still

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        assert lanes, "where lanes stand is asked for"
        self.calls.append("look")
        self._left -= 1
        return self.answer if self._left else self._still


def arguments(timeout: float) -> argparse.Namespace:
    return argparse.Namespace(flow=None, topics=(), timeout=timeout, json=False)


def test_pause_returns_when_it_is_so(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stillness, "POLL_S", 0.0)
    mirror = Slow(status_of(status, heeded=False), status_of(status), looks=3)
    meet(monkeypatch, pause, mirror)
    assert pause.run(arguments(600.0)) == exits.OK
    assert mirror.calls == [Command.PAUSE.value, "look", "look", "look"]
    assert capsys.readouterr() == ("pause: every flow\n", "")


def test_a_pause_that_takes_too_long_is_told(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = Slow(status_of(status, heeded=False), status_of(status), looks=-1)
    meet(monkeypatch, pause, mirror)
    assert pause.run(arguments(1e-9)) == exits.FAILED
    said = capsys.readouterr()
    assert said.out == ""
    assert "see: raymirror lag" in said.err
    assert "remembered" not in said.err


def test_a_pause_that_takes_too_long_says_also_what_is_not_remembered(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owed = msgspec.structs.replace(status_of(status, heeded=False), unremembered=("A->B",))
    meet(monkeypatch, pause, Slow(status_of(status, heeded=False), owed, looks=2))  # the newest answer says so
    asked = arguments(1e-9)
    asked.json = True
    assert pause.run(asked) == exits.FAILED
    said = capsys.readouterr()
    assert "the pause is not remembered yet for A->B" in said.err
    assert "it is done" not in said.err
    found = json.loads(said.out)
    assert (found["done"], found["unremembered"]) == (False, ["A->B"])


def test_a_pause_that_takes_a_while_says_once_what_it_waits_for(
    status: MirrorStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stillness, "POLL_S", 0.0)
    monkeypatch.setattr(pause, "LONG_S", 0.0)
    why = "no connection to target broker 1"
    moving = msgspec.structs.replace(STILL, set_id="A->B/000", committed=False, reason=why)
    meet(monkeypatch, pause, Slow(status_of(status, moving), status_of(status), looks=4))
    assert pause.run(arguments(600.0)) == exits.OK
    said = capsys.readouterr()
    assert said.out == "pause: every flow\n"
    assert said.err.splitlines() == [
        "every flow: waiting up to 600 s until no copier fetches and all fetched records are copied and committed",
        f"a-0: {why}",
    ]


def test_without_a_timeout_nobody_waits(status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = FakeMirror(status_of(status, heeded=False))
    meet(monkeypatch, pause, mirror)
    assert pause.run(arguments(0.0)) == exits.OK
    assert mirror.calls == [Command.PAUSE.value]


def test_a_supervisor_that_is_lost_meanwhile_is_an_error(status: MirrorStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(monkeypatch, pause, FakeMirror(status, failed=True))
    with pytest.raises(MirrorLost):
        pause.run(arguments(600.0))
