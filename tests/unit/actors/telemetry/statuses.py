"""Statuses of mirrors of any size."""

from collections.abc import Mapping, Sequence

import msgspec

from actors.model.states import CopierState, Desired
from actors.model.status import CopierStatus, FlowStatus, MirrorStatus, TopicStatus
from engine.core.reports.drill_report import DrillLoss, DrillReport, DrillStanding, DrillStep, DrillStepTime
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.latency import Histogram, LatencyHistogram
from engine.core.reports.progress import LaneProgress
from engine.jobs.proof.state import FlowProof, LaneProof
from policies.dr.drill import DrillFinding, DrillFindingName
from tests.unit.actors.fakes import lane_progress, lanes

NOW_MS = 1_800_000_000_000


def histogram(*durations_ms: float) -> Histogram:
    metrics = LatencyHistogram()
    for one in durations_ms:
        metrics.add(one)
    return metrics.snapshot()


def lane(
    topic: str = "t",
    partition: int = 0,
    *,
    flow: str = "A->B",
    at: int = 100,
    end: int = 110,
    behind_ms: int = 5000,
    lag_bytes: int = 1000,
    state: str = "copying",
    reason: str = "",
    began_ms: int = 1,
    latency_ms: int = 0,
    heard_ms_ago: int = 500,
) -> LaneProgress:
    """A lane at offset `at` of `end` (heard `heard_ms_ago`), behind since `behind_ms` ago."""
    plain = lane_progress(lanes(topic, 1, partition)[0], source_next=at, source_end=end, state=state)
    return msgspec.structs.replace(
        plain,
        set_id=f"{flow}/000",
        reason=reason,
        source_end_age_ms=heard_ms_ago if end >= 0 else -1,
        lag_bytes=lag_bytes if end > at else 0,
        behind_since_ms=NOW_MS - behind_ms if end > at else -1,
        began_ms=began_ms,
        latency_ms=latency_ms,
    )


def unowned(topic: str = "t", partition: int = 0, *, flow: str = "A->B") -> LaneProgress:
    """A lane that nobody holds."""
    nobody = lane(topic, partition, flow=flow, at=-1, end=-1, state="unowned", reason="waits for a copier", began_ms=-1)
    return msgspec.structs.replace(nobody, records=0, wire_bytes=0, lag_bytes=-1)


def group_report() -> GroupsReport:
    return GroupsReport(
        at_ms=NOW_MS - 1500,
        groups=9,
        how={"run": 5, "end": 2},
        without={"beyond": 3},
        active=4,
        ahead=6,
        checkpoints=70,
        commits=80,
        failing=1,
        on_commit=True,
        latency=histogram(3.0),
        commit_latency=histogram(4.0),
        map_bytes=4096,
    )


def drills() -> DrillStanding:
    """A drill 60 s ago that found two things, of a flow that is drilled once a day."""
    finding = DrillFinding(name=DrillFindingName.NO_LEADER, subject="A.t-0", why="it has no leader")
    report = DrillReport(
        run_id="f00d",
        flow="A->B",
        began_ms=NOW_MS - 60_000,
        ended_ms=NOW_MS - 50_000,
        steps=(
            DrillStepTime(DrillStep.DRAIN, 1.5),
            DrillStepTime(DrillStep.COMPARE, 9.0),
            DrillStepTime(DrillStep.CONSUMERS, 2.0),
        ),
        loss=DrillLoss(records=12, bytes=1200, seconds=0.5),
        hurts=2,
        findings=(finding,),
        left=("topic",),
    )
    return DrillStanding(every_s=86_400, since_ms=NOW_MS - 90_000, next_ms=NOW_MS + 86_340_000, last=report)


def flow_proof(*, at: int = 60, differences: int = 2) -> FlowProof:
    """Partition 0 of `t` proven up to an offset, partition 9 not at all; a round ended 4 s ago."""
    lanes = LaneProof(topic="t", partition=0, proven_from=0, proven_to=at), LaneProof(topic="t", partition=9)
    return FlowProof(at_ms=NOW_MS - 4000, partitions=1, differences=differences, lanes=lanes)


def flow_status(name: str = "A->B", **changes: object) -> FlowStatus:
    plain = FlowStatus(
        flow=name,
        desired=Desired.RUNNING,
        paused_topics=(),
        topics=2,
        lanes=3,
        unknown_lanes=1,
        lane_states={"copying": 3},
        lag_records=None,
        least_lag_records=10,
        records=100,
        wire_bytes=10_000,
        records_per_s=5.0,
        bytes_per_s=500.0,
        errors=0,
        waiting_for="",
        stalled=1,
        append_failures=7,
        merged_batches=3,
        merged_from=90,
        left_out=4,
        range_vain_bytes=8,
        append_latency=histogram(3.0, 4.0),
        replication_latency=histogram(30.0, 90_000_000.0),
        record_age=histogram(20.0),
        loop_stall=histogram(0.7, 12.0),
        groups=group_report(),
        drill=drills(),
    )
    return msgspec.structs.replace(plain, **changes)


def copier(name: str = "copier-1", flow: str = "A->B", batches: str = "native") -> CopierStatus:
    return CopierStatus(
        copier_id=name,
        flow=flow,
        state=CopierState.READY,
        set_ids=("A->B/000",),
        lanes=3,
        buffer_bytes=4096,
        batches=batches,
    )


def topic_status(topic: str = "t", records: int = 100, flow: str = "A->B") -> TopicStatus:
    return TopicStatus(flow=flow, topic=topic, records=records, wire_bytes=100 * records, latency_ms=10 * records)


def mirror_status(
    *lane_list: LaneProgress,
    flows: Sequence[FlowStatus] = (),
    copiers: Sequence[CopierStatus] = (),
    topics: Sequence[TopicStatus] = (),
    proofs: Mapping[str, FlowProof] | None = None,
    phase: str = "running",
) -> MirrorStatus:
    return MirrorStatus(
        namespace="raymirror-A-B",
        version="1.2",
        config_path="c",
        config_digest="d",
        desired=Desired.RUNNING,
        phase=phase,
        at_ms=NOW_MS,
        up_s=12.5,
        flows=tuple(flows) or (flow_status(),),
        copiers=tuple(copiers),
        events=(),
        lanes=lane_list,
        topics=tuple(topics),
        proofs=dict({"A->B": flow_proof()} if proofs is None else proofs),
    )
