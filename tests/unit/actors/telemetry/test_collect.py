"""Metric series from a status."""

import msgspec
import pytest

from actors.model.states import Desired
from actors.model.status import MirrorStatus
from actors.telemetry import families as f
from actors.telemetry.collect import Collected, Detail, PartitionCounters, collect, detail_of
from actors.telemetry.families import FAMILIES, Family, MetricKind
from engine.core.reports.group_report import GroupsReport
from engine.jobs.proof.state import FlowProof
from tests.unit.actors.telemetry.statuses import (
    copier,
    flow_proof,
    flow_status,
    histogram,
    lane,
    mirror_status,
    topic_status,
    unowned,
)


def series(
    status: MirrorStatus, depth: int = 2, partitions: PartitionCounters | None = None, left_out: int = 0
) -> Collected:
    return collect(status, Detail(depth, left_out), partitions or PartitionCounters(), {("A->B", "error"): 3}, 4)


def test_names_are_unique_and_carry_their_units() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    for family in FAMILIES:
        assert family.name.startswith("raymirror_")
        assert (family.kind is MetricKind.COUNTER) == family.name.endswith("_total")
        assert (family.unit == "s") == ("_seconds" in family.name), family.name
        assert (family.unit == "By") == ("_bytes" in family.name), family.name


def test_lag_of_a_topic_is_the_sum_of_its_partitions_and_the_worst_of_their_times() -> None:
    status = mirror_status(
        lane("t", 0, at=90, end=100, behind_ms=3000, lag_bytes=500),
        lane("t", 1, at=95, end=100, behind_ms=9000, lag_bytes=-1),
        lane("u", 0, at=7, end=7),
    )
    found = series(status)
    assert found[f.LAG_RECORDS] == {("A->B", "t"): 15, ("A->B", "u"): 0}
    assert found[f.LAG_BYTES] == {("A->B", "t"): 500, ("A->B", "u"): 0}
    assert found[f.LAG_SECONDS] == {("A->B", "t"): 9.0, ("A->B", "u"): 0.0}


def test_a_topic_of_which_nothing_is_known_has_no_lag_rather_than_none() -> None:
    found = series(mirror_status(unowned("t", 0), unowned("t", 1), lane("u", 0)))
    assert set(found[f.LAG_RECORDS]) == set(found[f.LAG_SECONDS]) == set(found[f.LAG_BYTES]) == {("A->B", "u")}
    assert found[f.PARTITIONS] == {("A->B", "unowned"): 2, ("A->B", "copying"): 1}


def test_a_source_that_is_silent_leaves_the_lag_it_had_and_how_old_that_is() -> None:
    status = mirror_status(
        lane("t", 0, at=90, end=100, behind_ms=20_000, heard_ms_ago=12_000),
        lane("t", 1, at=7, end=7, heard_ms_ago=15_000),
        lane("u", 0, at=7, end=7, heard_ms_ago=11_000),
        lane("u", 1, at=90, end=100, behind_ms=3000, heard_ms_ago=500),
        unowned("v", 0),
    )
    found, late = series(status), {("A->B", "u"): 10}
    assert found[f.LAG_RECORDS] == late  # what is unknown hides nothing that is late
    assert found[f.LAG_SECONDS] == {("A->B", "u"): 3.0}
    assert found[f.LAG_BYTES] == {("A->B", "u"): 1000}
    assert found[f.LAG_LAST_KNOWN] == {("A->B", "t"): 8.0, ("A->B", "u"): 2.5}
    assert found[f.LAG_LAST_KNOWN_AGE] == {("A->B", "t"): 15.0, ("A->B", "u"): 11.0}
    by_partition = series(status, 3)
    assert set(by_partition[f.LAG_SECONDS]) == {("A->B", "u", "1")}
    assert by_partition[f.LAG_LAST_KNOWN_AGE][("A->B", "u", "1")] == 0.5


def test_flows_keep_apart_what_has_the_same_name() -> None:
    status = mirror_status(lane("t", at=1, end=2), lane("t", flow="A->C", at=1, end=4))
    assert series(status)[f.LAG_RECORDS] == {("A->B", "t"): 1, ("A->C", "t"): 3}


def test_counters_by_topic_come_from_sums_that_outlive_copiers_and_add_up_by_flow() -> None:
    status = mirror_status(topics=[topic_status("t", 100), topic_status("u", 50), topic_status("t", 1, "A->C")])
    assert series(status)[f.RECORDS] == {("A->B", "t"): 100, ("A->B", "u"): 50, ("A->C", "t"): 1}
    assert series(status)[f.RECORD_BYTES][("A->B", "u")] == 5000
    assert series(status)[f.DELAY][("A->B", "u")] == 0.5
    assert series(status, depth=1)[f.RECORDS] == {("A->B",): 150, ("A->C",): 1}


def test_everything_else_is_told_as_it_is() -> None:
    status = mirror_status(
        flows=[flow_status(), flow_status("A->C", desired=Desired.PAUSED)],
        copiers=[copier(batches=""), copier("copier-2", batches="pure Python (RAYMIRROR_NATIVE=off)")],
    )
    found = series(status, left_out=8)
    flow, (paused,) = ("A->B",), [("A->C",)]
    assert (found[f.RUNNING][flow], found[f.RUNNING][paused]) == (1, 0)
    assert found[f.STALLED][flow] == 1
    assert found[f.UNKNOWN_LAG][flow] == 1
    assert found[f.TOPICS][flow] == 2
    assert found[f.APPEND_FAILURES][flow] == 7
    assert found[f.REPLICATION_LATENCY][flow] == status.flows[0].replication_latency
    assert found[f.RECORD_AGE][flow] == status.flows[0].record_age
    assert found[f.LOOP_STALL][flow] == status.flows[0].loop_stall
    assert found[f.APPEND_LATENCY][flow] == status.flows[0].append_latency
    assert found[f.COPIERS] == {("A->B", "ready"): 2}
    assert found[f.COPIER_PARTITIONS] == {("A->B", "copier-1"): 3, ("A->B", "copier-2"): 3}
    assert found[f.COPIER_BUFFER_BYTES][("A->B", "copier-2")] == 4096
    assert found[f.COPIER_NATIVE] == {("A->B", "copier-2"): 0}, "of the other one nothing is known"
    assert found[f.EVENTS] == {("A->B", "error"): 3}
    assert found[f.INFO] == {("A-B", "1.2"): 1}
    assert found[f.UP_SECONDS] == {(): 12.5}
    assert found[f.EXPORT_FAILURES] == {(): 4}
    assert set(found[f.LEFT_OUT_SERIES].values()) == {8}


def test_every_family_of_the_table_is_filled_and_no_other() -> None:
    status = mirror_status(lane(), copiers=[copier()], topics=[topic_status()])
    found = series(status)
    assert list(found) == list(FAMILIES)
    assert [family.name for family, rows in found.items() if not rows] == []
    assert all(len(labels) <= len(family.labels) for family, rows in found.items() for labels in rows)


@pytest.mark.parametrize(
    ("per_partition", "most", "detail"),
    [
        (True, 6, Detail(3, 0)),
        (True, 5, Detail(2, 4)),
        (True, 1, Detail(1, 5)),
        (False, 2, Detail(2, 0)),
        (False, 1, Detail(1, 1)),
    ],
)
def test_what_would_be_too_many_is_told_more_coarsely(per_partition: bool, most: int, detail: Detail) -> None:
    status = mirror_status(*(lane(topic, partition) for topic in ("t", "u") for partition in range(3)))
    assert detail_of(status, per_partition=per_partition, most_series=most) == detail


def test_coarser_detail_keeps_the_sums() -> None:
    status = mirror_status(*(lane(topic, partition) for topic in ("t", "u") for partition in range(3)))
    for depth in (3, 2, 1):
        found = series(status, depth)
        assert sum(value for value in found[f.LAG_RECORDS].values() if isinstance(value, int)) == 60
        assert max(value for value in found[f.LAG_SECONDS].values() if isinstance(value, float)) == 5.0


def counted(partitions: PartitionCounters, *moments: dict[int, tuple[int, int]]) -> dict[int, float]:
    """Look at partitions several times: partition -> (records, when its copier took it up)."""
    found: Collected = {}
    for moment in moments:
        status = mirror_status(*(lane("t", one, at=at, began_ms=began) for one, (at, began) in moment.items()))
        found = series(status, 3, partitions)
    return {int(labels[2]): value for labels, value in found[f.RECORDS].items() if isinstance(value, int)}


def test_a_partition_counts_from_the_first_look_and_a_new_one_from_its_beginning() -> None:
    assert counted(PartitionCounters(), {0: (100, 1)}) == {0: 0}
    assert counted(PartitionCounters(), {0: (100, 1)}, {0: (130, 1), 1: (7, 5)}) == {0: 30, 1: 7}


def test_a_partition_counts_on_when_it_changes_copiers_however_fast_the_new_one_is() -> None:
    partitions = PartitionCounters()
    assert counted(partitions, {0: (0, 1)}, {0: (130, 1)}, {0: (7, 2)}) == {0: 137}
    assert counted(partitions, {0: (900, 3)}) == {0: 1037}  # more than the former one had
    series(mirror_status(unowned("t", 0)), 3, partitions)
    assert counted(partitions, {0: (5, 4)}) == {0: 1042}


def test_a_partition_that_is_gone_is_forgotten() -> None:
    partitions = PartitionCounters()
    assert counted(partitions, {0: (0, 1), 1: (0, 1)}, {0: (5, 1), 1: (6, 1)}, {1: (6, 1)}) == {1: 6}
    assert counted(partitions, {0: (2, 9), 1: (6, 1)}) == {0: 2, 1: 6}


def test_a_table_entry_is_a_value() -> None:
    assert msgspec.structs.replace(f.LAG_BYTES) == f.LAG_BYTES
    assert isinstance(f.LAG_BYTES, Family)


def test_groups_are_told_once_they_were_looked_at() -> None:
    for nothing in (None, GroupsReport()):
        found = series(mirror_status(flows=[flow_status(groups=nothing)]))
        of_groups = ("raymirror_group", "raymirror_checkpoint", "raymirror_offset_map")
        assert not any(found[family] for family in FAMILIES if family.name.startswith(of_groups))
    found = series(mirror_status(flows=[flow_status(), flow_status("A->C", groups=None)]))
    told = {
        f.GROUPS: 9,
        f.GROUP_OFFSETS_AHEAD: 6,
        f.GROUPS_ACTIVE: 4,
        f.GROUPS_FAILED: 1,
        f.GROUPS_AGE: 1.5,
        f.GROUPS_ON_COMMIT: 1,
        f.CHECKPOINTS: 70,
        f.GROUP_COMMITS: 80,
        f.CHECKPOINT_LATENCY: histogram(3.0),
        f.GROUP_COMMIT_LATENCY: histogram(4.0),
        f.OFFSET_MAP_BYTES: 4096,
    }
    assert {family: found[family] for family in told} == {family: {("A->B",): value} for family, value in told.items()}
    assert found[f.GROUP_OFFSETS] == {("A->B", "run"): 5, ("A->B", "end"): 2}
    assert found[f.GROUP_OFFSETS_WITHHELD] == {("A->B", "beyond"): 3}


def test_what_is_not_proven_is_told_of_lanes_that_are_known_to_the_proof() -> None:
    proofs = {"A->B": flow_proof(at=60, differences=3), "A->C": FlowProof()}
    status = mirror_status(lane("t", 0, at=100), lane("t", 9), lane("u", 0), proofs=proofs)
    found = series(status)
    assert found[f.UNPROVEN_RECORDS] == {("A->B", "t"): 40}
    assert found[f.PROOF_DIFFERENCES] == {("A->B",): 3}
    assert found[f.PROOF_AGE] == {("A->B",): 4.0}
    assert series(mirror_status(lane(), proofs={}))[f.UNPROVEN_RECORDS] == {}
