"""The times of the steps of a failover."""

import io

import pytest

from actors.cli.common.steps import StartSteps
from actors.cli.failover.step_times import ALONE, WITH_MIRROR, FailoverStep, StepTime, StepTimes, steps_text
from actors.model.step_lines import read_line
from engine.base.clock import pause


def times_of(plan: tuple[FailoverStep, ...], out: io.StringIO | None = None) -> StepTimes:
    return StepTimes(plan, StartSteps(quiet=False, out=out or io.StringIO()))


@pytest.mark.parametrize("plan", [ALONE, WITH_MIRROR])
def test_each_step_is_said_as_it_begins(plan: tuple[FailoverStep, ...]) -> None:
    out = io.StringIO()
    times = times_of(plan, out)
    for step in plan:
        with times.of(step):
            assert step.value in out.getvalue().splitlines()[-1]
    read = [read_line(line) for line in out.getvalue().splitlines()]
    assert [one.step.number for one in read if one and one.step] == list(range(1, len(plan) + 1))


async def test_each_finished_step_is_measured_in_order() -> None:
    times = times_of(WITH_MIRROR)
    with times.of(FailoverStep.DRAIN):
        await pause(3.0)
    with times.of(FailoverStep.PAUSE):
        await pause(0.5)
    assert [(one.step, round(one.seconds, 3)) for one in times.done] == [
        (FailoverStep.DRAIN, 3.0),
        (FailoverStep.PAUSE, 0.5),
    ]


async def test_a_step_that_fails_is_no_finished_step() -> None:
    times = times_of(WITH_MIRROR)
    with pytest.raises(ValueError, match="lost"), times.of(FailoverStep.GROUPS):
        raise ValueError("lost")
    assert times.done == ()


def test_the_text_has_the_sum_and_every_step() -> None:
    steps = (StepTime(FailoverStep.DRAIN, 2.04), StepTime(FailoverStep.STOP, 1.0))
    assert steps_text(steps) == "it took 3.0 s: drain 2.0 s, stop 1.0 s"
