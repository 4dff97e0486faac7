"""`raymirror failover` of a flow without copiers: its source was unreachable at the start, or it was stopped before."""

import argparse
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.cli.failover import failover
from actors.local.session import MirrorPlace
from actors.model.events import FailedOver, FailoverOutcome
from actors.model.states import Command, Desired
from actors.model.status import MirrorStatus
from engine.base.errors import BrokerUnreachable
from engine.core.reports.drain import Ends
from engine.flow.failback.lent_configs import LentConfigs
from engine.flow.groups.status import GroupStatus
from engine.flow.operations.reading import OperationCopy
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.dr.lifting import LiftedFences
from engine.services.quarantine import LeftOutRecords
from engine.state.state import StateHolder
from policies.dr.operations import DrOperation
from policies.model import FlowName, TopicPartition
from tests.unit.actors.cli.failover.operation_copies import copy_of
from tests.unit.actors.telemetry.statuses import flow_status, mirror_status
from tests.unit.engine.config_files import BASE

LANE, BEATS = TopicPartition("t", 0), TopicPartition("heartbeats", 0)
STAMP_MS = 1_700_000_000_000


def known(lane: TopicPartition) -> KnownLane:
    copy = TopicPartition(f"A.{lane.topic}", lane.partition)
    return KnownLane(lane=lane, target=copy, source_next=7, at_ms=STAMP_MS, ours=True)


class World:
    """A mirror without partitions, what its target holds, and what the source tells."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.known, self.ends_now = LastKnown(lanes=(known(BEATS), known(LANE))), Ends(gone="a:1 refused")
        self.discovered, self.desired = False, Desired.RUNNING
        self.opened: DrOperation | None = None
        self.done: list[Any] = []
        self.namespace = "raymirror-t"

    # --- of the mirror

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        assert lanes in (True, False)
        flow = flow_status(
            lanes=0, unknown_lanes=0, discovered=self.discovered, desired=self.desired, waiting_for="cluster 'A'"
        )
        return mirror_status(flows=[flow])

    def command(self, command: Command, flow: str) -> None:
        self.done.append((command, flow))

    def fail_over(self, flow: str, outcome: FailoverOutcome) -> None:
        self.done.append(FailedOver(flow=FlowName(*flow.split("->")), outcome=outcome).text())

    # --- of `engine.services.dr.failover.Failover`

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def operations(self) -> OperationCopy:
        return copy_of(self.opened)

    @asynccontextmanager
    async def operating(self, holder: StateHolder) -> AsyncIterator[DrOperation | None]:
        assert holder.mirror == "raymirror-t (failover)"
        yield self.opened

    async def stored(self) -> LastKnown:
        return self.known

    async def ends(self, _lanes: Collection[TopicPartition]) -> Ends:
        return self.ends_now

    async def hold(
        self, _timeout_s: float, *, commit: bool, undrained: Mapping[Any, str], gone: str, say: Callable[[str], None]
    ) -> GroupStatus:
        self.done.append(("hold", commit, sorted(undrained), gone))
        say("waits for groups")
        return GroupStatus(groups=0, stands=())

    async def keep_tombstones(self, _topics: Collection[str], least_ms: int) -> LentConfigs:
        assert least_ms == 30 * 86_400_000
        return LentConfigs()

    async def known_left_out(self) -> LeftOutRecords:
        return LeftOutRecords()

    async def lift_fences(self) -> LiftedFences:
        return LiftedFences()

    def fails_over(self, *words: str) -> int:
        return main.main(["failover", "A->B", "--config", str(self.config), *words])


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    made = World(path)

    @contextmanager
    def one_runs(_args: argparse.Namespace) -> Iterator[tuple[World, MirrorPlace]]:
        yield made, MirrorPlace(address="h:1", namespace="raymirror-t")

    monkeypatch.setattr(failover, "mirror_on_ray", one_runs)
    monkeypatch.setattr(failover, "Failover", lambda *_args: made)
    return made


def test_its_partitions_are_judged_by_their_positions(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.fails_over() == exits.NOT_EQUAL
    said, lines = capsys.readouterr()
    assert "s    waits for groups\n" in lines
    assert "the mirror has never discovered the partitions of the flow: judged by what the target holds" in said
    assert "2023-11-14T22:13:20Z" in said
    assert "the end of the source partition is not known: the source does not answer: a:1 refused" in said
    paused, held, told = world.done
    assert (paused, held) == ((Command.PAUSE, "A->B"), ("hold", True, [LANE], "a:1 refused"))
    assert "stopped with an unknown number of records in 1 of 2 partitions not copied" in told


def test_an_open_operation_leaves_the_flow_of_a_running_mirror_alone(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.opened = DrOperation(id="op7", kind="switchover", source="B", target="A", who="ann on h", began_ms=1)
    assert world.fails_over() == exits.UNUSABLE
    assert world.done == []
    assert "switchover op7 of B->A has not ended" in capsys.readouterr().err
    assert world.fails_over("--despite-operation") == exits.NOT_EQUAL
    assert (Command.PAUSE, "A->B") in world.done


def test_its_json_has_them_too(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert world.fails_over("--json") == exits.NOT_EQUAL
    found = json.loads(capsys.readouterr().out)
    steps = ["connect", "drain", "pause", "judge", "groups", "tombstones", "stop"]
    assert [one["step"] for one in found["steps"]] == steps
    assert all(one["seconds"] >= 0 for one in found["steps"])
    rows = [(row["topic"], row["source_next"], row["records"], row["as_of_ms"]) for row in found["partitions"]]
    assert rows == [("heartbeats", 7, -1, STAMP_MS), ("t", 7, -1, STAMP_MS)]
    assert [(one["topic"], one["records"]) for one in found["rpo"]] == [("heartbeats", -1), ("t", -1)]
    assert (found["drained"], found["undiscovered"], found["without_mirror"]) == (False, True, "")


@pytest.mark.parametrize("discovered", [False, True])
def test_without_a_position_and_a_source_nobody_knows_either(
    world: World, capsys: pytest.CaptureFixture[str], discovered: bool
) -> None:
    world.known, world.discovered = LastKnown(lanes=()), discovered
    assert world.fails_over() == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert ("the number of records that are not copied is not known" in said) is not discovered
    assert "stopped with an unknown number of records not copied" in world.done[-1]


def test_a_source_that_answers_again_says_what_is_left(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.ends_now = Ends(ends={LANE: 9, TopicPartition("new", 0): 5, BEATS: 7})
    assert world.fails_over("--now") == exits.NOT_EQUAL
    assert "2 records left: the mirror has never found it on the source" in capsys.readouterr().out
    assert "an unknown number of records in 2 of 3 partitions" in world.done[-1], "the new one has no position"
    world.ends_now = Ends(ends={LANE: 7, BEATS: 7})
    assert world.fails_over("--now") == exits.OK
    assert "stopped and every record is copied" in world.done[-1]


def test_a_flow_that_was_stopped_before_is_not_started_again_for_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.desired, world.discovered, world.ends_now = Desired.STOPPED, True, Ends(ends={LANE: 9, BEATS: 7})
    assert world.fails_over() == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert "the flow was stopped before, so nothing was drained" in said
    assert "2 records left: the flow was stopped before" in said
    held, told = world.done
    assert held == ("hold", True, [LANE], "")
    assert "stopped with 2 records in 1 of 2 partitions not copied" in told
    world.ends_now = Ends(ends={LANE: 7, BEATS: 7})
    assert world.fails_over("--json") == exits.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["was_stopped"], found["undiscovered"], found["drained"]) == (True, False, True)


def test_a_failover_of_a_stopped_flow_that_is_not_finished_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse() -> LastKnown:
        raise BrokerUnreachable("b:1", "gone")

    world.desired = Desired.STOPPED
    monkeypatch.setattr(world, "stored", refuse)
    assert world.fails_over() == exits.FAILED
    assert "flow A->B is stopped: run the failover again" in capsys.readouterr().err
    assert world.done == []
