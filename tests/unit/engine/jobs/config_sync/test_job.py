"""How many tasks a round has; what it plans is in tests/integration/test_config_rounds_on_spark.py."""

import pytest

from engine.jobs.config_sync.job import MOST_TASKS, TASK_TOPICS, RoundFailed, tasks_for


@pytest.mark.parametrize(
    ("topics", "most", "tasks"),
    [
        (0, 0, 1),
        (1, 0, 1),
        (TASK_TOPICS, 0, 1),
        (TASK_TOPICS + 1, 0, 2),
        (TASK_TOPICS * 10, 3, 3),
        (TASK_TOPICS * 1000, 0, MOST_TASKS),
        (TASK_TOPICS * 1000, 1000, MOST_TASKS),
    ],
)
def test_a_round_has_few_tasks_and_leaves_the_streams_their_core(topics: int, most: int, tasks: int) -> None:
    assert tasks_for(topics, most) == tasks


def test_a_failed_round_says_why() -> None:
    assert str(RoundFailed("cluster 'A' is away")) == "cluster 'A' is away"
