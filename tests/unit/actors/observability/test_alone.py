"""`status`, `lag` and `events` without a running mirror: on a fake target."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import msgspec
import pytest

from actors.cli import main
from actors.cli.common import connect_args, exits
from actors.local.session import NoMirror
from actors.model.events import FlowTroubled
from actors.model.status import MirrorStatus
from actors.observability import alone
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.reports.drain import Ends
from engine.core.reports.drill_report import DrillReport
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.target_view import GroupsSummary
from engine.state.event_records import EventRecord
from engine.state.state import DEPLOYMENT, DESIRED, Deployment, DesiredState, Key, Value
from policies.model import FlowName, TopicPartition
from tests.unit.actors.telemetry.statuses import flow_status, mirror_status
from tests.unit.engine.config_files import BASE

FLOW = FlowName("A", "B")
STAMP_MS = 1_700_000_000_000
STAMP = "2023-11-14T22:13:20Z"
OWNER = Deployment(
    deployment_id="d",
    instance_id="i",
    mirror="m",
    version="0",
    where="h",
    term=1,
    since_ms=STAMP_MS,
    at_ms=STAMP_MS,
    released=True,
)


def lane(partition: int, source_next: int, why: str = "", at_ms: int = STAMP_MS) -> KnownLane:
    """A partition with a position."""
    place = TopicPartition("t", partition)
    target = TopicPartition("A.t", partition)
    return KnownLane(lane=place, target=target, source_next=source_next, at_ms=at_ms, ours=True, why=why)


class Target:
    """What the target of the flow holds (`engine.services.target_view.TargetView`); `away`: parts not told."""

    def __init__(self) -> None:
        self.drill: DrillReport | None = None
        self.known = LastKnown(lanes=(lane(0, 7), lane(1, 5)))
        self.entries: dict[Key, Value] = {DEPLOYMENT: OWNER}
        self.told = GroupsSummary(groups=2, newest_ms=STAMP_MS)
        self.source = Ends(gone="a:1 refused")
        self.away: set[str] = set()
        self.lost: Exception | None = None

    async def __aenter__(self) -> Self:
        if self.lost is not None:
            raise self.lost
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def answer(self, part: str) -> None:
        if part in self.away:
            raise ConnectionLost(f"no {part}")

    async def positions(self) -> LastKnown:
        self.answer("positions")
        return self.known

    async def state(self) -> dict[Key, Value]:
        self.answer("state")
        return self.entries

    async def last_drill(self) -> DrillReport | None:
        self.answer("last drill")
        return self.drill

    async def groups(self) -> GroupsSummary:
        self.answer("groups")
        return self.told

    async def events(self, _kinds: object, since_ms: int) -> list[EventRecord]:
        self.answer("events")
        told = FlowTroubled(flow=FLOW, what="the last words")
        stamps = (at_ms for at_ms in (STAMP_MS, STAMP_MS + 5000) if at_ms >= since_ms)
        return [
            EventRecord(at_ms=at, severity="error", kind="flow_troubled", flow=FLOW, about="", text=told.text())
            for at in stamps
        ]

    async def ends(self, _known: LastKnown) -> Ends:
        return self.source


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target()

    @contextmanager
    def none_runs(_args: argparse.Namespace) -> Iterator[None]:
        raise NoMirror("nowhere")
        yield

    monkeypatch.setattr(connect_args, "running_mirror", none_runs)
    monkeypatch.setattr(alone, "TargetView", lambda *_args: made)
    return made


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    return str(path)


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Ask for JSON of a flow that no mirror copies."""
    assert main.main([*words, "--json"]) == exits.NO_MIRROR
    return json.loads(capsys.readouterr().out)


def test_status_says_what_is_known_and_from_when(
    target: Target, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["status", "--config", config, "--fail-if", "lag_seconds>10"]) == exits.NO_MIRROR
    said = capsys.readouterr()
    assert "no mirror runs (nowhere)" in said.err
    assert "--fail-if holds: the lag of a mirror that does not run is not known" in said.err
    for words in (
        "; wanted: running\n",
        f"last sign of life {STAMP}, ended in order",
        "2 consumer groups",
        "the last words",
    ):
        assert words in said.out
    assert f"2 partitions with a position, the oldest as of {STAMP}" in said.out
    target.entries = {DESIRED: DesiredState(state="paused", paused_topics=("p",))}
    (flow,) = ask(capsys, "status", "--config", config)["flows"]
    assert (flow["desired"], flow["paused_topics"], flow["owner"]) == ("paused", ["p"], None)
    target.entries = {DESIRED: DesiredState(state="running", paused_topics=("p", "q"))}
    assert main.main(["status", "--config", config]) == exits.NO_MIRROR
    assert "; wanted: running, paused topics: p, q\n" in capsys.readouterr().out
    assert [row["lag_records"] for row in flow["partitions"]] == [None, None]
    assert all("the source was not asked" in row["why"] for row in flow["partitions"])


def test_what_cannot_be_read_is_unknown_and_hides_nothing_else(
    target: Target, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target.away, target.entries = {"positions", "groups", "events"}, {}
    (flow,) = ask(capsys, "status", "--config", config)["flows"]
    assert (flow["partitions"], flow["groups"], flow["events"], flow["desired"]) == (None, None, None, None)
    assert set(flow["unknown"]) == {"positions", "consumer groups", "events"}
    assert main.main(["status", "--config", config]) == exits.NO_MIRROR
    said = capsys.readouterr()
    assert "no wanted state is stored" in said.out
    assert "0 " not in said.out.replace(" 0", "")
    assert "positions: not known: connection lost: no positions" in said.err
    target.lost = BrokerUnreachable("b:1", "refused")
    (flow,) = ask(capsys, "status", "--config", config)["flows"]
    assert list(flow["unknown"]) == ["cluster 'B'"]


def test_of_a_target_that_does_not_answer_nothing_is_said_as_if_it_were_known(
    target: Target, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(command: str) -> tuple[str, str]:
        assert main.main([command, "--config", config]) == exits.NO_MIRROR
        told = capsys.readouterr()
        return told.out, told.err

    def refuse() -> None:
        target.lost = BrokerUnreachable("b:1", "refused")

    def each_part_fails() -> None:
        target.lost, target.away = None, {"positions", "state", "groups", "events"}

    for happens in (refuse, each_part_fails):
        happens()
        for command, told in (
            ("status", "its target could not be read: its wanted state and how far it is copied are not known\n"),
            ("lag", "A->B: how far its partitions are copied is not known\n"),
        ):
            out, err = said(command)
            assert (out.endswith(told), len(out.splitlines())) == (True, 1), out
            assert "no mirror runs (nowhere): nothing could be read from the target, so nothing is known\n" in err
            assert "what the target holds" not in err
    target.away = {"state"}
    out, err = said("status")
    assert "; its wanted state is not known\n" in out
    assert "  not known, because it could not be read: state\n" in out
    assert "this is what the target holds" in err


def test_lag_without_rows_is_no_empty_table(target: Target, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    target.known = LastKnown(lanes=(lane(0, 7),))
    target.source = Ends(ends={TopicPartition("t", 0): 7})
    for words, told in (
        (["--behind"], "no partition is known to be behind\n"),
        (["--topic", "x"], "none of the chosen partitions"),
    ):
        assert main.main(["lag", "--config", config, *words]) == exits.NO_MIRROR
        assert capsys.readouterr().out.startswith(told)


def test_lag_is_unknown_while_the_source_is_away(
    target: Target, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target.known = LastKnown(
        lanes=(lane(0, 7), lane(1, -1, "unreadable", at_ms=-1)), unread={"positions-3": "no leader"}
    )
    found = ask(capsys, "lag", "--config", config)
    assert [(row["source_next"], row["lag_records"], row["as_of_ms"]) for row in found["partitions"]] == [
        (7, None, STAMP_MS),
        (None, None, None),
    ]
    assert "the source does not answer: a:1 refused" in found["partitions"][0]["why"]
    assert (found["running"], found["unknown"]) == (False, {"A->B": {"positions-3": "no leader"}})
    assert main.main(["lag", "A->B", "--config", config, "--topic", "t", "--behind"]) == exits.NO_MIRROR
    out = capsys.readouterr().out
    assert (out.count("unknown"), STAMP in out) == (2, True)


def test_lag_is_at_most_what_a_source_that_answers_has_more(
    target: Target, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    new = TopicPartition("new", 0)
    target.source = Ends(ends={TopicPartition("t", 0): 10, TopicPartition("t", 1): 5, new: 3})
    assert main.main(["lag", "--config", config, "--behind"]) == exits.NO_MIRROR
    out = capsys.readouterr().out
    assert "at most 3" in out
    assert "t-1" not in out
    assert "new-0" in out
    assert "no mirror runs" in out
    assert main.main(["lag", "A->C", "--config", config]) == exits.UNUSABLE


def test_events_are_those_of_the_target(target: Target, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["events", "--config", config]) == exits.NO_MIRROR
    said = capsys.readouterr()
    assert said.out.count("the last words") == 2
    assert "no mirror runs" in said.err
    assert main.main(["events", "--config", config, "--since", "2023-11-14T22:13:21Z"]) == exits.NO_MIRROR
    assert capsys.readouterr().out.count("the last words") == 1
    target.away = {"events"}
    assert main.main(["events", "--config", config]) == exits.NO_MIRROR
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("target")
def test_without_a_configuration_the_way_to_ask_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "lag", "events"):
        assert main.main([command]) == exits.NO_MIRROR
        assert "--config FILE" in capsys.readouterr().err


@pytest.mark.usefixtures("target")
def test_a_mirror_of_other_flows_is_not_the_one_that_is_asked_about(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[MirrorStatus] = [mirror_status(flows=[flow_status("X->Y")])]

    @contextmanager
    def another_runs(_args: argparse.Namespace) -> Iterator[tuple[Any, None]]:
        yield SimpleNamespace(status=lambda **_more: told[0]), None

    monkeypatch.setattr(connect_args, "running_mirror", another_runs)
    for command in ("status", "lag", "events"):
        assert main.main([command, "--config", config]) == exits.NO_MIRROR
        assert "the mirror on this machine copies X->Y" in capsys.readouterr().err
        assert main.main([command]) == exits.OK
        assert main.main([command, "--config", config, "--mirror", "m"]) == exits.OK
    told[0] = msgspec.structs.replace(told[0], flows=(flow_status("A->B"),))
    assert main.main(["status", "--config", config]) == exits.OK


def test_status_shows_the_last_drill(target: Target, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    target.drill = DrillReport(run_id="f00d", flow="A->B", began_ms=STAMP_MS, ended_ms=STAMP_MS, hurts=2)
    assert main.main(["status", "--config", config]) == exits.NO_MIRROR
    out = capsys.readouterr().out
    assert "last drill at" in out
    assert "2 findings that would hurt, RTO 0.0 s" in out
