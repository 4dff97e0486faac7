"""The state of jobs while Spark hosts end and start."""

import pytest

from actors.spark.job_registry import AGAIN_S, MOST_HOSTS, WELL_S, JobRegistry, UnknownJobId
from engine.jobs.runtime.runner import KEPT, JobLine, JobState


def book_with(*job_ids: str) -> JobRegistry:
    book = JobRegistry()
    for job_id in job_ids:
        book.add(job_id, "probe", b"t")
    return book


def begin(book: JobRegistry, now_s: float = 0.0) -> list[str]:
    """Begin what is due, as a host would; give the runs."""
    runs = [order.run_id for order in book.to_begin(now_s)]
    for run_id in runs:
        book.begun(run_id, now_s)
    return runs


def told(run_id: str, state: JobState, error: str = "") -> JobLine:
    return JobLine(job_id=run_id, job="probe", state=state, error=error)


def state_of(book: JobRegistry, job_id: str = "a") -> JobState:
    return book.line(job_id).state


def test_a_job_waits_runs_and_ends_with_its_report() -> None:
    book = JobRegistry()
    assert not book.needs_host(0.0)
    book.add("a", "probe", b"t")
    assert book.needs_host(0.0)
    (run,) = begin(book)
    assert state_of(book) is JobState.RUNNING
    assert not book.needs_host(0.0)
    assert book.to_begin(0.0) == ()
    assert not book.note_line(told(run, JobState.RUNNING), 1.0)
    assert book.note_line(told(run, JobState.DONE), 1.0), "the report is to be fetched"
    book.note_report(told(run, JobState.DONE), b"r", 1.0)
    assert (state_of(book), book.report("a")) == (JobState.DONE, b"r")


def test_a_job_given_twice_runs_once_and_again_when_it_has_ended() -> None:
    book = book_with("a", "a")
    (run,) = begin(book)
    book.add("a", "probe", b"t")
    assert begin(book) == []
    book.note_line(told(run, JobState.FAILED, "why"), 1.0)
    assert book.line("a").error == "why"
    book.add("a", "probe", b"t")
    assert len(begin(book)) == 1


def test_what_ran_on_a_host_that_ended_runs_on_the_next_under_another_name() -> None:
    book = book_with("a")
    (first,) = begin(book)
    book.lose_host("killed")
    (second,) = begin(book)
    assert first != second
    assert not book.note_line(told(first, JobState.DONE), 1.0), "an old run is nobody's"
    assert book.note_line(told(second, JobState.DONE), 1.0)


def test_a_job_that_sees_hosts_end_again_and_again_is_given_up() -> None:
    book = book_with("a")
    for _ in range(MOST_HOSTS):
        begin(book)
        book.lose_host("killed")
    assert state_of(book) is JobState.FAILED
    assert book.line("a").error == f"Spark ended {MOST_HOSTS} times while it ran, at last: killed"


def test_a_cancelled_job_ends_wherever_it_is() -> None:
    book = book_with("waits", "runs", "loses")
    book.cancel("waits")
    assert state_of(book, "waits") is JobState.CANCELLED
    runs = begin(book)
    book.cancel("runs")
    assert book.to_cancel() == (runs[0],)
    book.note_line(told(runs[0], JobState.CANCELLED), 1.0)
    assert state_of(book, "runs") is JobState.CANCELLED
    book.cancel("loses")
    book.lose_host("killed")
    assert state_of(book, "loses") is JobState.CANCELLED
    assert not book.needs_host(0.0)


def test_a_kept_job_begins_again_ever_later_until_it_was_well() -> None:
    book = book_with("a")
    book.make_standing("a")
    now_s = 0.0
    for pause_s in (*AGAIN_S[1:], AGAIN_S[-1]):
        (run,) = begin(book, now_s)
        book.note_line(told(run, JobState.FAILED, "why"), now_s)
        assert book.line("a").error == "why"
        assert not book.needs_host(now_s + pause_s - 0.1)
        now_s += pause_s
    (run,) = begin(book, now_s)
    now_s += WELL_S + 1
    book.note_line(told(run, JobState.FAILED, "why"), now_s)
    assert book.needs_host(now_s + AGAIN_S[0])


def test_a_kept_job_outlives_any_number_of_hosts() -> None:
    book = book_with("a")
    book.make_standing("a")
    for _ in range(MOST_HOSTS + 2):
        assert len(begin(book)) == 1
        book.lose_host("killed")
    assert state_of(book) is JobState.WAITING


def test_a_job_that_the_host_does_not_take_has_failed() -> None:
    book = book_with("a")
    (order,) = book.to_begin(0.0)
    book.refuse(order.run_id, "the terms cannot be read", 0.0)
    book.refuse("b.1", "nobody's", 0.0)
    assert book.line("a").error == "the terms cannot be read"


def test_so_many_ended_jobs_are_remembered_and_older_ones_unknown() -> None:
    book = JobRegistry()
    for number in range(KEPT + 2):
        book.add(str(number), "probe", b"")
        book.cancel(str(number))
    assert len(book.lines()) == KEPT + 1
    with pytest.raises(UnknownJobId, match="no Spark job 0 is known any more; submit it again"):
        book.line("0")


def test_what_a_job_tells_on_its_way_is_fetched_once() -> None:
    book = book_with("a")
    (run,) = begin(book)
    half = JobLine(job_id=run, job="probe", state=JobState.RUNNING, told=1)
    assert book.note_line(half, 1.0)
    book.note_report(half, b"half", 1.0)
    assert (state_of(book), book.report("a"), book.line("a").told) == (JobState.RUNNING, b"half", 1)
    assert not book.note_line(half, 2.0)
    book.lose_host("killed")
    assert (book.line("a").told, book.report("a")) == (0, b"half"), "the next run tells from the beginning"
    book.note_report(half, b"late", 3.0)
    assert book.report("a") == b"half", "of a run that is over"


def test_a_kept_job_that_fails_has_told_what_it_told() -> None:
    book = book_with("a")
    book.make_standing("a")
    (run,) = begin(book)
    book.note_report(JobLine(job_id=run, job="probe", state=JobState.RUNNING, told=1), b"half", 1.0)
    book.note_line(told(run, JobState.FAILED, "why"), 2.0)
    assert (state_of(book), book.report("a")) == (JobState.WAITING, b"half")


def test_it_is_steady_while_all_that_runs_runs_for_ever() -> None:
    book = book_with("a")
    book.make_standing("a")
    assert not book.is_steady, "it has not begun"
    begin(book)
    assert book.is_steady
    book.add("b", "probe", b"t")
    assert not book.is_steady, "somebody may wait for this one"
    (run,) = begin(book)
    assert not book.is_steady
    book.note_line(told(run, JobState.FAILED, "why"), 1.0)
    assert book.is_steady
    book.cancel("a")
    assert not book.is_steady


def test_a_dropped_job_is_cancelled_and_forgotten_when_it_has_ended() -> None:
    book = book_with("a", "b", "c")
    book.drop("unknown")
    book.drop("b")
    with pytest.raises(UnknownJobId):
        book.line("b")
    runs = begin(book)
    book.note_line(told(runs[0], JobState.DONE), 1.0)
    book.note_report(told(runs[0], JobState.DONE), b"large", 1.0)
    book.drop("a")
    with pytest.raises(UnknownJobId):
        book.report("a")
    book.drop("c")
    assert book.to_cancel() == (runs[1],)
    book.note_line(told(runs[1], JobState.CANCELLED), 2.0)
    book.add("d", "probe", b"t")
    assert [line.job_id for line in book.lines()] == ["d"]
