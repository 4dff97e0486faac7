"""Seeds kill every process at every step once, and the same seed kills the same."""

import io

import pytest

from actors.cli.common.steps import StartSteps
from actors.cli.dr.drill import step_text
from actors.cli.failover.step_times import ALONE, WITH_MIRROR, StepTimes
from actors.model.step_lines import StepLine
from bench.dr.kills import EVERY, MOST_DELAY_S, kill_of, seeds_of
from bench.dr.operations import OPERATIONS, cells
from engine.core.reports.drill_report import DrillStep
from policies.dr.failback import FailbackChoice
from policies.dr.operation_steps import FAILBACKS, SWITCHOVER


@pytest.mark.parametrize("cell", list(cells()))
def test_as_many_seeds_as_there_are_pairs_have_each_pair_once(cell: str) -> None:
    operation, _, _ = cells()[cell]
    count = len(operation.moments) * len(operation.victims)
    kills = [kill_of(cell, seed, operation.moments, operation.victims) for seed in range(count)]
    assert len({(kill.moment.name, kill.victim) for kill in kills}) == count
    assert all(0.0 <= kill.delay_s <= MOST_DELAY_S for kill in kills)
    assert kills == [kill_of(cell, seed, operation.moments, operation.victims) for seed in range(count)]
    assert kill_of(cell, count, operation.moments, operation.victims).victim == kills[0].victim


def test_there_are_cells_of_every_operation_policy_and_load_that_make_sense() -> None:
    found = cells()
    assert len(found) == 24
    for name in ("switchover", "failover", "failover-alone", "drill"):
        assert {cell for cell in found if cell.rpartition("-")[0].rpartition("-")[0] == name} == {
            f"{name}-{policy}-{load}" for policy in ("identity", "default") for load in ("idle", "busy")
        }
    for choice in FailbackChoice:
        assert {f"failback-{choice.value}-identity-{load}" for load in ("idle", "busy")} <= found.keys()


def test_the_moments_are_the_steps_of_the_product() -> None:
    for name, rules in (
        ("switchover", SWITCHOVER),
        *((f"failback-{choice.value}", rules) for choice, rules in FAILBACKS.items()),
    ):
        assert [one.name for one in OPERATIONS[name].moments] == [rule.name for rule in rules]
    assert OPERATIONS["switchover"].victims == OPERATIONS["drill"].victims == EVERY


def test_every_moment_is_a_line_that_its_command_says() -> None:
    """A moment that no line has would wait for the end of the command, and nothing would be killed."""
    said = {
        name: [str(StepLine(number=1, of=9, name=rule.name, does=rule.does)) for rule in rules]
        for name, rules in (
            ("switchover", SWITCHOVER),
            *((f"failback-{choice.value}", rules) for choice, rules in FAILBACKS.items()),
        )
    }
    said["drill"] = [step_text(step) for step in DrillStep]
    for name, plan in (("failover", WITH_MIRROR), ("failover-alone", ALONE)):
        out = io.StringIO()
        times = StepTimes(plan, StartSteps(quiet=False, out=out))
        for step in plan:
            with times.of(step):
                pass
        said[name] = out.getvalue().splitlines()
    for name, lines in said.items():
        moments = OPERATIONS[name].moments
        assert [[moment.name for moment in moments if moment.line in line] for line in lines] == [
            [moment.name] for moment in moments
        ]


def test_seeds_are_lists_and_ranges() -> None:
    assert list(seeds_of("0-3,7")) == [0, 1, 2, 3, 7]
    for wrong in ("", "a", "1-x"):
        with pytest.raises(ValueError, match=r"invalid literal"):
            list(seeds_of(wrong))
