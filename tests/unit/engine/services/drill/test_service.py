"""What a drill knows before it has asked anything."""

from engine.core.reports.drill_report import UNKNOWN_LOSS
from engine.services.drill.service import DrillWish, _Course


def test_a_drill_that_has_read_nothing_knows_no_loss() -> None:
    course = _Course(DrillWish())
    assert (course.loss, course.steps) == (UNKNOWN_LOSS, [])
