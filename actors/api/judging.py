"""Judges a flow and a mirror: what it does, whether somebody should look, and one sentence that says why."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from actors.api.entities import FlowPhase, FlowSummary, Health, RpoNow
from actors.model.states import Desired
from actors.model.status import FlowStatus, MirrorStatus
from actors.observability.lagging import NO_DISCOVERY, bytes_text, seconds_text
from engine.jobs.proof.state import FlowProof
from policies.words import counted

_RANKS: Final = (Health.OFF, Health.OK, Health.ATTENTION, Health.TROUBLE)
"""From what needs nobody to what needs somebody at once."""
_TOLD_WITHIN_MS: Final = 2000
"""A copier at rest looks at its partitions once a second, and tells within another second what has changed."""
_STANDSTILL_S: Final = 10.0
"""A flow none of whose partitions moves is in trouble when the oldest record has waited for so long."""


def phase_of(flow: FlowStatus) -> FlowPhase:
    """Return what a flow does."""
    if flow.failed_over:
        return FlowPhase.FAILED_OVER
    if flow.desired is not Desired.RUNNING:
        return FlowPhase.PAUSED if flow.desired is Desired.PAUSED else FlowPhase.STOPPED
    return FlowPhase.WAITING if flow.waiting_for or not flow.remembered else FlowPhase.RUNNING


def rpo_of_flow(flow: FlowStatus, at_ms: int) -> RpoNow:
    """Return what a loss of the source would cost at an instant (Unix ms)."""
    if flow.at_end is not None:
        return RpoNow(
            records=None,
            bytes=None,
            seconds=None,
            least_records=flow.at_end.lag_records,
            least_bytes=0,
            least_seconds=0.0,
            as_of_seconds=math.ceil(max(0, at_ms - flow.at_end.at_ms) / 1000) if flow.at_end.at_ms >= 0 else None,
        )
    known = flow.is_lag_known and not flow.is_undiscovered
    least_seconds = flow.least_lag_ms(at_ms) / 1000
    return RpoNow(
        records=flow.lag_records if known else None,
        bytes=flow.lag_bytes if known else None,
        seconds=least_seconds if known else None,
        least_records=flow.least_lag_records,
        least_bytes=flow.least_lag_bytes,
        least_seconds=least_seconds,
        as_of_seconds=_age_s(flow),
    )


def _age_s(flow: FlowStatus) -> int | None:
    """Return how old the numbers of a flow are at most, in whole seconds: so they stay true until the next status."""
    if flow.source_end_age_ms < 0:
        return None
    return math.ceil((flow.source_end_age_ms + _TOLD_WITHIN_MS) / 1000)


def rpo_of_mirror(flows: Sequence[FlowSummary]) -> RpoNow:
    """Sum up what a loss of all sources would cost; flows that were failed over or deleted copy nothing any more."""
    rpos = [flow.rpo for flow in flows if not flow.failed_over and not flow.deleted]
    records = [rpo.records for rpo in rpos if rpo.records is not None]
    sizes = [rpo.bytes for rpo in rpos if rpo.bytes is not None]
    seconds = [rpo.seconds for rpo in rpos if rpo.seconds is not None]
    ages = [rpo.as_of_seconds for rpo in rpos if rpo.as_of_seconds is not None]
    return RpoNow(
        records=sum(records) if len(records) == len(rpos) else None,
        bytes=sum(sizes) if len(sizes) == len(rpos) else None,
        seconds=max(seconds, default=0.0) if len(seconds) == len(rpos) else None,
        least_records=sum(rpo.least_records for rpo in rpos),
        least_bytes=sum(rpo.least_bytes for rpo in rpos),
        least_seconds=max((rpo.least_seconds for rpo in rpos), default=0.0),
        as_of_seconds=max(ages, default=None) if len(ages) == len(rpos) else None,
    )


def judged(flow: FlowStatus, rpo: RpoNow, proof: FlowProof | None, objective_s: float | None) -> tuple[Health, str]:
    """Return whether somebody should look at a flow, and the sentence that says why."""
    phase = phase_of(flow)
    if phase in (FlowPhase.PAUSED, FlowPhase.STOPPED, FlowPhase.FAILED_OVER):
        return Health.OFF, _off_sentence(phase)
    halted = standstill(flow, rpo)
    troubles = (*_said((halted, halted)), *troubles_of(flow, rpo, proof, objective_s))
    concerns = () if halted else concerns_of(flow, proof)
    loss = loss_sentence(rpo, flow.left_out)
    if troubles or concerns:
        health = Health.TROUBLE if troubles else Health.ATTENTION
        return health, f"{_capital('; '.join((*troubles, *concerns)))}. {_capital(loss)}."
    return Health.OK, f"{_copied_sentence(flow)}; {loss}."


def _copied_sentence(flow: FlowStatus) -> str:
    """Say how many partitions of a flow are copied: all of them, but for those that somebody has paused."""
    if paused := flow.lane_states.get("paused", 0):
        are = "is" if flow.lanes - paused == 1 else "are"
        return f"{flow.lanes - paused:,} of {counted(flow.lanes, 'partition')} {are} copied, {paused:,} paused"
    return "The partition is copied" if flow.lanes == 1 else f"All {counted(flow.lanes, 'partition')} are copied"


def standstill(flow: FlowStatus, rpo: RpoNow) -> str:
    """Say in few words why nothing of a flow moves while its loss grows; empty if something moves.

    All other things that a dead cluster keeps from working repeat this cause; the notes of the flow have them.
    """
    is_silent = 0 < flow.lanes <= flow.silent_lanes
    is_late = 0 < flow.lanes <= flow.stalled and rpo.least_seconds > _STANDSTILL_S
    if not (is_silent or is_late):
        return ""
    cause = (flow.stall_reason or flow.waiting_for).partition(";")[0].strip()
    said = "the source does not answer" if is_silent else "no partition moves"
    return f"{said}: {cause}" if cause else said


def troubles_of(flow: FlowStatus, rpo: RpoNow, proof: FlowProof | None, objective_s: float | None) -> tuple[str, ...]:
    """Return what is wrong with a running flow."""
    late_s, differences = rpo.least_seconds, proof.differences if proof is not None else 0
    objective = objective_s is not None and late_s > objective_s
    return _said(
        (flow.errors, f"{counted(flow.errors, 'partition')} stopped on an error"),
        (len(flow.quarantined), f"{counted(len(flow.quarantined), 'partition')} in quarantine"),
        (differences, f"the copy differs in {counted(differences, 'place')}"),
        (objective, f"{seconds_text(late_s)} behind, more than its objective of {seconds_text(objective_s)}"),
    )


def concerns_of(flow: FlowStatus, proof: FlowProof | None) -> tuple[str, ...]:
    """Return what of a running flow is not as it should be."""
    waiting = flow.waiting_for or (NO_DISCOVERY if flow.is_undiscovered else "")
    waiting = waiting or ("" if flow.remembered else "its wanted state, which the target has")
    stall = f": {flow.stall_reason}" if flow.stall_reason else ""
    failing, groups_trouble = (flow.groups.failing, flow.groups.trouble) if flow.groups is not None else (0, "")
    configs_trouble = flow.configs.trouble if flow.configs is not None else ""
    proof_trouble = proof.trouble if proof is not None else ""
    return _said(
        (waiting, f"waiting for {waiting}"),
        (flow.unknown_lanes, f"the lag of {counted(flow.unknown_lanes, 'partition')} is not known"),
        (flow.stalled, f"{counted(flow.stalled, 'partition')} {'does' if flow.stalled == 1 else 'do'} not move{stall}"),
        (failing, f"{counted(failing, 'consumer group')} failing"),
        (groups_trouble, f"groups: {groups_trouble}"),
        (configs_trouble, f"configs and ACLs: {configs_trouble}"),
        (proof_trouble, f"proof of copy: {proof_trouble}"),
    )


def groups_not_ready(flow: FlowStatus) -> tuple[str, ...]:
    """Return what speaks against a move of the consumer groups to the target, as far as the mirror knows."""
    report = flow.groups
    if report is None or not report.at_ms:
        return ("no round of the groups has ended yet, or their sync is off",)
    without = tuple(
        f"{counted(count, 'offset')} {'has' if count == 1 else 'have'} no translation ({cause})"
        for cause, count in sorted(report.without.items())
    )
    return without + _said(
        (report.failing, f"{counted(report.failing, 'group')} failing"),
        (report.waiting, f"{counted(report.waiting, 'group')} waiting for a broker"),
        (report.trouble, report.trouble),
    )


def _said(*found: tuple[object, str]) -> tuple[str, ...]:
    """Return the texts of what is so."""
    return tuple(text for is_so, text in found if is_so)


def loss_sentence(rpo: RpoNow, left_out: int = 0) -> str:
    """Say what a loss of the source would cost and as of when that is known, without a full stop.

    `left_out`: records that the target refused. The copy lacks them, unless they were replayed, which no copier knows.
    """
    if not left_out:
        return _loss_text(rpo)
    refused = f"{counted(left_out, 'record')} that the target refused since the mirror started"
    return f"{_loss_text(rpo)}, besides {refused}"


def _loss_text(rpo: RpoNow) -> str:
    is_known = rpo.records is not None
    as_of = "" if rpo.as_of_seconds is None else f"as of {_whole_text(rpo.as_of_seconds)} ago, "
    if is_known and not rpo.records:
        return f"{as_of}nothing is missing" if as_of else "nothing is known to be missing"
    if not is_known and not rpo.least_records:
        return "what a loss of the source would lose is not known"
    age = f", the oldest {seconds_text(rpo.least_seconds)} old" if rpo.least_seconds else ""
    size = f" ({bytes_text(rpo.least_bytes)})" if rpo.least_bytes else ""
    least = "" if is_known else "at least "
    return f"{as_of}a loss of the source would lose {least}{counted(rpo.least_records, 'record')}{size}{age}"


def _whole_text(seconds: int) -> str:
    return f"{seconds} s" if seconds < 60 else seconds_text(seconds)


def judged_mirror(status: MirrorStatus, flows: Sequence[FlowSummary], why_dead: str) -> tuple[Health, str]:
    """Return whether somebody should look at a mirror, and the sentence that says why."""
    if why_dead or status.refused:
        return Health.TROUBLE, f"{_capital(why_dead or status.refused)}."
    worst = max((flow.health for flow in flows), key=_RANKS.index, default=Health.OFF)
    if not flows:
        return worst, "The mirror has no flows."
    named = [flow for flow in flows if flow.health is worst]
    if len(flows) == 1:
        return worst, flows[0].sentence
    if worst is Health.OK:
        off = len(flows) - len(named)
        besides = f"; {counted(off, 'flow')} paused or stopped" if off else ""
        return worst, f"{counted(len(named), 'flow')} {'is' if len(named) == 1 else 'are'} fine{besides}."
    if worst is Health.OFF:
        return worst, f"All {len(flows)} flows are paused or stopped."
    more = f" And {counted(len(named) - 1, 'more flow')}." if len(named) > 1 else ""
    return worst, f"{named[0].flow}: {named[0].sentence}{more}"


_OFF: Final[Mapping[FlowPhase, str]] = {
    FlowPhase.PAUSED: "Paused: nothing is copied until it is resumed.",
    FlowPhase.STOPPED: "Stopped: nothing is copied until it is resumed.",
    FlowPhase.FAILED_OVER: "Failed over: its consumers use the target, and nothing is copied.",
}


def _off_sentence(phase: FlowPhase) -> str:
    return _OFF[phase]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
