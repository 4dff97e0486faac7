"""Runs a proof on the Spark of a running mirror: finds the mirror, submits the job, waits; cancels it on an error."""

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from actors.config.config_ref import digest_of
from actors.local import session
from actors.local.session import MirrorPlace, NoMirror
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
_AWAY = (SparkState.OFF, SparkState.REFUSED)


class NoSpark(MirrorError):
    """No Spark of a running mirror can be used; `why` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return self.why


@contextmanager
def lent_spark(args: argparse.Namespace) -> Iterator["RemoteSpark"]:
    """Find the mirror that runs with exactly this file, or the mirror that the command names.

    Raises NoSpark if no mirror's Spark can be used; NoMirror and SeveralMirrors only if the command names a mirror.
    """
    digest = digest_of(Path(args.config).read_bytes())
    asked = bool(args.address or args.mirror)
    place = _place(args, digest, os.environ)
    from actors.ray.connect import RayUnreachable, attach
    from actors.ray.mirror import join

    try:
        connection = attach(place.address, local=place.local)
    except RayUnreachable as unreachable:
        raise (NoMirror if asked else NoSpark)(str(unreachable)) from unreachable
    try:
        try:
            mirror = join(connection, place)
        except MirrorError as error:
            if asked:
                raise
            raise NoSpark(str(error)) from error
        yield _asked_for(mirror, digest)
    finally:
        connection.close()


def _place(args: argparse.Namespace, digest: str, env: Mapping[str, str]) -> MirrorPlace:
    if args.address or args.mirror or env.get("RAY_ADDRESS"):
        return session.find(args.address, args.mirror, env)
    same = [state.namespace for state in session.living(env) if state.config_digest == digest]
    if not same:
        raise NoSpark("no mirror on this machine runs with this file")
    return session.find(None, same[0], env)


def _asked_for(mirror: Mirror, digest: str) -> "RemoteSpark":
    status, name = mirror.status(), session.short_name(mirror.namespace)
    if status.config_digest != digest:
        raise NoSpark(f"mirror {name} runs with another file, or with another version of this file")
    if status.spark.state in _AWAY:
        raise NoSpark(f"mirror {name} has no Spark ({status.spark.reason or 'raymirror.spark is off'})")
    return RemoteSpark(mirror, name)


class RemoteSpark:
    """The Spark of the mirror with this `name`."""

    def __init__(self, mirror: Mirror, name: str) -> None:
        self.name = name
        self._mirror = mirror

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
            time.sleep(POLL_S)

    def _refuse_to_wait(self, waited_s: float) -> None:
        spark = patiently(self._mirror.status, FAILED_S).spark
        if spark.state in _AWAY or waited_s > BEGIN_S:
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
