"""`lag`, `events` and `status --fail-if` on a fake mirror."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from actors.cli import main
from actors.cli.common import connect_args
from actors.cli.seeing import events, older_events
from actors.model.status import EventLine, MirrorStatus
from actors.observability.alone import KnownFlow, KnownMirror
from tests.unit.actors.telemetry.statuses import NOW_MS, copier, flow_status, lane, mirror_status, unowned

LONG = "waits at the last stable offset for an open transaction of a producer with a rather long name and a story"
EVENTS = tuple(
    EventLine(at_ms=NOW_MS + number, severity=severity, flow=flow, text=f"event {number}")
    for number, (severity, flow) in enumerate(
        [("info", "A->B"), ("warning", "A->B"), ("error", "A->B"), ("error", "A->C")]
    )
)
STATUS = msgspec.structs.replace(
    mirror_status(
        lane("t", 0, at=90, end=100, behind_ms=3000, reason=LONG),
        lane("t", 1, at=7, end=7),
        unowned("u", 0),
        flows=[
            flow_status("A->B", unknown_lanes=0, lag_records=10, behind_since_ms=NOW_MS - 90_000),
            flow_status("A->C", unknown_lanes=0, lag_records=10),
        ],
        copiers=[copier()],
    ),
    events=EVENTS,
)


class Told:
    """A mirror that answers with one status; without lanes unless asked for them."""

    def status(self, *, lanes: bool = False) -> MirrorStatus:
        return STATUS if lanes else msgspec.structs.replace(STATUS, lanes=())


@pytest.fixture(autouse=True)
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def running(_args: argparse.Namespace) -> Iterator[tuple[Told, None]]:
        yield Told(), None

    monkeypatch.setattr(connect_args, "running_mirror", running)


def run(*words: str) -> int:
    return main.main(words)


def test_lag_names_every_partition_its_owner_and_its_reason_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lag") == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["flow", "partition", "records"]
    assert [line.split()[:3] for line in lines] == [
        ["A->B", "t-0", "10"],
        ["A->B", "t-1", "0"],
        ["A->B", "u-0", "unknown"],
    ]
    assert "copier-1" in lines[0]
    assert lines[0].rstrip().endswith(LONG)
    assert "3.0 s" in lines[0]


def test_lag_of_a_topic_or_of_what_is_behind_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lag", "A->B", "--topic", "u") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run("lag", "--behind") == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]] == ["t-0", "u-0"]
    assert run("lag", "--behind", "--topic", "t", "--json") == 0
    assert run("lag", "A->C", "--behind") == 0
    assert capsys.readouterr().out.endswith("no partition is behind\n")


@pytest.mark.parametrize("words", [(), ("--behind",), ("A->B",), ("--json",)])
def test_lag_of_a_topic_that_is_not_copied_is_bad_input(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("lag", *words, "--topic", "nothing", "nope") == 2
    told = capsys.readouterr()
    flows = "A->B" if "A->B" in words else "A->B, A->C"
    assert told.err.splitlines() == [
        f"raymirror lag: {flows} copies no topic {topic!r}; see: raymirror lag" for topic in ("nothing", "nope")
    ]
    assert json.loads(told.out)["partitions"] == [] if "--json" in words else told.out == ""
    assert run("lag", *words, "--topic", "nothing", "u") == 0
    told = capsys.readouterr()
    assert "u" in told.out
    assert told.err == f"raymirror lag: {flows} copies no topic 'nothing'; see: raymirror lag\n"


def test_before_the_first_discovery_no_topic_is_called_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    adopted = msgspec.structs.replace(STATUS.flows[0], discovered=False, waiting_for="no broker of cluster 'A'")
    some = msgspec.structs.replace(STATUS, flows=(adopted, STATUS.flows[1]))
    monkeypatch.setattr("tests.unit.actors.cli.seeing.test_seeing.STATUS", some)
    assert run("lag", "--behind", "--topic", "nothing") == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "raymirror lag: whether A->B copies topic 'nothing' is not known yet: A->B waits for no broker of cluster 'A'\n"
    )
    assert run("lag", "A->C", "--topic", "nothing") == 2


def test_lag_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lag", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["at_ms"] == NOW_MS
    assert [row["lag_records"] for row in told["partitions"]] == [10, 0, None]
    assert told["partitions"][0]["why"] == LONG


def test_lag_of_a_flow_that_knows_no_partition_is_no_all_clear(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = flow_status("A->D", lanes=0, unknown_lanes=0, discovered=False, waiting_for="no broker of cluster 'A'")
    some = msgspec.structs.replace(STATUS, flows=(STATUS.flows[1], away))
    monkeypatch.setattr("tests.unit.actors.cli.seeing.test_seeing.STATUS", some)
    said = (
        "A->D: which partitions it copies, and how far behind they are, is not known yet: it waits for no broker of"
        " cluster 'A'"
    )
    assert run("lag") == 0
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert run("lag", "A->D") == 0
    assert capsys.readouterr().out.splitlines() == [said]
    assert run("lag", "--behind", "--topic", "nothing") == 0
    assert capsys.readouterr().out.splitlines() == [said]
    assert run("lag", "A->C", "--behind") == 0
    assert capsys.readouterr().out == "no partition is behind\n", "nothing is unknown of that flow"
    assert run("lag", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (len(told["partitions"]), told["flows_unknown"]) == (3, {"A->D": "no broker of cluster 'A'"})
    assert run("status", "--fail-if", "unknown>0") == 1


def test_lag_of_a_flow_that_is_not_there_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("lag", "B->A") == 2
    assert "A->B, A->C" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([], [0, 1, 2, 3]),
        (["A->C"], [3]),
        (["--severity", "warning"], [1, 2, 3]),
        (["--since", "2027-01-15T08:00:00.002Z"], [2, 3]),
    ],
)
def test_events_are_picked(words: list[str], numbers: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("events", *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == [str(number) for number in numbers]
    assert run("events", "--json", *words) == 0
    told = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert told == [f"event {number}" for number in numbers]


def test_an_event_reads_with_time_and_severity(capsys: pytest.CaptureFixture[str]) -> None:
    run("events", "A->C")
    told = capsys.readouterr()
    assert told.out == "2027-01-15T08:00:00Z error   A->C: event 3\n"
    assert told.err.startswith(
        "events since the start of the supervisor at 2027-01-15T07:59:47Z; for older ones: raymirror events"
    )


def old_event(before_ms: int, flow: str = "A->B") -> EventLine:
    return EventLine(at_ms=NOW_MS - before_ms, severity="warning", flow=flow, text=f"{before_ms} before")


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[KnownFlow]:
    """What the targets of the running mirror's configuration hold."""
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    later = msgspec.structs.replace(STATUS, config_path=str(path), at_ms=NOW_MS + 60_000, up_s=72.5)
    monkeypatch.setattr(Told, "status", lambda _, **_kinds: later)
    flows: list[KnownFlow] = []

    def look(_config: object, _flows: object, why: str, *, since_ms: int) -> KnownMirror:
        assert (why, since_ms) == ("", NOW_MS - 3_600_000)
        return KnownMirror(running=False, why=why, at_ms=NOW_MS, flows=tuple(flows))

    monkeypatch.setattr(older_events, "read_targets", look)
    return flows


def test_events_from_before_the_mirror_began_come_from_its_targets_each_once(
    targets: list[KnownFlow], capsys: pytest.CaptureFixture[str]
) -> None:
    targets += [
        KnownFlow(flow="A->B", events=(old_event(60_000), old_event(14_000), *EVENTS[:3])),
        KnownFlow(flow="A->C", events=(old_event(30_000, "A->C"), EVENTS[3])),
    ]
    assert run("events", "--since", "2027-01-15T07:00:00Z") == 0
    told = capsys.readouterr()
    assert told.err == ""
    said = [line.partition(": ")[2] for line in told.out.splitlines()]
    assert said == ["60000 before", "30000 before", "14000 before", *(f"event {number}" for number in range(4))]


def test_of_a_mirror_with_more_events_than_it_keeps_the_targets_tell_the_others(
    targets: list[KnownFlow], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(events, "EVENTS_KEPT", len(EVENTS))
    run("events")
    assert capsys.readouterr().err.startswith("the last 4 events, since 2027-01-15T08:00:00Z; for older ones:")
    run("events", "--since", "2027-01-15T08:00:00Z")
    assert capsys.readouterr().err == "", "all of it is kept: no target is asked"
    late = [msgspec.structs.replace(event, at_ms=event.at_ms + 1500) for event in EVENTS]  # as it was written there
    evicted = msgspec.structs.replace(late[0], at_ms=late[0].at_ms - 1)
    targets += [KnownFlow(flow="A->B", events=(evicted, *late[:3])), KnownFlow(flow="A->C", events=(late[3],))]
    run("events", "--since", "2027-01-15T07:00:00Z")
    said = [line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert sorted(said) == ["0", "0", "1", "2", "3"], "each is told once, also where it was written later"


def test_a_file_that_names_no_flow_of_the_mirror_is_not_believed(
    targets: list[KnownFlow], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "mm2.properties"
    other.write_text("clusters = X, Y\nX.bootstrap.servers = a:1\nY.bootstrap.servers = b:1\nX->Y.enabled = true\n")
    targets += [KnownFlow(flow="X->Y", events=(old_event(60_000, "X->Y"),))]
    assert run("events", "--since", "2027-01-15T07:00:00Z") == 1
    told = capsys.readouterr()
    assert "X->Y" not in told.out
    assert "has no flow of this mirror" in told.err


def test_what_the_targets_do_not_tell_of_the_time_before_is_said_and_fails(
    targets: list[KnownFlow], capsys: pytest.CaptureFixture[str]
) -> None:
    targets += [KnownFlow(flow="A->B", unknown={"cluster 'B'": "cannot connect"}, answered=False)]
    since = ["--since", "2027-01-15T07:00:00Z"]
    assert run("events", "--json", *since) == 1
    told = capsys.readouterr()
    assert [json.loads(line)["text"] for line in told.out.splitlines()] == [f"event {number}" for number in range(4)]
    assert told.err == "raymirror events: A->B: cluster 'B': not known: cannot connect\n"
    assert run("events", "--config", "/nowhere/mm2.properties", *since) == 2
    assert run("events", "--since", "2027-01-15T07:59:50Z") == 0, "the mirror ran by then: no target is asked"


def test_a_configuration_that_is_gone_hides_no_event_of_the_running_mirror(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("events", "--since", "2027-01-15T07:00:00Z") == 1
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 4
    assert told.err.startswith("raymirror events: events before its start: not known: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "no events are known\n"), (["--severity", "error"], "no events of that severity are known\n")],
)
def test_that_nothing_has_happened_is_said_to_people(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    late = ["--since", "2099-01-15T08:00:00Z", *words]
    assert run("events", *late) == 0
    assert capsys.readouterr() == ("", said)
    run("events", "--json", *late)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--fail-if", "lag_seconds>60"], 1),
        (["--fail-if", "lag_seconds>100"], 0),
        (["--fail-if", "lag_seconds>100", "--fail-if", "stalled>0"], 1),
        (["--fail-if", "nonsense"], 2),
        ([], 0),
    ],
)
def test_status_fails_on_a_condition_for_scripts(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("status", "--json", *words) == code
    told = capsys.readouterr()
    if code < 2:
        assert json.loads(told.out)["namespace"] == "raymirror-A-B"
    if "lag_seconds>60" in words:
        assert told.err == "raymirror status: A->B: lag_seconds is 90 (lag_seconds>60)\n"
