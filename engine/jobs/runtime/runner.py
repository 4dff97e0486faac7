"""Runs jobs in parallel threads on one Spark session: submits, shows and cancels them by their ids.

Spark's cancellation ends only what runs in a job group at that moment, so a cancelled job is cancelled again at every
`press` until its thread has ended.
"""

import enum
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from engine.base.errors import MirrorError
from engine.base.redaction import redacted
from engine.jobs.runtime.idle_wait import IdleWait
from engine.jobs.runtime.session import leave_thread
from engine.jobs.runtime.table import JOBS, JobEntry, LoadedJob, load_job

KEPT = 100
"""The number of ended jobs that the runner keeps, with their reports."""
KEPT_BYTES = 16 * 1024 * 1024
"""The size of these reports together: a plan of config sync may have some megabytes. The last one is kept always."""
MOST_TEXT = 500


class JobState(enum.StrEnum):
    """State of a job. `waiting`: no session runs it yet."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """One job: `error` says in one line why it failed; `ours`: raymirror itself raised that error (a MirrorError).

    `told` counts the progress reports of its run, without the last report.
    """

    job_id: str
    job: str
    state: JobState
    error: str = ""
    ours: bool = False
    told: int = 0


class _Run:
    """One job in its thread."""

    def __init__(self, job_id: str, job: str) -> None:
        self.line = JobLine(job_id=job_id, job=job, state=JobState.RUNNING)
        self.report: bytes | None = None
        self.stop = threading.Event()
        self.idle = IdleWait()


class JobRunner:
    """The jobs of one session. `offered`: arguments that a job may take by name, beyond session, options and `stop`."""

    def __init__(self, spark: Any, offered: Mapping[str, Any], jobs: Mapping[str, JobEntry] = JOBS) -> None:
        self._spark, self._offered, self._jobs = spark, offered, jobs
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()

    def submit(self, job_id: str, job: str, options: bytes) -> None:
        """Start a job under an id; a job with a known id just continues. Raises UnknownJob, BadOptions."""
        with self._lock:
            if job_id in self._runs:
                return
            loaded = load_job(job, self._jobs)
            decoded = loaded.decode(job, options)
            run = self._runs[job_id] = _Run(job_id, job)
            self._forget()
        threading.Thread(target=self._work, args=(run, loaded, decoded), name=job_id, daemon=True).start()

    def cancel(self, job_id: str) -> None:
        """Ask a job to end soon; an unknown or ended job stays as it is."""
        run = self._runs.get(job_id)
        if run is not None:
            run.stop.set()
            self._cancel_group(run)

    def wake(self, job_id: str) -> None:
        """End the idle wait of a job; an unknown id is ignored."""
        run = self._runs.get(job_id)
        if run is not None:
            run.idle.wake()

    def lines(self) -> tuple[JobLine, ...]:
        """Return all jobs, in the order of their submission; never waits for Spark."""
        return tuple(run.line for run in tuple(self._runs.values()))

    def press(self) -> None:
        """Cancel again every cancelled job that has not ended; the host calls this from time to time."""
        for run in tuple(self._runs.values()):
            if run.stop.is_set():
                self._cancel_group(run)

    def report(self, job_id: str) -> bytes | None:
        """Return the last report of a job, as msgpack; None before the first."""
        run = self._runs.get(job_id)
        return run.report if run is not None else None

    def _cancel_group(self, run: _Run) -> None:
        if run.line.state is JobState.RUNNING:
            self._spark.sparkContext.cancelJobGroup(run.line.job_id)

    def _forget(self) -> None:
        """Forget the oldest ended jobs: there are too many of them, or their reports are too large together."""
        ended = [job_id for job_id, run in self._runs.items() if run.line.state in ENDED]
        in_all = 0
        for number, job_id in enumerate(reversed(ended)):
            in_all += len(self._runs[job_id].report or b"")
            if number >= KEPT or (number and in_all > KEPT_BYTES):
                del self._runs[job_id]

    def _work(self, run: _Run, loaded: LoadedJob, options: Any) -> None:
        try:
            report = self._call(run, loaded, options)
        except Exception as error:  # noqa: BLE001 a job may fail in any way; its line says how
            cancelled = run.stop.is_set()
            state = JobState.CANCELLED if cancelled else JobState.FAILED
            self._end(run, state, "" if cancelled else failure_text(error), ours=isinstance(error, MirrorError))
        else:
            run.report = msgspec.msgpack.encode(report)
            self._end(run, JobState.DONE)
        finally:
            leave_thread(self._spark)

    def _call(self, run: _Run, loaded: LoadedJob, options: Any) -> Any:
        context = self._spark.sparkContext
        context.setJobGroup(run.line.job_id, run.line.job, interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", loaded.pool)
        offered = {**self._offered, "stop": run.stop, "idle": run.idle, "tell": partial(self._tell, run)}
        return loaded.run(self._spark, options, **{name: offered[name] for name in loaded.wants})

    def _tell(self, run: _Run, report: Any) -> None:
        run.report = msgspec.msgpack.encode(report)
        run.line = msgspec.structs.replace(run.line, told=run.line.told + 1)

    def _end(self, run: _Run, state: JobState, error: str = "", *, ours: bool = False) -> None:
        run.line = msgspec.structs.replace(run.line, state=state, error=error, ours=ours)


def failure_text(error: BaseException) -> str:
    """Return in one line why a job failed: Spark wraps the cause into pages of Java, and names the root last."""
    lines = [line.strip() for line in redacted(str(error)).splitlines() if line.strip()]
    if isinstance(error, MirrorError):
        return " ".join(lines)
    roots = [line for line in lines if line.startswith("Caused by: ")]
    text = roots[-1] if roots else (lines or ["without a message"])[0]
    return f"{type(error).__name__}: {text}"[:MOST_TEXT]
