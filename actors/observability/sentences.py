"""Sentences about a mirror: what `raymirror status` prints below its table, and the typed interface has as notes."""

from typing import Final

from actors.model.spark_status import SparkState
from actors.model.status import FlowAtEnd, FlowStatus, MirrorStatus
from actors.observability.found_by import found_text
from actors.observability.instants import clock_text
from actors.observability.lagging import UNKNOWN, seconds_text
from engine.core.reports.drill_report import DrillReport
from engine.jobs.runtime.runner import JobState
from policies.words import counted

MIB = 1024 * 1024


def flow_line(flow: FlowStatus, at_ms: int) -> str:
    """Describe a flow in one line, as of a Unix time (ms)."""
    parts = [f"{flow.flow} {flow.desired}", counted(flow.topics, "topic"), counted(flow.lanes, "partition")]
    if flow.at_end is not None:
        parts += [at_end_text(flow.at_end, flow.lanes), counted(flow.records, "record")]
        parts += [f"{counted(flow.errors, 'partition')} had stopped before, for a failure"] if flow.errors else []
    else:
        parts += [
            f"lag {lag_text(flow)}{heard_text(flow)}",
            f"{behind_text(flow, at_ms)} behind",
            counted(flow.records, "record"),
            f"{flow.records_per_s:,.0f}/s",
            f"{flow.bytes_per_s / MIB:.1f} MiB/s",
            f"{flow.errors} stopped",
        ]
    if flow.waiting_for:
        parts.append(f"waiting for {flow.waiting_for}")
    return ", ".join(parts)


def groups_text(flow: FlowStatus) -> str:
    """Return the state of a flow's consumer groups, empty if there is nothing to report."""
    report = flow.groups
    if report is None or not (report.groups or report.not_synced or report.away or report.trouble):
        return ""
    parts = [f"{report.groups:,} mirrored", f"{counted(sum(report.how.values()), 'offset')} translated"]
    parts += [f"{count:,} without an answer ({found_text(why)})" for why, count in sorted(report.without.items())]
    for count, what in (
        (report.active, "active on the target"),
        (report.ahead, "offsets ahead on the target"),
        (len(report.not_synced), "of a kind that is not mirrored"),
        (report.failing, "failing"),
        (report.waiting, "waiting for a broker"),
    ):
        parts += [f"{count:,} {what}"] if count else []
    parts += [f"{broker} does not answer: {why}" for broker, why in report.away.items()]
    parts += [f"polled: {report.polled_because}"] if report.polled_because else []
    return "groups: " + ", ".join([*parts, report.trouble] if report.trouble else parts)


def configs_text(flow: FlowStatus) -> str:
    """Return the state of the configs and ACLs of a flow's copies, empty if there is nothing to report."""
    report = flow.configs
    if report is None or not (report.at_ms or report.trouble):
        return ""
    parts = [f"{counted(report.topics, 'topic')} compared", counted(report.changes, "change")]
    parts += [f"{counted(report.conflicts, 'conflict')} (see raymirror plan)"] if report.conflicts else []
    parts += [counted(report.failures, "failure")] if report.failures else []
    parts += ["planned by Spark"] if report.by == "spark" else []
    parts += [f"planned without Spark ({report.not_spark})"] if report.not_spark else []
    return "configs and ACLs: " + ", ".join([*parts, report.trouble] if report.trouble else parts)


def drill_text(flow: FlowStatus, at_ms: int) -> str:
    """Return the last drill and the next one, empty if none is known and none is scheduled."""
    standing = flow.drill
    if standing is None or (standing.last is None and not standing.every_s):
        return ""
    last = standing.last
    ago = seconds_text(standing.age_ms(at_ms) / 1000)
    parts = ["none yet"] if last is None else [drill_result(last), f"{ago} ago"]
    parts += ["one runs now"] if standing.runs else []
    parts += [f"next at {clock_text(standing.next_ms)}"] if standing.next_ms >= 0 and not standing.runs else []
    return "drill: " + ", ".join([*parts, standing.trouble] if standing.trouble else parts)


def drill_result(last: DrillReport) -> str:
    """Say how a drill ended, in a few words."""
    if last.failed:
        return f"did not finish ({last.failed})"
    lost = f", RPO {counted(last.loss.records, 'record')}" if last.loss.records else ""
    found = f"{counted(last.hurts, 'finding')} that would hurt" if last.hurts else "passed"
    left = ", and something is left on the target" if last.left else ""
    return f"{found}, RTO {last.rto_s:.1f} s{lost}{left}"


def spark_text(status: MirrorStatus) -> str:
    """Return the state of Spark, empty if it is off."""
    spark = status.spark
    if spark.state is SparkState.OFF:
        return ""
    parts = [str(spark.state)]
    parts += [counted(spark.executors, "executor")] if spark.state is SparkState.READY else []
    running = [line.job for line in spark.jobs if line.state is JobState.RUNNING]
    waiting = [line for line in spark.jobs if line.state is JobState.WAITING]
    parts += [f"running: {', '.join(running)}"] if running else []
    parts += [f"{counted(len(waiting), 'job')} waiting"] if waiting else []
    parts += [f"{line.job} failed and will be retried: {line.error}" for line in waiting if line.error]
    return "Spark: " + ", ".join(parts) + (f" ({spark.reason})" if spark.reason else "")


def proof_text(status: MirrorStatus, flow: str) -> str:
    """Return the state of the continuous proof of copy, empty if it is off."""
    proof = status.proofs.get(flow)
    if proof is None:
        return ""
    parts = ["no round yet"]
    if proof.at_ms:
        ago = seconds_text(max(0, status.at_ms - proof.at_ms) / 1000)
        parts = [
            f"{counted(proof.partitions, 'partition')}, {counted(proof.differences, 'difference')}, checked {ago} ago"
        ]
    return "proof of copy: " + ", ".join([*parts, proof.trouble] if proof.trouble else parts)


def lag_text(flow: FlowStatus) -> str:
    """Return the lag; if it is unknown, its lower bound unless that is 0."""
    if flow.is_undiscovered:
        return UNKNOWN  # of a stopped flow too: 0 would be the lag of partitions that were never counted
    if flow.lag_records is not None:
        return f"{flow.lag_records:,}"
    return f"at least {flow.least_lag_records:,}" if flow.least_lag_records else UNKNOWN


def heard_text(flow: FlowStatus) -> str:
    """Return the last known lag and its age, in brackets; empty unless the source is silent (`is_silent`)."""
    if not flow.is_silent:
        return ""
    return f" (was {flow.least_lag_records:,} {seconds_text(flow.source_end_age_ms / 1000)} ago)"


def at_end_text(end: FlowAtEnd, lanes: int) -> str:
    """Return the lag when the last copier of a flow ended; `lanes`: the flow's number of partitions."""
    is_known = end.at_ms >= 0 and end.unknown_lanes < lanes
    known = f"lag {end.lag_records:,} at {clock_text(end.at_ms)}" if is_known else ""
    if not end.unknown_lanes:
        return known
    unknown = f"lag of {counted(end.unknown_lanes, 'partition')} unknown: no copier reported it at its end"
    return f"{unknown}; of the others {known}" if known else unknown


def ended_text(flow: FlowStatus) -> str:
    """Say that no copier copies a flow any more, and the lag at its end; empty if a copier does or will."""
    return "" if flow.at_end is None else f"not copied any more; {at_end_text(flow.at_end, flow.lanes)}"


def unknown_text(flow: FlowStatus) -> str:
    """Say for how many partitions the lag is unknown, and its lower bound; empty if the lag of all is known."""
    if flow.is_lag_known or flow.at_end is not None:
        return ""
    if not flow.unknown_lanes:
        return "lag is unknown: no partition was discovered yet"
    of = f"lag of {flow.unknown_lanes:,} of {counted(flow.lanes, 'partition')} is unknown"
    if not flow.is_silent:
        least = f", at least {counted(flow.least_lag_records, 'record')}" if flow.least_lag_records else ""
        return f"{of}{least}: raymirror lag says why"
    ago = seconds_text(flow.source_end_age_ms / 1000)
    return f"{of}: the source last reported its end {ago} ago; the lag was {flow.least_lag_records:,} then"


def stalled_text(flow: FlowStatus) -> str:
    """Say how many partitions do not move, and the most frequent reason; empty if all move or have caught up."""
    if not flow.stall_reason or flow.at_end is not None:
        return ""
    do = "does" if flow.stalled == 1 else "do"
    of = f"{flow.stalled:,} of {counted(flow.lanes, 'partition')} {do} not move"
    some = f"; {flow.stalled_for_it:,} of them" if flow.stalled_for_it < flow.stalled else ""
    return f"{of}{some}: {flow.stall_reason}"


def held_text(flow: FlowStatus) -> str:
    """Say how many partitions are held back by bandwidth or priority, and the most frequent reason; empty if none."""
    if not flow.held or flow.at_end is not None:
        return ""
    are = "is" if flow.held == 1 else "are"
    of = f"{flow.held:,} of {counted(flow.lanes, 'partition')} {are} copied more slowly than possible"
    return f"{of}: {flow.held_reason}"


def bound_text(flow: FlowStatus) -> str:
    """Say what the path of the partition furthest behind carries, if distance bounds it; else empty."""
    return f"as fast as the distance allows: {flow.bound}" if flow.bound and flow.at_end is None else ""


def left_out_text(flow: FlowStatus) -> str:
    """Say how many refused records were left out since the supervisor started; empty if none were."""
    if not flow.left_out:
        return ""
    said = f"{counted(flow.left_out, 'record')} that the target refuses left out since the mirror started"
    return f"{said}; raymirror quarantine list names all of them"


def unremembered_text(status: MirrorStatus, flow: str) -> str:
    """Say that the wanted state of a flow is not stored on the target yet; empty if it is."""
    if flow not in status.unremembered:
        return ""
    return (
        "not remembered yet: the wanted state is not written to the target; raymirror retries while the mirror runs,"
        " but if the mirror ends before, the next start does not know this state"
    )


def python_text(status: MirrorStatus, flow: str) -> str:
    """Say which copiers of a flow lack the native module, and why; empty if none does."""
    slow = [one for one in status.copiers if one.flow == flow and one.copies_in_python]
    if not slow:
        return ""
    return f"{counted(len(slow), 'copier')} in {slow[0].batches}, at several times the CPU of the native module"


def behind_text(flow: FlowStatus, at_ms: int) -> str:
    """Return the age of the oldest record that is not copied; if it is unknown, its lower bound, or `-`."""
    if flow.is_undiscovered:
        return "-"
    least = seconds_text(flow.least_lag_ms(at_ms) / 1000)
    if flow.is_lag_known:
        return least
    return f"at least {least}" if flow.behind_since_ms >= 0 else "-"


FLOW_NOTES: Final = (
    ended_text,
    unknown_text,
    stalled_text,
    held_text,
    left_out_text,
    bound_text,
    groups_text,
    configs_text,
)
"""The sentences about one flow that its own status is enough for, in order."""


def notes_of(status: MirrorStatus, flow: FlowStatus) -> tuple[str, ...]:
    """Return the sentences about a flow, but for its proof and its drill, whose ages change all the time."""
    said = (
        *(say(flow) for say in FLOW_NOTES),
        unremembered_text(status, flow.flow),
    )
    return tuple(text for text in said if text)
