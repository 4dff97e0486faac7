"""Series of drills."""

import msgspec

from actors.telemetry import families as f
from actors.telemetry.drill_series import drill_series
from engine.core.reports.drill_report import UNKNOWN_LOSS, DrillLoss, DrillStanding
from tests.unit.actors.telemetry.statuses import NOW_MS, drills, flow_status, mirror_status


def values(standing: DrillStanding | None) -> dict[str, float]:
    status = mirror_status(flows=[flow_status(drill=standing)])
    return {family.name.removeprefix("raymirror_drill_"): value for family, _, value in drill_series(status)}


def test_a_drill_is_told_with_its_age_and_what_it_measured() -> None:
    assert values(drills()) == {
        "interval_seconds": 86_400,
        "age_seconds": 60.0,
        "passed": 0,
        "findings": 2,
        "rto_seconds": 3.5,
        "lost_records": 12,
        "lost_seconds": 0.5,
        "left_behind": 1,
    }


def test_a_flow_that_never_drilled_ages_from_the_start_if_it_has_a_schedule() -> None:
    never = DrillStanding(every_s=3600, since_ms=NOW_MS - 5000)
    assert values(never) == {"interval_seconds": 3600, "age_seconds": 5.0}
    assert values(DrillStanding(since_ms=NOW_MS - 5000)) == {"interval_seconds": 0}
    assert values(None) == {}


def test_an_age_that_is_not_known_has_no_series() -> None:
    standing = drills()
    assert standing.last is not None
    last = msgspec.structs.replace(standing.last, loss=DrillLoss(records=3, seconds=-1.0), hurts=0)
    found = values(msgspec.structs.replace(standing, last=last))
    assert f.DRILL_LOST_SECONDS.name.removeprefix("raymirror_drill_") not in found
    assert found["passed"] == 1


def test_what_a_drill_that_failed_has_not_measured_has_no_series() -> None:
    standing = drills()
    assert standing.last is not None
    last = msgspec.structs.replace(standing.last, loss=UNKNOWN_LOSS, failed="the source is gone", steps=())
    found = values(msgspec.structs.replace(standing, last=last))
    assert not {"rto_seconds", "lost_records", "lost_seconds"} & found.keys()
