"""The tables and JSON of `takeover --check` and `failover`."""

import msgspec
import pytest
from rich.console import Console

from actors.cli.clusters import takeover
from actors.cli.common import exits
from actors.cli.failover import failover, failover_outcome
from actors.cli.failover.failover_tables import show_back, show_other_writers, show_outcome
from engine.checks.takeover_check import FlowSurvey
from engine.core.reports.drain import PartitionDrain
from engine.core.reports.rpo import TopicRpo
from engine.flow.failback.lent_configs import LentConfigs
from engine.flow.groups.failback import FailbackRow
from engine.flow.groups.status import GroupPartitionStatus, GroupStatus
from engine.flow.ownership.other_writers import OtherWriter, OtherWriters
from engine.flow.surveys.takeover_survey import LaneSurvey


def lane(partition: int, **changes: object) -> LaneSurvey:
    blank = {"topic": "t", "partition": partition, "target_topic": "A.t", "writer": "MM2", "source_next": 9}
    return LaneSurvey(**{**blank, "source_end": 12, **changes})  # type: ignore[arg-type]


def survey(*found: LaneSurvey, active: bool = False, obstacles: tuple[str, ...] = ()) -> FlowSurvey:
    return FlowSurvey(flow="A->B", mm2_group="A-mm2", mm2_active=active, obstacles=obstacles, lanes=found)


def shown(flow: FlowSurvey, capsys: pytest.CaptureFixture[str]) -> str:
    takeover.show(flow, Console(width=300))
    return capsys.readouterr().out


def test_a_takeover_that_is_ready_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(survey(lane(0, behind=5, repeats=5), lane(1, writer="none")), capsys)
    assert "A->B: 2 partitions" in said
    assert "append 5 records again" in said
    assert "has no members" in said
    assert "ready: raymirror run" in said


def test_a_takeover_that_is_not_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    doubtful = [lane(one, again=(3, 4)) for one in range(19)]
    found = survey(*doubtful, lane(19, gap=(1, 2)), lane(20, trouble="broken"), active=True, obstacles=("no right",))
    said = shown(found, capsys)
    assert "source offsets 3 to 4 are copied again and may be on the target twice" in said
    assert "source offsets 1 to 2 are gone" in said
    assert "and 1 more" in said
    assert "has members: stop MM2" in said
    assert "in the way: no right" in said
    assert "ready" not in said
    told = takeover.as_json(found)
    assert (told["ready"], told["exact"], told["writers"], told["to_copy"]) == (False, False, {"MM2": 21}, 63)


def stand(group: str, why: str) -> GroupPartitionStatus:
    return GroupPartitionStatus(
        group=group, topic="t", partition=0, source_offset=5, target_offset=-1, stored=7, why=why
    )


def test_a_failover_tells_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    rpo = [
        TopicRpo(topic="whole", partitions=1, records=0, seconds=0.0, known=True),
        TopicRpo(topic="seen", partitions=1, records=4, seconds=2.0, known=False),
        TopicRpo(topic="never", partitions=1, records=-1, seconds=-1.0, known=True),
    ]
    standing = GroupStatus(
        groups=60,
        stands=(*(stand(f"g{one}", "busy") for one in range(51)), stand("ok", "")),
        failed={"denied": "no right"},
        not_synced={"shared": "share group"},
    )
    rows = [row(0, 0), row(1, -1, why="t-1 has no leader")]
    show_outcome(rpo, rows, standing, gone="a:1 refused")
    said = capsys.readouterr().out
    assert "the source does not answer (a:1 refused)" in said
    assert "unknown, last seen 4" in said
    assert "and 1 more partition;" in said
    assert "t-1" in said, "a source that does not answer hides no partition"
    assert "t-1 has no leader" in said
    assert "group denied: no right" in said
    assert "group shared: not mirrored: share group" in said
    assert "60 consumer groups: 8 exactly as on the source, 52 not" in said
    outcome = failover_outcome.outcome_of(tuple(rows), standing, LentConfigs())
    assert (outcome.records, outcome.unequal, outcome.partitions, outcome.undrained) == (-1, 52, 2, 1)
    assert failover_outcome.outcome_of(tuple(rows[:1]), standing, LentConfigs()).records == 0


def row(partition: int, records: int, why: str = "") -> PartitionDrain:
    return PartitionDrain(
        topic="t", partition=partition, drained=not why, source_next=5, source_end=5 + records, records=records, why=why
    )


def test_a_failover_that_did_not_drain_names_each_partition(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(0, 0), *(row(one, one, why=f"{one} records left") for one in range(1, 53))]
    missing = {"broker 2 of cluster 'a'": "connection refused"}
    show_outcome([], rows, GroupStatus(groups=0, stands=(), missing=missing), gone="")
    said = capsys.readouterr().out
    assert "52 of 53 partitions not drained" in said
    assert "50 records left" in said
    assert "51 records left" not in said
    assert "and 2 more partitions not drained" in said
    assert "broker 2 of cluster 'a': connection refused; consumer groups that it coordinates" in said


def result(*rows: PartitionDrain, why: str = "", **changes: object) -> failover_outcome.Result:
    standing = GroupStatus(groups=1, stands=(stand("g", why),))
    blank = {"flow": "A->B", "source": "", "partitions": rows, "rpo": (), "standing": standing, "stopped": True}
    return failover_outcome.Result(**{**blank, **changes})  # type: ignore[arg-type]


def test_the_exit_code_says_whether_everything_is_on_the_target() -> None:
    assert result(row(0, 0)).exit_code == exits.OK
    for incomplete in (
        result(row(0, 0), row(1, 3, why="3 records left")),
        result(row(0, 0), why="busy"),
        result(row(0, 0), source="a:1 refused"),
        result(row(0, 0), standing=GroupStatus(groups=0, stands=(), missing={"broker 2": "refused"})),
    ):
        assert incomplete.exit_code == exits.NOT_EQUAL
    assert result(row(0, 0), stopped=False).exit_code == exits.FAILED
    assert (result(row(0, 0)).as_json()["drained"], result(row(0, 0), why="busy").as_json()["equal"]) == (True, False)


def test_the_way_back_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    row = FailbackRow(
        group="g",
        topic="t",
        partition=3,
        target_offset=9,
        source_offset=-1,
        stored=-1,
        how="stale",
        why="stale",
        commits=False,
    )
    show_back([row], {"h": "no right"})
    said = capsys.readouterr().out
    assert "t-3" in said
    assert "no: the offset map is not written up to there yet" in said
    assert "group h: no right" in said
    assert "committed on the source" not in said


def test_the_way_back_says_what_was_committed(capsys: pytest.CaptureFixture[str]) -> None:
    blank = {"topic": "t", "target_offset": 9, "source_offset": 7, "how": "run", "why": "equal", "commits": False}
    rows = [
        FailbackRow(group="g", partition=0, stored=7, before=3, committed=7, **blank),  # type: ignore[arg-type]
        FailbackRow(group="g", partition=1, stored=7, before=-1, committed=7, **blank),  # type: ignore[arg-type]
        FailbackRow(group="h", partition=0, stored=8, before=3, committed=7, **blank),  # type: ignore[arg-type]
        FailbackRow(group="i", partition=0, stored=7, **blank),  # type: ignore[arg-type]
    ]
    show_back(rows, {}, applied=True)
    said = capsys.readouterr().out
    assert [line.partition("the same record")[2].strip() for line in said.splitlines()[1:5]] == [
        "committed: 3 -> 7",
        "committed: none -> 7",
        "committed: 3 -> 7, and now it is 8",
        "no: equal",
    ]
    assert said.splitlines()[5:] == ["3 offsets of 2 groups committed on the source"]


def other(partition: int, records: int, *, whole: bool = True) -> OtherWriter:
    found = OtherWriter(
        topic="t", partition=partition, target_topic="A.t", first=40, last=39 + records, records=records
    )
    return msgspec.structs.replace(found, whole=whole)


def test_the_way_back_says_which_partitions_will_stop_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show_other_writers(OtherWriters(found=(other(0, 10), other(1, 2)), unknown={"A.t-2": "no leader"}))
    said = capsys.readouterr().out
    assert "A.t-2: whether another writer has written to it is not known: no leader" in said
    assert "12 records of another writer on the target, behind the last copied record, in 2 partitions:" in said
    assert "  A.t-0: 10 records, offsets 40 to 49\n" in said
    assert "these partitions stop when raymirror run copies them again (event foreign_writer)" in said
    assert "set raymirror.foreign.writer = continue" in said


def test_the_way_back_says_which_partitions_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    show_other_writers(OtherWriters(found=(other(0, 1, whole=False),), stops=False))
    said = capsys.readouterr().out
    assert "at least 1 record of another writer" in said
    assert "A.t-0: 1 record, offsets 40 to 40, and perhaps more behind" in said
    assert "raymirror run appends behind them" in said
    assert "stop when" not in said
    show_other_writers(OtherWriters())
    assert capsys.readouterr().out == ""


def test_an_unfinished_failover_says_how_to_go_on() -> None:
    assert "raymirror resume 'A->B'" in str(failover.Unfinished("A->B", "refused"))
    assert failover.Unfinished.exit_code == 1
