"""The table of jobs by name: the module of each, and the pool of Spark's scheduler in which it runs.

A job is a function `run(spark, options, ...) -> report` in a module of its own, which only the host of a session
imports. Options and report are msgspec structs, found by the function's annotations, so they must be real imports
there. Beyond the first two it may take, by name: `stop` (a threading.Event that is set when the job should end),
`config` (the MirrorConfig, with placeholders of passwords unresolved), `storage` (the Storage, None if the file names
none), `note` (a function that takes an Event, which the mirror then publishes), `tell` (a function that takes a
progress report, which can be read until the next one), `share` (the CoreBudget of a batch job), `idle` (the IdleWait
of the job, which others end when the job has something to do).
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_type_hints

import msgspec

from engine.base.errors import MirrorError

Pool = Literal["stream", "batch"]
OFFERED = ("stop", "config", "storage", "note", "tell", "share", "idle")


class JobEntry(msgspec.Struct, frozen=True):
    """The module of a job's `run`, and its pool: tasks of `stream` get a free core before those of `batch`."""

    module: str
    pool: Pool = "batch"


JOBS: dict[str, JobEntry] = {
    "probe": JobEntry("engine.jobs.runtime.probe"),
    "lag": JobEntry("engine.jobs.lag.job", "stream"),
    "care": JobEntry("engine.jobs.lag.care_job"),
    "proof": JobEntry("engine.jobs.proof.job"),
    "proof_watch": JobEntry("engine.jobs.proof.watch"),
}


class UnknownJob(MirrorError):
    """No job has this name."""

    def __init__(self, job: str, known: tuple[str, ...]) -> None:
        super().__init__(job, known)
        self.job, self.known = job, known

    def __str__(self) -> str:
        return f"no Spark job is called {self.job!r}; the jobs are: {', '.join(self.known)}"


class BadOptions(MirrorError):
    """The options of a job cannot be decoded: they come from another version, or from a bug."""

    def __init__(self, job: str, why: str) -> None:
        super().__init__(job, why)
        self.job, self.why = job, why

    def __str__(self) -> str:
        return (
            f"the options of Spark job {self.job!r} cannot be read ({self.why});"
            " check that the command and the mirror have the same version"
        )


class LoadedJob(msgspec.Struct, frozen=True):
    """A job that is ready to be called: `wants` names the arguments beyond session and options."""

    run: Callable[..., Any]
    options_type: Any
    wants: tuple[str, ...]
    pool: Pool

    def decode(self, job: str, options: bytes) -> Any:
        """Read the options. Raises BadOptions."""
        try:
            return msgspec.msgpack.decode(options, type=self.options_type)
        except msgspec.MsgspecError as error:
            raise BadOptions(job, str(error)) from None


def entry_of(job: str, jobs: Mapping[str, JobEntry] = JOBS) -> JobEntry:
    """Look a job up without importing it. Raises UnknownJob."""
    if job not in jobs:
        raise UnknownJob(job, tuple(jobs))
    return jobs[job]


def load_job(job: str, jobs: Mapping[str, JobEntry] = JOBS) -> LoadedJob:
    """Import a job. Raises UnknownJob."""
    entry = entry_of(job, jobs)
    run = importlib.import_module(entry.module).run
    wants = tuple(name for name in inspect.signature(run).parameters if name in OFFERED)
    return LoadedJob(run, get_type_hints(run)["options"], wants, entry.pool)
