"""The cores that batch jobs leave to streams."""

from engine.jobs.runtime.core_budget import CoreBudget


def test_a_core_is_left_where_there_is_another() -> None:
    share = CoreBudget(streams=True)
    told = []
    for cores in (0, 1, 2, 6, 1):  # executors come and go
        share.cores = cores
        told.append(share.most_tasks)
    assert told == [0, 0, 1, 5, 0]


def test_without_streams_all_are_theirs() -> None:
    assert CoreBudget(streams=False, cores=6).most_tasks == 0
