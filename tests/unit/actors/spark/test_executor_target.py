"""How many executors a session should have, and the steps to that number."""

import pytest

from actors.spark.executor_target import ExecutorTarget, SizeSteps, steps_to


def test_one_runs_until_a_large_job_asks_for_all() -> None:
    target = ExecutorTarget(most=3, idle_s=60.0)
    assert target.at_first == 1
    told = [
        target.wanted(now_s, large=large)
        for now_s, large in ((0, False), (10, True), (50, True), (109, False), (110, False), (500, False))
    ]
    assert told == [1, 3, 3, 3, 1, 1]


def test_another_large_job_keeps_them() -> None:
    target = ExecutorTarget(most=2, idle_s=60.0)
    assert [target.wanted(now_s, large=now_s in (0, 59)) for now_s in (0, 59, 61, 118, 119)] == [2, 2, 2, 2, 1]


def test_who_wants_them_all_the_time_gets_them_at_once() -> None:
    target = ExecutorTarget(most=4, idle_s=0)
    assert (target.at_first, target.wanted(0, large=False), target.wanted(1e9, large=False)) == (4, 4, 4)


@pytest.mark.parametrize(
    ("wanted", "running", "named", "steps"),
    [
        (1, 1, 1, SizeSteps()),
        (1, 0, 0, SizeSteps(add=1)),
        (3, 1, 1, SizeSteps(add=2)),
        (3, 1, 3, SizeSteps()),  # two wait for a place
        (1, 1, 3, SizeSteps(end_waiting=2)),
        (1, 2, 3, SizeSteps(end_waiting=1, end_running=1)),
        (1, 3, 3, SizeSteps(end_running=2)),
        (1, 2, 1, SizeSteps()),  # Spark has not missed one yet
    ],
)
def test_what_is_missing_or_too_many(wanted: int, running: int, named: int, steps: SizeSteps) -> None:
    assert steps_to(wanted, running=running, named=named) == steps
