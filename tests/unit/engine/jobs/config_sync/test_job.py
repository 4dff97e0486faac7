"""How many tasks and executors a round has; what it plans: tests/integration/test_config_rounds_on_spark.py."""

from typing import Any

import pytest

from engine.flow.config_sync.planning import Compared
from engine.flow.config_sync.round_messages import ClusterIds, RoundRequest, pack_memory
from engine.jobs.config_sync import job
from engine.jobs.config_sync.job import LARGE_TOPICS, MOST_TASKS, TASK_TOPICS, RoundFailed, tasks_for
from engine.jobs.runtime.core_budget import CoreBudget
from policies.model import FlowName
from policies.sync.config_sync import TopicState
from tests.unit.engine.config_files import mirror


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


@pytest.mark.parametrize(("topics", "large", "tasks"), [(LARGE_TOPICS - 1, False, 1), (LARGE_TOPICS, True, 5)])
def test_a_large_round_asks_for_all_executors_and_has_a_task_for_each_of_their_cores(
    topics: int, large: bool, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, told = CoreBudget(streams=True, cores=2, all_cores=6), list[tuple[bool, int]]()

    async def topics_of(_: object) -> dict[str, TopicState]:
        return {str(number): TopicState(partitions=1) for number in range(topics)}

    def compare(*asked: Any) -> Compared:
        told.append((share.has_large_job, asked[-1]))
        return Compared()

    monkeypatch.setattr(job, "topics_of", topics_of)
    monkeypatch.setattr(job, "compare_configs", compare)
    asked = RoundRequest(
        flow=FlowName("A", "B"), configs=True, acls=False, memory=pack_memory({}), clusters=ClusterIds()
    )
    no_spark: Any = None
    job.run(no_spark, asked, mirror(), share)
    assert told == [(large, tasks)]
    assert not share.has_large_job
