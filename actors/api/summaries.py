"""Sums up a mirror for its first page, and for the snapshot of the stream."""

from collections.abc import Iterable

import msgspec

from actors.api.entities import (
    ClusterSummary,
    CopierSummary,
    FlowSummary,
    MirrorPage,
    MirrorSummary,
    ProofSummary,
)
from actors.api.judging import groups_not_ready, judged, judged_mirror, phase_of, rpo_of_flow, rpo_of_mirror
from actors.api.view import ApiView
from actors.model.status import FlowStatus, MirrorStatus
from actors.observability.sentences import notes_of
from engine.jobs.proof.state import FlowProof


def page_of(view: ApiView) -> MirrorPage:
    """Return the mirror with its clusters and flows."""
    flows = tuple(flow_summary(view, flow) for flow in view.present.flows)
    return MirrorPage(mirror=mirror_summary(view, flows), clusters=tuple(_clusters(view)), flows=flows)


def mirror_summary(view: ApiView, flows: tuple[FlowSummary, ...]) -> MirrorSummary:
    """Sum up a mirror without its flows."""
    status = view.present
    health, sentence = judged_mirror(status, flows, view.why_dead)
    return MirrorSummary(
        mirror=short_name(status),
        instance=status.instance_id,
        version=status.version,
        phase=status.phase,
        desired=status.desired,
        at_ms=status.at_ms,
        up_seconds=status.up_s,
        health=health,
        sentence=sentence,
        config_path=status.config_path,
        config_digest=status.config_digest,
        copiers=len(status.copiers),
        rpo=rpo_of_mirror(flows),
        worst_rpo=view.ring.worst([flow.flow for flow in flows], status.at_ms),
        proven_ms=_oldest_proof(flows),
        spark=status.spark.state,
        spark_reason=status.spark.reason,
        unremembered=status.unremembered,
    )


def short_name(status: MirrorStatus) -> str:
    """Return the name of a mirror as people write it."""
    return status.namespace.removeprefix("raymirror-")


def flow_summary(view: ApiView, flow: FlowStatus) -> FlowSummary:
    """Sum up a flow."""
    status = view.present
    rpo, proof = rpo_of_flow(flow, status.at_ms), status.proofs.get(flow.flow)
    objective_s = view.facts.objectives_s.get(flow.flow)
    health, sentence = judged(flow, rpo, proof, objective_s)
    source, _, target = flow.flow.partition("->")
    append, copied = view.ring.recent(flow.flow)
    return FlowSummary(
        flow=flow.flow,
        source=source,
        target=target,
        state=phase_of(flow),
        desired=flow.desired,
        health=health,
        sentence=sentence,
        notes=notes_of(status, flow),
        waiting_for=flow.waiting_for,
        topics=flow.topics,
        partitions=flow.lanes,
        states=flow.lane_states,
        unknown=flow.unknown_lanes,
        stalled=flow.stalled,
        stall_reason=flow.stall_reason,
        held=flow.held,
        held_reason=flow.held_reason,
        failed=flow.errors,
        quarantined=flow.quarantined,
        paused_topics=flow.paused_topics,
        moved_topics=flow.moved_topics,
        records=flow.records,
        bytes=flow.wire_bytes,
        records_per_second=flow.records_per_s,
        bytes_per_second=flow.bytes_per_s,
        append=append,
        copied=copied,
        left_out=flow.left_out,
        copiers=tuple(
            CopierSummary(
                copier=one.copier_id,
                state=one.state,
                partitions=one.lanes,
                buffer_bytes=one.buffer_bytes,
                node=one.node,
                batches=one.batches,
            )
            for one in status.copiers
            if one.flow == flow.flow
        ),
        rpo=rpo,
        worst_rpo=view.ring.worst([flow.flow], status.at_ms),
        rpo_objective_seconds=objective_s,
        proof=None if proof is None else proof_summary(proof, status.at_ms),
        groups=flow.groups.groups if flow.groups is not None else None,
        groups_failing=flow.groups.failing if flow.groups is not None else 0,
        groups_not_ready=groups_not_ready(flow),
        failed_over=flow.failed_over,
        deleted=flow.deleted,
    )


def proof_summary(proof: FlowProof, at_ms: int) -> ProofSummary:
    """Sum up the continuous proof of a flow."""
    return ProofSummary(
        at_ms=proof.at_ms or None,
        age_seconds=max(0, at_ms - proof.at_ms) / 1000 if proof.at_ms else None,
        partitions=proof.partitions,
        records=proof.records,
        differences=proof.differences,
        trouble=proof.trouble,
    )


def _oldest_proof(flows: Iterable[FlowSummary]) -> int | None:
    """Return when the oldest last round of proof ended; None if some flow has none."""
    times = [flow.proof.at_ms if flow.proof is not None else None for flow in flows]
    known = [time for time in times if time is not None]
    return min(known, default=None) if len(known) == len(times) else None


def _clusters(view: ApiView) -> Iterable[ClusterSummary]:
    """Yield the clusters; the id of one is known if some flow copies to it."""
    ids = {flow.flow.partition("->")[2]: flow.target_id for flow in view.present.flows if flow.target_id}
    for one in view.facts.clusters:
        yield msgspec.structs.replace(one, id=ids.get(one.name, ""))
