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


def test_large_jobs_ask_for_all_executors_while_one_runs() -> None:
    share = CoreBudget(streams=True, cores=2, all_cores=6)
    told = [share.has_large_job]
    with share.large_job():
        with share.large_job():
            told.append(share.has_large_job)
        told.append(share.has_large_job)
    told.append(share.has_large_job)
    assert told == [False, True, True, False]
    assert (share.most_tasks, share.most_tasks_when_large) == (1, 5)
    assert CoreBudget(streams=True, cores=2).most_tasks_when_large == 1
