"""Rounds of config sync between Metadata and Spark, as the supervisor passes them on."""

import msgspec
import pytest

from actors.control.config_rounds import JOB, ConfigRounds
from actors.control.ports import ConfigRound, RoundAnswer
from actors.model.spark_status import SparkState, SparkStatus
from actors.spark.job_registry import UnknownJobId
from engine.jobs.runtime.runner import JobLine, JobState
from engine.jobs.runtime.table import JOBS
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, NoSpark

READY = SparkStatus(state=SparkState.READY, executors=1)


class FakeSpark(NoSpark):
    """A Spark whose jobs a test ends."""

    def __init__(self) -> None:
        super().__init__()
        self.now = READY
        self.jobs: dict[str, JobLine] = {}
        self.options: dict[str, bytes] = {}
        self.dropped: list[str] = []
        self.plan: bytes | None = b"plan"

    def status(self) -> SparkStatus:
        return self.now

    def submit(self, job: str, options: bytes, job_id: str = "") -> str:
        self.jobs[job_id] = JobLine(job_id=job_id, job=job, state=JobState.WAITING)
        self.options[job_id] = options
        return job_id

    def line(self, job_id: str) -> JobLine:
        if job_id not in self.jobs:
            raise UnknownJobId(job_id)
        return self.jobs[job_id]

    def report(self, job_id: str) -> bytes | None:
        return self.plan

    def drop(self, job_id: str) -> None:
        self.dropped.append(job_id)
        self.jobs.pop(job_id, None)

    def become(self, state: JobState, error: str = "") -> None:
        self.jobs = {name: msgspec.structs.replace(line, state=state, error=error) for name, line in self.jobs.items()}


class Stage:
    def __init__(self) -> None:
        self.metadata, self.spark = FakeFleet(Clock()), FakeSpark()
        self.rounds = ConfigRounds(self.metadata)

    def ask(self, round_id: str) -> None:
        self.metadata.config_rounds[FLOW] = ConfigRound(round_id, b"asked " + round_id.encode())

    def step(self) -> list[RoundAnswer]:
        """Make a step; return the answers so far."""
        self.rounds.step([FLOW], self.spark)
        return [answer for _, answer in self.metadata.round_answers]


def test_a_round_becomes_a_job_and_its_report_the_plan() -> None:
    stage = Stage()
    assert JOB in JOBS
    assert stage.step() == []
    stage.ask("r1")
    assert stage.step() == []
    assert stage.spark.options == {"configs A->B r1": b"asked r1"}
    stage.spark.become(JobState.RUNNING)
    assert stage.step() == []
    stage.spark.become(JobState.DONE)
    assert stage.step() == [RoundAnswer("r1", b"plan")]
    assert stage.spark.dropped == ["configs A->B r1"], "its report is no longer in memory"
    assert len(stage.step()) == 1, "one answer for each round"
    assert len(stage.spark.options) == 1
    stage.ask("r2")
    stage.step()
    assert list(stage.spark.jobs) == ["configs A->B r2"]


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (SparkStatus(state=SparkState.STARTING, reason="waiting for resources"), "starting: waiting for resources"),
        (SparkStatus(state=SparkState.RESTARTING), "Spark is restarting"),
        (SparkStatus(state=SparkState.OFF), "Spark is off"),
        (SparkStatus(state=SparkState.READY, executors=0), "Spark has no executor"),
    ],
)
def test_without_spark_metadata_is_told_why(status: SparkStatus, why: str) -> None:
    stage = Stage()
    stage.spark.now = status
    stage.ask("r1")
    (answer,) = stage.step()
    assert (answer.id, answer.plan) == ("r1", None)
    assert why in answer.why
    assert stage.spark.options == {}


def test_a_spark_that_breaks_in_the_middle_makes_no_one_wait() -> None:
    stage = Stage()
    stage.ask("r1")
    stage.step()
    stage.spark.now = SparkStatus(state=SparkState.RESTARTING, reason="its JVM ended")
    assert stage.step() == [RoundAnswer("r1", None, "Spark is restarting: its JVM ended")]
    assert stage.spark.dropped == ["configs A->B r1"]


@pytest.mark.parametrize(
    ("state", "error", "why"),
    [
        (JobState.FAILED, "cluster 'A': no broker answers", "cluster 'A': no broker answers"),
        (JobState.CANCELLED, "", "the Spark job was cancelled"),
    ],
)
def test_a_job_that_fails_says_why(state: JobState, error: str, why: str) -> None:
    stage = Stage()
    stage.ask("r1")
    stage.step()
    stage.spark.become(state, error)
    assert stage.step() == [RoundAnswer("r1", None, why)]


def test_a_report_that_is_gone_is_no_plan() -> None:
    stage = Stage()
    stage.ask("r1")
    stage.step()
    stage.spark.become(JobState.DONE)
    stage.spark.plan = None
    assert stage.step() == [RoundAnswer("r1", None, "the Spark job was done")]


def test_a_job_that_another_spark_does_not_know_is_answered() -> None:
    stage = Stage()
    stage.ask("r1")
    stage.step()
    stage.spark.jobs.clear()  # a reload has replaced Spark
    (answer,) = stage.step()
    assert "submit it again" in answer.why


def test_a_round_that_waits_no_longer_ends_its_job() -> None:
    stage = Stage()
    stage.ask("r1")
    stage.step()
    del stage.metadata.config_rounds[FLOW]  # it took too long: Metadata plans by itself, or its process has died
    assert stage.step() == []
    assert stage.spark.dropped == ["configs A->B r1"]
    stage.ask("r2")
    stage.step()
    stage.ask("r3")
    stage.step()
    assert stage.spark.dropped[1:] == ["configs A->B r2"]
    assert list(stage.spark.jobs) == ["configs A->B r3"]


def test_a_flow_that_is_removed_ends_its_job() -> None:
    stage = Stage()
    stage.ask("r1")
    stage.step()
    stage.rounds.step([], stage.spark)
    assert stage.spark.dropped == ["configs A->B r1"]
