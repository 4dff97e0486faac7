"""`raymirror failover` without a mirror: on a fake target and a fake source."""

import argparse
import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.cli.failover import failover, failover_alone
from actors.local import session
from actors.local.session import NoMirror
from engine.base.errors import BrokerUnreachable, FlowHeld
from engine.core.events.events import Event
from engine.core.reports.drain import Ends
from engine.flow.failback.lent_configs import LentConfigs
from engine.flow.groups.status import GroupPartitionStatus, GroupStatus
from engine.flow.operations.errors import OperationHeld
from engine.flow.operations.reading import OperationCopy
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.dr.lifting import LiftedFences
from engine.services.quarantine import LeftOutRecords, LeftOutRow
from engine.state.state import DEPLOYMENT, DESIRED, Deployment, DesiredState, Key, StateHolder, Value
from policies.dr.lent_config import LentConfig
from policies.dr.operations import DrOperation, StepRecord, StepState
from policies.model import TopicPartition
from tests.unit.actors.cli.failover.operation_copies import copy_of
from tests.unit.engine.config_files import BASE

LANE = TopicPartition("t", 0)
GONE = Ends(gone="a:1 refused")
STAMP_MS = 1_700_000_000_000


def known(source_next: int = 7, *, ours: bool = True) -> LastKnown:
    """A partition with a position."""
    lane = KnownLane(lane=LANE, target=TopicPartition("A.t", 0), source_next=source_next, at_ms=STAMP_MS, ours=ours)
    return LastKnown(lanes=(lane,))


def owner(**changes: Any) -> Deployment:
    """The mirror that had the flow."""
    blank = {"deployment_id": "d", "instance_id": "i", "mirror": "m", "version": "0", "where": "h"}
    return Deployment(**{**blank, "term": 1, "since_ms": STAMP_MS, "at_ms": STAMP_MS, **changes})


class World:
    """What the target holds, what the source tells, and what was done."""

    def __init__(self) -> None:
        self.known, self.ends_now = known(), GONE
        self.standing = GroupStatus(groups=0, stands=())
        self.entries: dict[Key, Value] = {DEPLOYMENT: owner()}
        self.refusal: Exception | None = None
        self.failure: BaseException | None = None
        self.unsaid = ""
        self.opened: DrOperation | None = None
        self.unreadable: Exception | None = None
        self.at_work, self.owner_of_operations = "", ""
        self.begun_since: DrOperation | None = None
        self.raised = LentConfigs()
        self.done: list[Any] = []
        self.lifted = LiftedFences()
        self.left_out = LeftOutRecords()
        self.known_dead: Callable[[Deployment], bool] = lambda _owner: False

    # --- what is needed of `engine.services.dr.failover.Failover`

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def state(self) -> Mapping[Key, Value]:
        return self.entries

    async def operations(self) -> OperationCopy:
        if self.unreadable is not None:
            raise self.unreadable
        return copy_of(self.opened)

    @asynccontextmanager
    async def operating(self, holder: StateHolder) -> AsyncIterator[DrOperation | None]:
        if self.at_work:
            raise OperationHeld("A->B", self.at_work, "raymirror-state.A.internal")
        self.owner_of_operations = holder.mirror
        try:
            yield self.opened or self.begun_since
        finally:
            self.owner_of_operations = ""

    async def stored(self) -> LastKnown:
        return self.known

    async def ends(self, lanes: Collection[TopicPartition]) -> Ends:
        assert list(lanes) == [LANE]
        return self.ends_now

    async def hold(
        self, _timeout_s: float, *, commit: bool, undrained: Mapping[Any, str], gone: str, say: Callable[[str], None]
    ) -> GroupStatus:
        self.done.append(("hold", commit, sorted(undrained), gone))
        if self.failure is not None:
            raise self.failure
        return self.standing

    async def keep_tombstones(self, topics: Collection[str], least_ms: int) -> LentConfigs:
        assert "A.t" in topics
        return self.raised if least_ms else LentConfigs()

    async def known_left_out(self) -> LeftOutRecords:
        return self.left_out

    async def lift_fences(self) -> LiftedFences:
        return self.lifted

    # --- of `held`, and of the keeper that it gives

    @asynccontextmanager
    async def held(
        self, _config: object, _flow: object, holder: Any, known_dead: Callable[[Deployment], bool]
    ) -> AsyncIterator[Self]:
        self.known_dead = known_dead
        if self.refusal is not None:
            raise self.refusal
        self.done.append(("take", holder.mirror))
        try:
            yield self
        finally:
            self.done.append("give back")

    def load(self) -> Mapping[Key, Value]:
        return self.entries

    async def put(self, entries: Mapping[Key, Value | None]) -> None:
        assert self.unreadable or self.at_work or self.owner_of_operations == "raymirror-A-B (failover)"
        self.entries.update({key: value for key, value in entries.items() if value is not None})
        self.done.append("stopped")

    async def write_down(self, _config: object, _flow: object, event: Event) -> str:
        self.done.append(event.text())
        return self.unsaid


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    made = World()

    @contextmanager
    def none_runs(_args: argparse.Namespace) -> Iterator[None]:
        raise NoMirror("nowhere")
        yield

    monkeypatch.setattr(failover, "mirror_on_ray", none_runs)
    monkeypatch.setattr(failover_alone, "Failover", lambda *_args: made)
    monkeypatch.setattr(failover_alone, "held", made.held)
    monkeypatch.setattr(failover_alone, "_write_down", made.write_down)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return made


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    return str(path)


def ask(config: str, *words: str) -> int:
    return main.main(["failover", "A->B", "--config", config, *words])


def operation(kind: str, *steps: str) -> DrOperation:
    """An operation that has not ended, with the steps that have begun."""
    begun = tuple(StepRecord(name=name, state=StepState.BEGUN, began_ms=1) for name in steps)
    return DrOperation(id="op7", kind=kind, source="A", target="B", who="ann on h", began_ms=1, steps=begun)


def test_a_failback_is_the_way_back_only_if_copies_keep_their_names(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(config).open("a") as file:
        file.write("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n")
    ask(config)
    way = "; to give A what B gets: raymirror dr failback 'A->B'; to copy in the old direction"
    assert way in capsys.readouterr().out
    assert way in world.done[3]


@pytest.mark.parametrize(
    ("opened", "ways"),
    [
        (
            operation("switchover"),
            "back: raymirror dr abort 'A->B', or go on with it: raymirror dr resume 'A->B'",
        ),
        (operation("switchover", "reverse"), "'A->B'; go on with it: raymirror dr resume 'A->B'"),
        (operation("failback"), "take it back: raymirror dr failback 'A->B' --abort, or go on with it"),
        (operation("failback", "late-copy"), "'A->B'; go on with it: raymirror dr failback 'A->B'"),
    ],
)
def test_an_open_operation_refuses_a_failover_until_it_is_overridden(
    world: World, config: str, capsys: pytest.CaptureFixture[str], opened: DrOperation, ways: str
) -> None:
    world.opened = opened
    assert ask(config) == exits.UNUSABLE
    assert world.done == [], "nothing was taken, held or stopped"
    said = capsys.readouterr().err
    assert f"{opened.kind} op7 of A->B has not ended (last driven by ann on h)" in said
    assert ways in said
    assert "the same command with --despite-operation" in said
    ask(config, "--despite-operation")
    assert "stopped" in world.done
    assert "A->B is failed over despite that" in capsys.readouterr().err


def test_of_two_failovers_at_once_the_second_is_refused_until_it_is_overridden(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.at_work = "command 'failover' beside mirror 'raymirror-A-B' on east-1"
    assert ask(config) == exits.UNUSABLE
    assert world.done == [], "nothing was taken, held or stopped"
    said = capsys.readouterr().err
    assert "operations of A->B are driven by command 'failover' beside mirror 'raymirror-A-B' on east-1" in said
    assert "wait until that command ends, or end it" in said
    ask(config, "--despite-operation")
    assert "stopped" in world.done
    assert "on east-1 is at work, and A->B is failed over despite that" in capsys.readouterr().err


def test_an_operation_that_begins_in_the_same_moment_is_seen(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.begun_since = operation("switchover")
    assert ask(config) == exits.UNUSABLE
    assert world.done == [], "nothing was taken, held or stopped"
    assert "switchover op7 of A->B has not ended" in capsys.readouterr().err


def test_a_failover_does_not_wait_for_operations_that_cannot_be_read(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.unreadable = BrokerUnreachable("cluster 'B'", "b:1 refused")
    ask(config)
    assert "stopped" in world.done
    assert "whether an operation of A->B is open is not known" in capsys.readouterr().err


def test_without_a_source_nothing_is_drained_and_the_age_of_what_is_known_is_said(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stand = GroupPartitionStatus(
        group="g", topic="A.t", partition=0, source_offset=3, target_offset=4, stored=4, why="old", as_of_ms=1
    )
    world.standing = GroupStatus(groups=1, stands=(stand,))
    assert ask(config) == exits.NOT_EQUAL
    said = capsys.readouterr()
    assert "no mirror of A->B runs (nowhere)" in said.err
    assert "has not given the flow back; waiting up to 30 s for a sign of life of that owner" in said.err
    assert "2023-11-14T22:13:20Z" in said.out
    assert "the end of the source partition is not known: the source does not answer: a:1 refused" in said.out
    assert "1970-01-01T00:00:00Z" in said.out, "the checkpoint's age"
    assert said.out.count("the end of the source partition is not known") == 1, "each partition is listed once"
    assert said.out.splitlines()[-1] == (
        "flow A->B is stopped, and no start copies it again; copies have other names than their topics, so"
        " no failback is needed: A gets what B gets by the flow B->A, and B gets what only A has when A->B is copied"
        " again; to copy in the old direction all the same: raymirror run CONFIG --forget-failover 'A->B'"
    )
    assert world.done[3].endswith("again: raymirror run CONFIG --forget-failover 'A->B'")
    assert world.done == [
        ("take", "raymirror-A-B (failover)"),
        ("hold", True, [LANE], "a:1 refused"),
        "stopped",
        world.done[3],
        "give back",
    ]
    assert "an unknown number of records in 1 of 1 partition" in world.done[3]


def test_compacted_copies_keep_tombstones_for_longer_unless_they_are_not_to(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lent = LentConfig(topic="A.t", name="delete.retention.ms", before="1000", value="2592000000")
    world.raised = LentConfigs(lent=(lent,), failed={"A.u": "denied"})
    ask(config)
    said = capsys.readouterr().out
    assert "delete.retention.ms is now 2592000000 on compacted copies: A.t (before: 1000)" in said
    assert "delete.retention.ms of A.u is not raised, so a failback may not find what was deleted: denied" in said
    assert "delete.retention.ms was raised (before, in ms): A.t (1000)" in world.done[3]
    ask(config, "--keep-tombstones", "0")
    assert "delete.retention.ms" not in capsys.readouterr().out
    assert ask(config, "--keep-tombstones", "-1") == exits.UNUSABLE


def test_a_fence_that_still_keeps_producers_out_is_no_success(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = ask(config)
    world.lifted = LiftedFences(bindings=2)
    assert ask(config) == before
    assert "left on the target is taken away: 2 ACLs" in capsys.readouterr().out
    world.lifted = LiftedFences(failed={"switchover 1 of B->A": "denied"})
    assert ask(config) == exits.NOT_EQUAL
    assert "kept from the target by the fence of switchover 1 of B->A: denied" in capsys.readouterr().out


def test_records_that_the_target_refused_are_no_success(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.ends_now = Ends(ends={LANE: 7})
    world.standing = GroupStatus(groups=0, stands=())
    assert ask(config) == exits.OK
    world.left_out = LeftOutRecords(rows=(LeftOutRow("t", 0, 3), LeftOutRow("u", 1, 1)))
    assert ask(config) == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert "t-0: the target lacks 3 records that it refused\nu-1: the target lacks 1 record that it refused\n" in said
    assert "raymirror quarantine list" in said
    assert "every record is copied, besides 4 records that the target refused" in str(world.done)
    assert ask(config, "--json") == exits.NOT_EQUAL
    found = json.loads(capsys.readouterr().out)
    assert (found["drained"], found["left_out"]["rows"][0]["records"]) == (False, 3)
    world.left_out = LeftOutRecords(unknown="denied")
    assert ask(config) == exits.NOT_EQUAL
    assert "whether the target lacks records that it refused is not known: denied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("as_of_ms", "missing", "said"),
    [(1, {}, True), (-1, {"broker 1 of cluster 'A'": "refused"}, True), (-1, {}, False)],
)
def test_partitions_without_a_checkpoint_are_told_of_where_there_may_be_some(
    world: World, config: str, capsys: pytest.CaptureFixture[str], as_of_ms: int, missing: dict[str, str], said: bool
) -> None:
    stand = GroupPartitionStatus(
        group="g", topic="t", partition=0, source_offset=3, target_offset=4, stored=4, why="old", as_of_ms=as_of_ms
    )
    world.standing = GroupStatus(groups=1, stands=(stand,), missing=missing)
    ask(config)
    told = capsys.readouterr().out
    assert ("partitions without a checkpoint of a group are not listed" in told) is said
    assert ("its consumers start by their auto.offset.reset" in told) is said


def test_the_mirror_that_has_died_here_is_noted_as_failed_over(
    world: World, config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = session.StateFile(
        address="h:1",
        namespace="raymirror-A-B",
        pid=2**22 + 1,
        pid_start=1,
        version="0",
        config_path=config,
        config_digest="",
        local=True,
    )
    session.write(dead, os.environ)
    world.failure = BrokerUnreachable("b:1", "gone")
    assert ask(config) == exits.FAILED
    assert "failed over" not in session.last_ended(None, 0, os.environ), "it is not finished"
    world.failure = None
    assert ask(config) == exits.NOT_EQUAL
    assert f"A->B was failed over, and raymirror run {config} does not copy" in session.last_ended(None, 0, os.environ)
    capsys.readouterr()

    def full(*_args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(session, "note_failover", full)
    assert ask(config) == exits.NOT_EQUAL
    assert "that A->B was failed over: no space left" in capsys.readouterr().err


def test_its_json_says_what_is_not_known(world: World, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    world.entries[DESIRED] = DesiredState(state="paused", paused_topics=("p",))
    world.unsaid = "denied"
    assert ask(config, "--json", "--no-commit") == exits.NOT_EQUAL
    found = json.loads(capsys.readouterr().out)
    assert [one["step"] for one in found["steps"]] == ["connect", "take", "judge", "groups", "tombstones", "stop"]
    assert (found["drained"], found["stopped"], found["without_mirror"], found["source"]) == (
        False,
        True,
        "nowhere",
        "a:1 refused",
    )
    assert (found["mirror_seen_ms"], found["event_unsaid"]) == (STAMP_MS, "denied")
    (row,) = found["partitions"]
    assert (row["source_next"], row["source_end"], row["records"], row["as_of_ms"]) == (7, -1, -1, STAMP_MS)
    assert world.done[1] == ("hold", False, [LANE], "a:1 refused")
    wanted = world.entries[DESIRED]
    assert isinstance(wanted, DesiredState)
    assert (wanted.state, wanted.paused_topics, wanted.who.startswith("raymirror failover")) == (
        "stopped",
        ("p",),
        True,
    )


def test_with_a_source_that_answers_all_may_be_there(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.ends_now, world.entries = Ends(ends={LANE: 7}), {}
    assert ask(config) == exits.OK
    assert "last sign of life of a mirror of this flow: never" in capsys.readouterr().out
    world.ends_now = Ends(ends={LANE: 9, TopicPartition("new", 0): 5})
    assert ask(config) == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert "2 records left: no mirror runs that could copy it" in said
    assert "new-0" in said


def test_heartbeats_that_go_on_are_no_reason_for_another_exit_code(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    beats, hop = TopicPartition("heartbeats", 0), TopicPartition("Z.heartbeats", 0)
    world.ends_now = Ends(ends={LANE: 7, beats: 50}, unknown={hop: "no leader"})
    assert ask(config, "--json") == exits.OK
    found = json.loads(capsys.readouterr().out)
    assert found["drained"]
    assert [(row["topic"], row["drained"], row["heartbeats"]) for row in found["partitions"]] == [
        ("Z.heartbeats", False, True),
        ("heartbeats", False, True),
        ("t", True, False),
    ]
    assert ("hold", True, [], "") in world.done
    assert "and every record is copied, heartbeats not counted;" in world.done[3]
    assert ask(config) == exits.OK
    said = capsys.readouterr().out
    assert "stopped at the point reached" not in said
    assert "not drained and not counted, because heartbeats are written all the time: Z.heartbeats-0, heartb" in said


def test_positions_that_cannot_be_read_are_no_drained_flow(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.ends_now = Ends(ends={LANE: 7})
    world.known = LastKnown(lanes=world.known.lanes, unread={"positions-3": "no leader"})
    world.unsaid = "denied"
    assert ask(config) == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert "positions-3 cannot be read, so partitions may be missing below: no leader" in said
    assert "no event reports this failover: denied" in said


def test_a_flow_that_another_has_or_nobody_copied_is_left_alone(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.refusal = FlowHeld("A->B", "mirror 'm'", "topic")
    assert ask(config) == exits.UNUSABLE
    assert "belongs to mirror 'm'" in capsys.readouterr().err
    world.known = known(ours=False)
    assert ask(config) == exits.UNUSABLE
    assert "was never copied" in capsys.readouterr().err
    assert main.main(["failover", "A->C", "--config", config]) == exits.UNUSABLE
    assert world.done == []


def test_what_fails_on_the_way_says_what_it_leaves(
    world: World, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world.failure = BrokerUnreachable("b:1", "refused")
    assert ask(config) == exits.FAILED
    assert "b:1: cannot connect: refused; the failover of A->B is not finished" in capsys.readouterr().err
    world.failure = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        ask(config)
    assert "interrupted; the failover of A->B is not finished" in capsys.readouterr().err
    assert world.done.count("give back") == 2
    assert "stopped" not in world.done


def test_without_a_configuration_nobody_knows_which_target_to_ask(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["failover", "A->B"]) == exits.NO_MIRROR
    assert "--config FILE" in capsys.readouterr().err
    assert world.done == []


def test_a_mirror_of_other_flows_is_no_mirror_of_this_one(
    world: World, config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def another_runs(_args: argparse.Namespace) -> Iterator[tuple[Any, None]]:
        status = SimpleNamespace(flows=(SimpleNamespace(flow="X->Y"),), config_path="none")
        yield SimpleNamespace(status=lambda: status), None

    monkeypatch.setattr(failover, "mirror_on_ray", another_runs)
    assert ask(config) == exits.NOT_EQUAL
    assert "the mirror on this machine copies X->Y" in capsys.readouterr().err
    world.done.clear()
    assert main.main(["failover", "A->B"]) == exits.UNUSABLE
    assert world.done == []


def test_an_owner_whose_process_died_here_is_known_dead(world: World, config: str, tmp_path: Path) -> None:
    ask(config)
    assert not world.known_dead(owner(instance_id="gone"))
    folder = tmp_path / "raymirror" / "mirrors"
    folder.mkdir(parents=True)
    state = {"address": "", "version": "0", "config_path": "", "config_digest": "", "local": True, "pid": 2**22 + 1}
    state |= {"namespace": "raymirror-A-B", "pid_start": 1, "instance_id": "gone"}
    for space, is_dead in ((session.pid_space(), True), ("another host's", False), ("", False)):
        (folder / "raymirror-A-B.json").write_text(json.dumps({**state, "pid_space": space}))
        ask(config)
        assert (world.known_dead(owner(instance_id="gone")), world.known_dead(owner())) == (is_dead, False)
