"""Jobs in threads: they end, fail, are cancelled, and report that; on a real session, without Ray."""

import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from engine.base.errors import BrokerUnreachable
from engine.jobs.runtime.core_budget import CoreBudget
from engine.jobs.runtime.probe import ProbeOptions, ProbeReport
from engine.jobs.runtime.runner import ENDED, KEPT, JobLine, JobRunner, JobState, failure_text
from engine.jobs.runtime.table import BadOptions, JobEntry, UnknownJob, load_job
from tests.harness.eventually import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODULE = "raymirror_jobs_of_tests"


class Terms(msgspec.Struct):
    text: str = ""


class FakeContext:
    """What a runner asks of a SparkContext, noted."""

    _gateway = None

    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []

    def setJobGroup(self, group: str, name: str, interruptOnCancel: bool) -> None:
        self.said.append(("group", group, name, str(interruptOnCancel)))

    def setLocalProperty(self, key: str, value: str) -> None:
        self.said.append((key, value))

    def cancelJobGroup(self, group: str) -> None:
        self.said.append(("cancel", group))


class FakeSpark:
    def __init__(self) -> None:
        self.sparkContext = FakeContext()


@pytest.fixture
def of_tests() -> Iterator[Callable[[Callable[..., Any]], dict[str, JobEntry]]]:
    """Make a function the only job, called `job`."""
    module = types.ModuleType(MODULE)

    def table(run: Callable[..., Any]) -> dict[str, JobEntry]:
        module.run = run  # type: ignore[attr-defined]
        sys.modules[MODULE] = module
        return {"job": JobEntry(MODULE, "stream")}

    yield table
    sys.modules.pop(MODULE, None)


def until_ended(runner: JobRunner) -> JobLine:
    wait_until(lambda: runner.lines()[-1].state in ENDED, "the job ends", 300.0)
    return runner.lines()[-1]


def test_a_job_gets_what_it_asks_for_by_name(of_tests: Callable[..., dict[str, JobEntry]]) -> None:
    def run(spark: Any, options: Terms, storage: str, stop: threading.Event) -> list[str]:
        return [options.text, storage, str(stop.is_set())]

    spark = FakeSpark()
    runner = JobRunner(spark, {"storage": "here", "config": "unasked"}, of_tests(run))
    runner.submit("1", "job", msgspec.msgpack.encode(Terms("a")))
    assert until_ended(runner) == JobLine(job_id="1", job="job", state=JobState.DONE)
    assert msgspec.msgpack.decode(runner.report("1") or b"") == ["a", "here", "False"]
    assert spark.sparkContext.said == [("group", "1", "job", "True"), ("spark.scheduler.pool", "stream")]


def test_a_job_that_is_known_is_not_begun_again(of_tests: Callable[..., dict[str, JobEntry]]) -> None:
    calls: list[str] = []

    def run(spark: Any, options: Terms) -> None:
        calls.append(options.text)

    runner = JobRunner(FakeSpark(), {}, of_tests(run))
    for text in ("a", "b"):
        runner.submit("1", "job", msgspec.msgpack.encode(Terms(text)))
        until_ended(runner)
    assert calls == ["a"]


def test_a_job_tells_how_far_it_is(of_tests: Callable[..., dict[str, JobEntry]]) -> None:
    def run(spark: Any, options: Terms, tell: Callable[[Any], None]) -> str:
        tell("half")
        go_on.wait()
        return "all"

    go_on = threading.Event()
    runner = JobRunner(FakeSpark(), {}, of_tests(run))
    runner.submit("1", "job", msgspec.msgpack.encode(Terms()))
    wait_until(lambda: runner.lines()[0].told == 1, "it tells")
    assert msgspec.msgpack.decode(runner.report("1") or b"") == "half"
    go_on.set()
    assert until_ended(runner).told == 1
    assert msgspec.msgpack.decode(runner.report("1") or b"") == "all"


def test_a_failure_is_told_in_one_line(of_tests: Callable[..., dict[str, JobEntry]]) -> None:
    def run(spark: Any, options: Terms) -> None:
        raise BrokerUnreachable("host:9092", "refused")

    runner = JobRunner(FakeSpark(), {}, of_tests(run))
    runner.submit("1", "job", msgspec.msgpack.encode(Terms()))
    line = until_ended(runner)
    assert (line.state, line.ours) == (JobState.FAILED, True)
    assert line.error == "host:9092: cannot connect: refused"
    assert runner.report("1") is None


def test_a_cancelled_job_is_cancelled_until_it_has_ended(of_tests: Callable[..., dict[str, JobEntry]]) -> None:
    def run(spark: Any, options: Terms, stop: threading.Event) -> None:
        stop.wait()
        go_on.wait()
        raise RuntimeError("killed by Spark")

    go_on = threading.Event()
    spark = FakeSpark()
    runner = JobRunner(spark, {}, of_tests(run))
    runner.submit("1", "job", msgspec.msgpack.encode(Terms()))
    runner.cancel("1")
    runner.cancel("unknown")
    assert runner.lines()[0].state is JobState.RUNNING
    runner.press()
    go_on.set()
    assert until_ended(runner) == JobLine(job_id="1", job="job", state=JobState.CANCELLED)
    cancels = spark.sparkContext.said.count(("cancel", "1"))
    assert cancels >= 2
    runner.cancel("1")
    runner.press()
    assert spark.sparkContext.said.count(("cancel", "1")) == cancels


def test_so_many_ended_jobs_are_remembered(of_tests: Callable[..., dict[str, JobEntry]]) -> None:
    def run(spark: Any, options: Terms) -> None:
        return None

    runner = JobRunner(FakeSpark(), {}, of_tests(run))
    for number in range(KEPT + 5):
        runner.submit(str(number), "job", msgspec.msgpack.encode(Terms()))
        until_ended(runner)
    assert [line.job_id for line in runner.lines()] == [str(number) for number in range(4, KEPT + 5)]


def test_large_reports_are_not_kept_for_long(
    of_tests: Callable[..., dict[str, JobEntry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(spark: Any, options: Terms) -> str:
        return options.text

    monkeypatch.setattr("engine.jobs.runtime.runner.KEPT_BYTES", 1000)
    runner = JobRunner(FakeSpark(), {}, of_tests(run))
    for number, size in enumerate((10, 600, 600, 5000, 1)):
        runner.submit(str(number), "job", msgspec.msgpack.encode(Terms(text="x" * size)))
        until_ended(runner)
    assert [line.job_id for line in runner.lines()] == ["3", "4"], "the last one that ended is kept, whatever its size"


def test_a_job_that_nobody_knows_is_refused_and_so_are_options_of_another() -> None:
    runner = JobRunner(FakeSpark(), {})
    with pytest.raises(UnknownJob, match="no Spark job is called 'prove'; the jobs are: probe"):
        runner.submit("1", "prove", b"")
    with pytest.raises(BadOptions, match="the options of Spark job 'probe' cannot be read"):
        runner.submit("1", "probe", msgspec.msgpack.encode([1]))
    assert runner.lines() == ()


def test_the_root_cause_is_what_is_told() -> None:
    pages = "An error occurred\n\tat java.x\nCaused by: first\n\tat java.y\nCaused by: root\n\tat java.z"
    assert failure_text(RuntimeError(pages)) == "RuntimeError: Caused by: root"
    assert failure_text(RuntimeError("a\nb")) == "RuntimeError: a"
    assert failure_text(RuntimeError()) == "RuntimeError: without a message"


def test_every_job_of_the_table_can_be_called() -> None:
    from engine.jobs.runtime.table import JOBS

    for job in JOBS:
        assert issubclass(load_job(job).options_type, msgspec.Struct)


def test_a_job_runs_on_a_real_session_and_is_cancelled_there(spark: "SparkSession") -> None:
    runner = JobRunner(spark, {"share": CoreBudget(streams=False)})
    runner.submit("probe-1", "probe", msgspec.msgpack.encode(ProbeOptions(tasks=3)))
    runner.submit("probe-2", "probe", msgspec.msgpack.encode(ProbeOptions(tasks=1, task_s=3600)))
    wait_until(lambda: runner.report("probe-1") is not None, "the first job ends beside the second", 300.0)
    report = msgspec.msgpack.decode(runner.report("probe-1") or b"", type=ProbeReport)
    assert [answer.topic for answer in report.answers] == ["A.probe-0", "A.probe-1", "A.probe-2"]
    assert {answer.python for answer in report.answers} == {sys.executable}
    assert all("raymirror-code.zip" in answer.engine for answer in report.answers), "not that of the working folder"
    runner.cancel("probe-2")
    assert until_ended(runner).state is JobState.CANCELLED
