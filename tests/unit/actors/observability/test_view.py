"""The text of a status."""

import io
import json

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from actors.model.spark_status import SparkState, SparkStatus
from actors.model.states import CopierState, Desired
from actors.model.status import CopierStatus, EventLine, FlowAtEnd, FlowStatus, MirrorStatus, fresh
from actors.observability.sentences import (
    configs_text,
    drill_result,
    drill_text,
    flow_line,
    groups_text,
    left_out_text,
    proof_text,
    spark_text,
)
from actors.observability.view import PlainView, flows_table, open_view, render
from engine.core.reports.config_report import ConfigReport
from engine.core.reports.drill_report import DrillLoss, DrillReport, DrillStanding, DrillStep, DrillStepTime
from engine.core.reports.group_report import GroupsReport
from engine.jobs.proof.state import FlowProof
from engine.jobs.runtime.runner import JobLine, JobState

LINE = "3 topics, 10 partitions, lag 1,234, 0.0 s behind, 5,000,000 records, 1,500/s, 2.0 MiB/s, 1 stopped"


def event(number: int) -> EventLine:
    return EventLine(at_ms=number, severity="error", flow="A->B", text=f"event {number}")


def flow(*, unknown: int = 0, waiting_for: str = "") -> FlowStatus:
    return FlowStatus(
        flow="A->B",
        desired=Desired.RUNNING,
        paused_topics=("x",),
        topics=3,
        lanes=10,
        unknown_lanes=unknown,
        lane_states={"copying": 10},
        lag_records=None if unknown else 1234,
        least_lag_records=1234,
        records=5_000_000,
        wire_bytes=1,
        records_per_s=1500.0,
        bytes_per_s=2 * 1024 * 1024,
        errors=1,
        waiting_for=waiting_for,
    )


def status(*events: EventLine, phase: str = "running", of: FlowStatus | None = None) -> MirrorStatus:
    return MirrorStatus(
        namespace="raymirror-A-B",
        version="0",
        config_path="c",
        config_digest="d",
        desired=Desired.RUNNING,
        phase=phase,
        at_ms=1,
        up_s=3.0,
        flows=(of or flow(),),
        copiers=(
            CopierStatus(copier_id="c", flow="A->B", state=CopierState.READY, set_ids=(), lanes=0, buffer_bytes=0),
        ),
        events=events,
    )


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ((), (1, 2), (1, 2)),
        ((1, 2), (1, 2), ()),
        ((1, 2), (1, 2, 3), (3,)),
        ((1, 2), (2, 3, 4), (3, 4)),
        ((1, 2), (3, 4), (3, 4)),
    ],
)
def test_events_of_a_bounded_list_are_told_once(
    before: tuple[int, ...], now: tuple[int, ...], new: tuple[int, ...]
) -> None:
    assert fresh(tuple(map(event, before)), tuple(map(event, now))) == tuple(map(event, new))


def test_plain_lines_are_not_repeated_within_their_interval() -> None:
    out, now_s = io.StringIO(), [0.0]
    view = PlainView(out, lambda: now_s[0])
    view.show(status(event(1)))
    view.show(status(event(1), event(2)))
    lines = out.getvalue().splitlines()
    assert lines == [
        "error: A->B: event 1",
        f"running: A->B running, {LINE}",
        "error: A->B: event 2",
    ]
    now_s[0] = 6.0
    view.show(status(event(1), event(2)))
    view.show(status(event(1), event(2), phase="draining"))
    assert [line.partition(":")[0] for line in out.getvalue().splitlines()[3:]] == ["running", "draining"]


def test_a_lag_that_nobody_knows_is_a_lower_bound() -> None:
    out = io.StringIO()
    PlainView(out).show(status(of=flow(unknown=2, waiting_for="a copier to start")))
    assert "lag at least 1,234, - behind," in out.getvalue()
    assert out.getvalue().endswith("waiting for a copier to start\n")


@pytest.mark.parametrize(("batches", "is_said"), [("", False), ("native", False), ("pure Python (not built)", True)])
def test_copiers_in_pure_python_are_named_with_the_cause(batches: str, is_said: bool) -> None:
    now, out = status(), io.StringIO()
    now = replace(now, copiers=tuple(replace(one, batches=batches) for one in now.copiers))
    Console(file=out, width=140).print(render(now))
    said = "A->B: 1 copier in pure Python (not built), at several times the CPU of the native module"
    assert (said in out.getvalue()) == is_said


def ended(end: FlowAtEnd, errors: int = 0) -> tuple[str, str]:
    """Return how a flow that ended so looks, as a line and as a table."""
    over = replace(flow(unknown=10), at_end=end, errors=errors)
    table = io.StringIO()
    Console(file=table, width=200).print(render(status(of=over, phase="stopped")))
    return flow_line(over, 1), table.getvalue()


def test_a_flow_that_has_ended_says_what_was_known_at_its_end() -> None:
    line, table = ended(FlowAtEnd(at_ms=1_700_000_000_000, lag_records=0, unknown_lanes=0))
    assert line == "A->B running, 3 topics, 10 partitions, lag 0 at 2023-11-14T22:13:20Z, 5,000,000 records"
    assert "A->B: not copied any more; lag 0 at 2023-11-14T22:13:20Z\n" in table
    assert "unknown" not in table
    line, table = ended(FlowAtEnd(at_ms=1_700_000_000_000, lag_records=7, unknown_lanes=2), errors=1)
    said = "lag of 2 partitions unknown: no copier reported it at its end; of the others lag 7 at 2023-11-14T22:13:20Z"
    assert said in table
    assert line.endswith(f"{said}, 5,000,000 records, 1 partition had stopped before, for a failure")
    line, _ = ended(FlowAtEnd(at_ms=1_700_000_000_000, lag_records=0, unknown_lanes=10))
    assert "lag of 10 partitions unknown: no copier reported it at its end, 5,000" in line, "there are no others"
    line, _ = ended(FlowAtEnd(at_ms=-1, lag_records=0, unknown_lanes=10))
    assert "lag of 10 partitions unknown: no copier reported it at its end, 5,000" in line
    assert "raymirror lag" not in line


def test_a_stopped_flow_that_never_knew_its_partitions_has_no_lag_of_0() -> None:
    blank = replace(flow(), desired=Desired.STOPPED, lanes=0, topics=0, lag_records=0, least_lag_records=0)
    assert "lag 0, 0.0 s behind" in flow_line(blank, 1), "discovered, and nothing found"
    assert "lag unknown, - behind" in flow_line(replace(blank, discovered=False), 1)


def table(of: FlowStatus) -> str:
    """Print a status with one flow."""
    out = io.StringIO()
    Console(file=out, width=140).print(render(status(of=of)))
    return out.getvalue()


def test_partitions_that_do_not_move_are_counted_with_what_most_of_them_wait_for() -> None:
    assert "not move" not in table(flow())
    slow = replace(
        flow(), held=3, held_reason="held back by raymirror.priority (class low): a hotter class has a backlog"
    )
    assert "A->B: 3 of 10 partitions are copied more slowly than possible: held back by" in table(slow)
    assert "A->B: 1 of 10 partitions is copied more slowly" in table(replace(slow, held=1))
    stuck = replace(flow(), stalled=2, stall_reason="no connection to target broker 1", stalled_for_it=2)
    assert "A->B: 2 of 10 partitions do not move: no connection to target broker 1\n" in table(stuck)
    assert "A->B: 1 of 10 partitions does not move: no" in table(replace(stuck, stalled=1, stalled_for_it=1))
    assert "A->B: 9 of 10 partitions do not move; 2 of them: no" in table(replace(stuck, stalled=9))


def test_a_flow_that_is_as_fast_as_its_path_says_so() -> None:
    far = replace(flow(), bound="the path to target broker 1 carries 1.0 MiB/s at a round trip of 100 ms")
    assert "A->B: as fast as the distance allows: the path to target broker 1 carries 1.0 MiB/s" in table(far)
    assert "distance" not in table(flow())


def test_the_lag_of_a_source_that_is_silent_is_unknown_and_what_it_was() -> None:
    silent = replace(flow(unknown=10), least_lag_records=0, source_end_age_ms=12_000, silent_lanes=10)
    out, table = io.StringIO(), io.StringIO()
    PlainView(out).show(status(of=silent))
    assert "lag unknown (was 0 12.0 s ago), - behind," in out.getvalue()
    Console(file=table, width=140).print(render(status(of=silent)))
    said = "lag of 10 of 10 partitions is unknown: the source last reported its end 12.0 s ago; the lag was 0 then"
    assert f"A->B: {said}" in table.getvalue()
    assert " unknown " in table.getvalue().splitlines()[2]
    late = replace(flow(unknown=3), source_end_age_ms=12_000, silent_lanes=3, behind_since_ms=1)
    plain = io.StringIO()
    PlainView(plain).show(replace(status(of=late), at_ms=9001))
    assert "lag at least 1,234 (was 1,234 12.0 s ago), at least 9.0 s behind," in plain.getvalue()


def test_before_the_first_discovery_the_lag_is_unknown() -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(render(status(of=replace(flow(), lanes=0, lag_records=None))))
    assert "lag is unknown: no partition was discovered yet" in out.getvalue()
    assert "1,234" not in out.getvalue()


def test_a_lag_that_is_unknown_for_want_of_a_copier_points_to_the_reasons() -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(render(status(of=flow(unknown=2))))
    said = "lag of 2 of 10 partitions is unknown, at least 1,234 records: raymirror lag says why"
    assert f"A->B: {said}" in out.getvalue()


def test_json_is_one_object_a_line() -> None:
    out = io.StringIO()
    with open_view(json=True, out=out) as view:
        view.show(status(event(1)))
        view.show(status())
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["flows"][0]["lag_records"] == 1234
    assert first["events"][0]["text"] == "event 1"
    assert second["events"] == []


def test_the_table_names_flows_and_the_last_events() -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(render(status(*map(event, range(20)), of=flow(waiting_for="patience"))))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "running (1 topic paused)" in text
    assert "waiting for patience" in text
    assert "1970-01-01T00:00:00Z error: A->B: event 19" in text
    assert "event 11" not in text


def test_a_wish_that_the_target_does_not_know_yet_is_told() -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(render(status()))
    console.print(render(replace(status(), unremembered=("A->B",))))
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert drawn.count("not remembered yet") == 1
    assert "A->B: not remembered yet: the wanted state is not written to the target" in drawn


def test_a_narrow_terminal_cuts_no_number_off() -> None:
    out = io.StringIO()
    long = msgspec.structs.replace(flow(), flow="a-long-source-name->a-long-target-name", lag_records=123_456_789)
    unknown = msgspec.structs.replace(long, unknown_lanes=2, lag_records=None, least_lag_records=123_456_789)
    Console(file=out, width=80).print(render(status(of=long)))
    Console(file=out, width=80).print(flows_table(status(of=unknown)))
    text = out.getvalue()
    assert "unknown" in text
    assert "wanted" in text
    assert "123,456,789" in text
    assert "5,000,000" in text
    assert "…" not in text


def test_what_others_print_does_not_come_between_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with open_view(json=True) as view:
        view.show(status())
        print("(raylet) A worker died")  # noqa: T201 - as Ray does, from a thread of its own
        view.show(status())
    printed = capsys.readouterr()
    assert [json.loads(line)["phase"] for line in printed.out.splitlines()] == ["running", "running"]
    assert "A worker died" in printed.err


def test_groups_say_how_many_and_what_is_missing() -> None:
    assert groups_text(flow()) == ""
    assert groups_text(msgspec.structs.replace(flow(), groups=GroupsReport())) == ""
    report = GroupsReport(
        groups=1200,
        how={"run": 5000, "end": 7},
        without={"beyond": 3},
        active=2,
        ahead=4,
        not_synced={"s": "share group"},
        failed={"g": "x"},
        failing=30,
        polled_because="grant Read",
        trouble="connection lost: b:1",
    )
    of = msgspec.structs.replace(flow(), groups=report)
    assert groups_text(of) == (
        "groups: 1,200 mirrored, 5,007 offsets translated, 3 without an answer (not copied yet),"
        " 2 active on the target, 4 offsets ahead on the target, 1 of a kind that is not mirrored, 30 failing,"
        " polled: grant Read, connection lost: b:1"
    )
    out = io.StringIO()
    Console(file=out, width=400).print(render(status(of=of)))
    assert "A->B: groups: 1,200 mirrored" in out.getvalue()


def test_a_broker_that_is_away_is_named_also_where_it_has_every_group() -> None:
    report = GroupsReport(away={"broker 3 of cluster 'A'": "refused (0 groups)"})
    of = msgspec.structs.replace(flow(), groups=report)
    assert groups_text(of) == (
        "groups: 0 mirrored, 0 offsets translated, broker 3 of cluster 'A' does not answer: refused (0 groups)"
    )


def test_configs_say_what_was_done_and_what_is_left() -> None:
    assert configs_text(flow()) == ""
    assert configs_text(msgspec.structs.replace(flow(), configs=ConfigReport())) == ""
    report = ConfigReport(at_ms=1, topics=1200, changes=3)
    quiet = msgspec.structs.replace(flow(), configs=report)
    assert configs_text(quiet) == "configs and ACLs: 1,200 topics compared, 3 changes"
    planned = msgspec.structs.replace(flow(), configs=msgspec.structs.replace(report, by="spark"))
    assert configs_text(planned).endswith("3 changes, planned by Spark")
    alone = msgspec.structs.replace(report, by="loop", not_spark="Spark is starting")
    assert configs_text(msgspec.structs.replace(flow(), configs=alone)).endswith("without Spark (Spark is starting)")
    loud = msgspec.structs.replace(report, conflicts=2, failures=1, trouble="connection lost: b:1")
    of = msgspec.structs.replace(flow(), configs=loud)
    assert configs_text(of).endswith("3 changes, 2 conflicts (see raymirror plan), 1 failure, connection lost: b:1")
    out = io.StringIO()
    Console(file=out, width=400).print(render(status(of=of)))
    assert "A->B: configs and ACLs: 1,200 topics" in out.getvalue()


def test_a_state_has_the_colour_of_its_meaning() -> None:
    out = io.StringIO()
    waiting = flow(waiting_for="patience")
    Console(file=out, width=400, force_terminal=True, color_system="standard").print(render(status(of=waiting)))
    drawn = out.getvalue()
    assert "\x1b[33mrunning (1 topic paused)" in drawn
    assert "\x1b[1;31m" in drawn  # a stopped partition
    assert "\x1b[33mA->B: waiting for patience" in drawn
    assert "\x1b[1;32m  running  " in drawn  # the mirror itself


def test_spark_is_told_where_it_is_on() -> None:
    off = status()
    assert spark_text(off) == ""
    jobs = tuple(
        JobLine(job_id=f"{state}", job=f"job-{state}", state=state)
        for state in (JobState.RUNNING, JobState.WAITING, JobState.DONE)
    )
    ready = SparkStatus(state=SparkState.READY, executors=2, jobs=jobs)
    assert spark_text(replace(off, spark=ready)) == ("Spark: ready, 2 executors, running: job-running, 1 job waiting")
    again = JobLine(job_id="lag", job="lag", state=JobState.WAITING, error="no such bucket")
    assert spark_text(replace(off, spark=replace(ready, jobs=(again,)))).endswith(
        "1 job waiting, lag failed and will be retried: no such bucket"
    )
    refused = SparkStatus(state=SparkState.REFUSED, reason="no Java")
    assert spark_text(replace(off, spark=refused)) == "Spark: refused (no Java)"
    out = io.StringIO()
    Console(file=out, width=200).print(render(replace(off, spark=refused)))
    assert "Spark: refused (no Java)" in out.getvalue()
    plain = io.StringIO()
    PlainView(plain).show(replace(off, spark=refused))
    assert "Spark: refused (no Java)\n" in plain.getvalue()


def test_proof_of_copy_all_the_time_is_told_where_it_is_on() -> None:
    assert proof_text(status(), "A->B") == ""
    begun = replace(status(), proofs={"A->B": FlowProof()})
    assert proof_text(begun, "A->B") == "proof of copy: no round yet"
    at_ms = begun.at_ms - 90_000
    told = FlowProof(at_ms=at_ms, partitions=9, differences=1, trouble="host:1: cannot connect")
    text = "proof of copy: 9 partitions, 1 difference, checked 1 min 30 s ago, host:1: cannot connect"
    assert proof_text(replace(begun, proofs={"A->B": told}), "A->B") == text
    out = io.StringIO()
    Console(file=out, width=200).print(render(replace(begun, proofs={"A->B": told})))
    assert text in out.getvalue()


def test_refused_records_that_were_left_out_are_counted() -> None:
    assert left_out_text(flow()) == ""
    assert left_out_text(replace(flow(), left_out=12)) == (
        "12 records that the target refuses left out since the mirror started; raymirror quarantine list names all of"
        " them"
    )


DRILLED = DrillReport(
    run_id="f00d", flow="A->B", began_ms=100_000, ended_ms=110_000, steps=(DrillStepTime(DrillStep.DRAIN, 4.0),)
)


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (DRILLED, "passed, RTO 4.0 s"),
        (replace(DRILLED, hurts=1, loss=DrillLoss(records=5)), "1 finding that would hurt, RTO 4.0 s, RPO 5 records"),
        (replace(DRILLED, left=("topic",)), "passed, RTO 4.0 s, and something is left on the target"),
        (replace(DRILLED, failed="no source"), "did not finish (no source)"),
    ],
)
def test_a_drill_is_told_in_a_few_words(report: DrillReport, says: str) -> None:
    assert drill_result(report) == says


@pytest.mark.parametrize(
    ("standing", "says"),
    [
        (None, ""),
        (DrillStanding(since_ms=1), ""),
        (DrillStanding(every_s=60, since_ms=1, next_ms=3_600_000), "drill: none yet, next at 1970-01-01T01:00:00Z"),
        (DrillStanding(last=DRILLED), "drill: passed, RTO 4.0 s, 20.0 s ago"),
        (
            DrillStanding(every_s=60, next_ms=5, last=DRILLED, runs=True, trouble="no room"),
            "drill: passed, RTO 4.0 s, 20.0 s ago, one runs now, no room",
        ),
    ],
)
def test_the_last_drill_and_the_next_one_are_in_the_status(standing: DrillStanding | None, says: str) -> None:
    assert drill_text(replace(flow(), drill=standing), 120_000) == says
