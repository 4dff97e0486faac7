"""A proof on the Spark of a running mirror: submitted, followed, cancelled with the command, or not possible."""

from collections import deque
from typing import Any

import msgspec
import pytest

from actors.jobs import remote_spark as lending
from actors.jobs.remote_spark import JOB, TRIES, NoSpark, RemoteSpark
from actors.model.spark_status import SparkState, SparkStatus
from actors.spark.job_registry import UnknownJobId
from engine.jobs.proof.model import NothingToProve, Progress, ProofAnswer, ProofFailed, ProofOptions, ProofReport
from engine.jobs.runtime.runner import JobLine, JobState
from policies.model import FlowName
from tests.unit.actors.telemetry.statuses import mirror_status

TERMS = ProofOptions(flow=FlowName("A", "B"), again=True)
REPORT = ProofReport(run="r", flow=TERMS.flow, began_ms=1, took_s=1.0, read_s=1.0, cores=2, lanes=(), differences=())


def line(state: JobState, *, told: int = 0, error: str = "") -> JobLine:
    return JobLine(job_id="j", job=JOB, state=state, told=told, error=error)


class FakeMirror:
    """A mirror whose job goes the way that a test says; at the end of it, it stays as it is."""

    namespace = "raymirror-A-B"

    def __init__(self, *way: JobLine | Exception, answers: tuple[ProofAnswer, ...] = ()) -> None:
        self.way, self.answers = deque(way), deque(answers)
        self.spark = SparkStatus(state=SparkState.READY)
        self.submitted: list[ProofOptions] = []
        self.cancelled: list[str] = []

    def submit_job(self, job: str, options: bytes) -> str:
        assert job == "proof"
        self.submitted.append(msgspec.msgpack.decode(options, type=ProofOptions))
        return "j"

    def job(self, _job_id: str) -> JobLine:
        now = self.way.popleft() if len(self.way) > 1 else self.way[0]
        if isinstance(now, Exception):
            raise now
        return now

    def job_report(self, _job_id: str) -> bytes | None:
        return msgspec.msgpack.encode(self.answers.popleft())

    def cancel_job(self, job_id: str) -> None:
        self.cancelled.append(job_id)
        raise UnknownJobId(job_id)  # it is the command's end that counts

    def status(self) -> Any:
        return msgspec.structs.replace(mirror_status(), spark=self.spark)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "FAILED_S", 0.0)


def prove(mirror: Any, pauses: list[float] | None = None) -> tuple[ProofReport, list[Progress]]:
    said: list[Progress] = []
    pause = ([] if pauses is None else pauses).append
    return RemoteSpark(mirror, "A-B", pause).prove(TERMS, said.append), said


def test_a_proof_is_followed_to_its_report() -> None:
    half = Progress(done=1, total=2, differences=0)
    mirror = FakeMirror(
        line(JobState.WAITING),
        line(JobState.RUNNING),
        line(JobState.RUNNING, told=1),
        line(JobState.RUNNING, told=1),
        line(JobState.DONE, told=1),
        answers=(ProofAnswer(progress=half), ProofAnswer(report=REPORT)),
    )
    pauses = list[float]()
    assert prove(mirror, pauses) == (REPORT, [half])
    assert pauses == [lending.POLL_S] * 4
    assert (mirror.submitted, mirror.cancelled) == ([TERMS], [])


def test_nothing_to_prove_is_told_as_by_a_spark_of_ones_own() -> None:
    mirror = FakeMirror(line(JobState.DONE), answers=(ProofAnswer(nothing="no map"),))
    with pytest.raises(NothingToProve, match="A->B: nothing can be proven: no map"):
        prove(mirror)


@pytest.mark.parametrize(
    ("state", "text"),
    [(JobState.FAILED, "host:1: cannot connect; see"), (JobState.CANCELLED, "another command cancelled")],
)
def test_a_job_that_failed_or_was_cancelled_says_so(state: JobState, text: str) -> None:
    with pytest.raises(ProofFailed, match=text):
        prove(FakeMirror(line(state, error="host:1: cannot connect")))


@pytest.mark.parametrize("state", [SparkState.REFUSED, SparkState.OFF])
def test_a_spark_that_goes_away_before_it_begins_is_not_waited_for(state: SparkState) -> None:
    mirror = FakeMirror(line(JobState.WAITING))
    mirror.spark = SparkStatus(state=state, reason="no Java")
    with pytest.raises(NoSpark, match="no Java"):
        prove(mirror)
    assert mirror.cancelled == ["j"], "nobody else would end it"


def test_what_never_begins_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "BEGIN_S", -1.0)
    with pytest.raises(NoSpark, match="Spark of mirror A-B is ready"):
        prove(FakeMirror(line(JobState.WAITING)))


def test_an_interrupted_command_cancels_its_job() -> None:
    mirror = FakeMirror(line(JobState.RUNNING), KeyboardInterrupt())  # type: ignore[arg-type] # as by Ctrl-C
    mirror.job = lambda _job_id: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        prove(mirror)
    assert mirror.cancelled == ["j"]


def test_a_supervisor_that_forgot_the_job_is_given_it_again() -> None:
    mirror = FakeMirror(UnknownJobId("j"), line(JobState.DONE), answers=(ProofAnswer(report=REPORT),))
    assert prove(mirror)[0] == REPORT
    assert len(mirror.submitted) == 2
    mirror = FakeMirror(UnknownJobId("j"))
    with pytest.raises(UnknownJobId):
        prove(mirror)
    assert len(mirror.submitted) == TRIES
