"""The times of the steps of a failover."""

import pytest

from actors.cli.failover.step_times import FailoverStep, StepTime, StepTimes, steps_text
from engine.base.clock import pause


async def test_each_finished_step_is_measured_in_order() -> None:
    times = StepTimes()
    with times.of(FailoverStep.DRAIN):
        await pause(3.0)
    with times.of(FailoverStep.PAUSE):
        await pause(0.5)
    assert [(one.step, round(one.seconds, 3)) for one in times.done] == [
        (FailoverStep.DRAIN, 3.0),
        (FailoverStep.PAUSE, 0.5),
    ]


async def test_a_step_that_fails_is_no_finished_step() -> None:
    times = StepTimes()
    with pytest.raises(ValueError, match="lost"), times.of(FailoverStep.GROUPS):
        raise ValueError("lost")
    assert times.done == ()


def test_the_text_has_the_sum_and_every_step() -> None:
    steps = (StepTime(FailoverStep.DRAIN, 2.04), StepTime(FailoverStep.STOP, 1.0))
    assert steps_text(steps) == "it took 3.0 s: drain 2.0 s, stop 1.0 s"
