"""Turns what is known of drills into series; a flow that never drilled has only its age and its interval."""

from collections.abc import Iterator

from actors.model.status import MirrorStatus
from actors.telemetry import families as f
from actors.telemetry.families import Family
from engine.core.reports.drill_report import DrillReport

Row = tuple[Family, tuple[str, ...], float]


def drill_series(status: MirrorStatus) -> Iterator[Row]:
    """Yield family, labels and value of each series."""
    for flow in status.flows:
        standing = flow.drill
        if standing is None:
            continue
        key = (flow.flow,)
        yield f.DRILL_INTERVAL, key, standing.every_s
        if standing.every_s or standing.last is not None:
            yield f.DRILL_AGE, key, standing.age_ms(status.at_ms) / 1000
        if standing.last is not None:
            yield from ((family, key, value) for family, value in _values(standing.last))


def _values(last: DrillReport) -> Iterator[tuple[Family, float]]:
    yield f.DRILL_PASSED, int(last.passed)
    yield f.DRILL_FINDINGS, last.hurts
    if last.rto_s >= 0:
        yield f.DRILL_RTO, last.rto_s
    if last.loss.records >= 0:
        yield f.DRILL_LOST_RECORDS, last.loss.records
    yield f.DRILL_LEFT, len(last.left)
    if last.loss.seconds >= 0:
        yield f.DRILL_LOST_SECONDS, last.loss.seconds
