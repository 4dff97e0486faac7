"""Turns the metadata actor's report of consumer groups into series; a flow without a round of groups has none."""

from collections.abc import Iterator

from actors.model.status import MirrorStatus
from actors.telemetry import families as f
from actors.telemetry.families import Family
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.latency import Histogram

Row = tuple[Family, tuple[str, ...], float | Histogram]


def group_series(status: MirrorStatus) -> Iterator[Row]:
    """Yield family, labels and value of each series."""
    for flow in status.flows:
        report = flow.groups
        if report is None or not report.at_ms:
            continue
        for family, value in _values(report, status.at_ms):
            yield family, (flow.flow,), value
        for how, count in report.how.items():
            yield f.GROUP_OFFSETS, (flow.flow, how), count
        for why, count in report.without.items():
            yield f.GROUP_OFFSETS_WITHHELD, (flow.flow, why), count


def _values(report: GroupsReport, now_ms: int) -> tuple[tuple[Family, float | Histogram], ...]:
    return (
        (f.GROUPS, report.groups),
        (f.GROUP_OFFSETS_AHEAD, report.ahead),
        (f.GROUPS_ACTIVE, report.active),
        (f.GROUPS_FAILED, report.failing),
        (f.GROUPS_AGE, max(0, now_ms - report.at_ms) / 1000),
        (f.GROUPS_ON_COMMIT, int(report.on_commit)),
        (f.CHECKPOINTS, report.checkpoints),
        (f.GROUP_COMMITS, report.commits),
        (f.CHECKPOINT_LATENCY, report.latency),
        (f.GROUP_COMMIT_LATENCY, report.commit_latency),
        (f.OFFSET_MAP_BYTES, report.map_bytes),
    )
