"""Runs a proof on the Spark of a running mirror: submits the job, waits for its end; cancels it on an error."""

import contextlib
import time
from collections.abc import Callable, Iterator

import msgspec

from actors.model.spark_status import SparkState
from actors.ray.mirror import FAILED_S, Mirror, patiently
from actors.spark.job_registry import UnknownJobId
from engine.base.errors import MirrorError
from engine.jobs.proof.model import NothingToProve, Progress, ProofAnswer, ProofFailed, ProofOptions, ProofReport
from engine.jobs.runtime.runner import JobLine, JobState

POLL_S = 0.3
BEGIN_S = 300.0
"""Seconds that a job may wait for its start: a Spark session opens within 20 s if there is room for it."""
TRIES = 3
JOB = "proof"
AWAY = (SparkState.OFF, SparkState.REFUSED)
"""States in which no job of Spark begins."""


class NoSpark(MirrorError):
    """No Spark of a running mirror can be used; `why` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


class RemoteSpark:
    """The Spark of the mirror with this `name`. `pause` is called with the seconds between two looks at a job."""

    def __init__(self, mirror: Mirror, name: str, pause: Callable[[float], None] = time.sleep) -> None:
        self.name = name
        self._mirror, self._pause = mirror, pause

    def prove(self, options: ProofOptions, tell: Callable[[Progress], None]) -> ProofReport:
        """Prove a flow on it. Raises NoSpark (nothing was done), NothingToProve, ProofFailed, MirrorLost."""
        for tries_left in reversed(range(TRIES)):
            job_id = self._mirror.submit_job(JOB, msgspec.msgpack.encode(options))
            try:
                for progress in self._progress(job_id):
                    tell(progress)
                return _report_of(self._answer(job_id), options)
            except UnknownJobId:  # a new supervisor has replaced the one that took the job
                if not tries_left:
                    raise
            except BaseException:
                with contextlib.suppress(MirrorError):  # the first error is the one to report
                    self._mirror.cancel_job(job_id)
                raise
        raise AssertionError("the last try returns or raises")

    def _progress(self, job_id: str) -> Iterator[Progress]:
        """Yield the progress of a proof whenever it changes, until the end. Raises NoSpark, ProofFailed, MirrorLost."""
        waits_since_s, told = time.monotonic(), 0
        while True:
            line = patiently(lambda: self._mirror.job(job_id), FAILED_S)
            if line.state is JobState.WAITING:
                self._refuse_to_wait(time.monotonic() - waits_since_s)
            else:
                waits_since_s = time.monotonic()
            if line.told > told:
                told = line.told
                progress = self._answer(job_id).progress
                if progress is not None:
                    yield progress
            if line.state is JobState.DONE:
                return
            _raise_failure(line)
            self._pause(POLL_S)

    def _refuse_to_wait(self, waited_s: float) -> None:
        spark = patiently(self._mirror.status, FAILED_S).spark
        if spark.state in AWAY or waited_s > BEGIN_S:
            raise NoSpark(f"Spark of mirror {self.name} is {spark.state} ({spark.reason or 'busy'})")

    def _answer(self, job_id: str) -> ProofAnswer:
        packed = patiently(lambda: self._mirror.job_report(job_id), FAILED_S)
        return msgspec.msgpack.decode(packed, type=ProofAnswer) if packed is not None else ProofAnswer()


def _report_of(answer: ProofAnswer, options: ProofOptions) -> ProofReport:
    if answer.report is None:
        raise NothingToProve(str(options.flow), answer.nothing)
    return answer.report


def _raise_failure(line: JobLine) -> None:
    if line.state is JobState.FAILED:
        raise ProofFailed(line.error, "see: raymirror logs")
    if line.state is JobState.CANCELLED:
        raise ProofFailed("another command cancelled the proof", "run it again")
