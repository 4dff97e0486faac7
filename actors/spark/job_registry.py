"""Tracks the jobs of a mirror's Spark: which wait, run or have ended, and how, across restarts of the host."""

from collections.abc import Iterable

import msgspec

from engine.base.errors import MirrorError
from engine.jobs.runtime.runner import ENDED, JobLine, JobState

KEPT = 100
"""The number of ended jobs that are kept, with their reports."""
MOST_HOSTS = 3
"""A job during which this many hosts have ended gets no other host: it may be the cause."""
AGAIN_S = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds between the end of a standing job and its next start, by the number of ends in a row."""
WELL_S = 300.0


class UnknownJobId(MirrorError):
    """No job has this id: the job ended long ago, or was submitted to an earlier supervisor."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id

    def __str__(self) -> str:
        return f"no Spark job {self.job_id} is known any more; submit it again"


class Order(msgspec.Struct, frozen=True):
    """A job to start on the host, under a run id that the host does not know yet."""

    run_id: str
    job: str
    options: bytes


class _Entry:
    def __init__(self, job_id: str, job: str, options: bytes) -> None:
        self.line = JobLine(job_id=job_id, job=job, state=JobState.WAITING)
        self.options = options
        self.report: bytes | None = None
        self.runs = 1
        self.hosts_lost = 0
        self.ends = 0
        self.standing = self.cancelled = self.dropped = False
        self.due_at_s = 0.0
        self.began_at_s = 0.0

    @property
    def run_id(self) -> str:
        return f"{self.line.job_id}.{self.runs}"

    def become(self, state: JobState, error: str = "", *, ours: bool = False) -> None:
        told = 0 if state is JobState.WAITING else self.line.told  # another run counts from 0
        self.line = msgspec.structs.replace(self.line, state=state, error=error, ours=ours, told=told)


class JobRegistry:
    """All jobs of one mirror, in the order of their submission."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add(self, job_id: str, job: str, options: bytes) -> None:
        """Add a job; if a job with this id has not ended, it just continues."""
        known = self._entries.get(job_id)
        if known is None or known.line.state in ENDED:
            self._entries[job_id] = _Entry(job_id, job, options)
        self._forget()

    def make_standing(self, job_id: str) -> None:
        """Make a job start again whenever it has ended."""
        self._entries[job_id].standing = True

    def line(self, job_id: str) -> JobLine:
        """Return the state of a job. Raises UnknownJobId."""
        return self._entry(job_id).line

    def lines(self) -> tuple[JobLine, ...]:
        return tuple(entry.line for entry in self._entries.values())

    def report(self, job_id: str) -> bytes | None:
        """Return the last report of a job. Raises UnknownJobId."""
        return self._entry(job_id).report

    def cancel(self, job_id: str) -> None:
        """Ask a job to end. Raises UnknownJobId."""
        entry = self._entry(job_id)
        entry.standing, entry.cancelled = False, True
        if entry.line.state is JobState.WAITING:
            entry.become(JobState.CANCELLED)

    def drop(self, job_id: str) -> None:
        """Forget a job and its report, after cancelling it if it has not ended; an unknown id is ignored."""
        if (entry := self._entries.get(job_id)) is not None:
            if entry.line.state not in ENDED:
                self.cancel(job_id)
            entry.dropped = True
            self._forget()

    @property
    def is_done(self) -> bool:
        """Whether no job runs or waits."""
        return all(entry.line.state in ENDED for entry in self._entries.values())

    @property
    def is_steady(self) -> bool:
        """Whether every job that has not ended is a standing job, and runs."""
        entries = [entry for entry in self._entries.values() if entry.line.state not in ENDED]
        return all(entry.standing and entry.line.state is JobState.RUNNING for entry in entries)

    def needs_host(self, now_s: float) -> bool:
        return any(True for _ in self._due(now_s))

    def to_begin(self, now_s: float) -> tuple[Order, ...]:
        """Return the jobs to start on a host that is ready."""
        return tuple(Order(entry.run_id, entry.line.job, entry.options) for entry in self._due(now_s))

    def begun(self, run_id: str, now_s: float) -> None:
        if (entry := self._of_run(run_id)) is not None and entry.line.state is JobState.WAITING:
            entry.become(JobState.RUNNING)
            entry.began_at_s = now_s

    def running(self, job_ids: Iterable[str]) -> tuple[str, ...]:
        """Return the run ids of the given jobs that run."""
        entries = (self._entries[job_id] for job_id in job_ids if job_id in self._entries)
        return tuple(one.run_id for one in entries if one.line.state is JobState.RUNNING)

    def to_cancel(self) -> tuple[str, ...]:
        """Return the run ids that the host should cancel."""
        entries = self._entries.values()
        return tuple(one.run_id for one in entries if one.cancelled and one.line.state is JobState.RUNNING)

    def note_line(self, line: JobLine, now_s: float) -> bool:
        """Take the state of a run from its host; return whether to fetch its report and call `note_report` with it."""
        entry = self._of_run(line.job_id)
        if entry is None or entry.line.state is not JobState.RUNNING:
            return False
        if line.state not in ENDED:
            return line.told > entry.line.told
        if line.state is JobState.DONE:
            return True
        self.note_report(line, None, now_s)
        return False

    def note_report(self, line: JobLine, report: bytes | None, now_s: float) -> None:
        """Take the report of a run, and its end if it has ended."""
        entry = self._of_run(line.job_id)
        if entry is None:
            return
        if report is not None or not entry.standing:
            entry.report = report
        if line.state in ENDED:
            self._end(entry, line.state, line.error, now_s, ours=line.ours)
        else:
            entry.line = msgspec.structs.replace(entry.line, told=line.told)

    def refuse(self, run_id: str, why: str, now_s: float) -> None:
        if (entry := self._of_run(run_id)) is not None:
            self._end(entry, JobState.FAILED, why, now_s)

    def lose_host(self, reason: str) -> None:
        """Note that the host has ended: its running jobs wait for the next host."""
        for entry in self._entries.values():
            if entry.line.state is JobState.RUNNING:
                entry.hosts_lost += 1
                entry.runs += 1
                if entry.cancelled:
                    entry.become(JobState.CANCELLED)
                elif entry.hosts_lost >= MOST_HOSTS and not entry.standing:
                    entry.become(JobState.FAILED, f"Spark ended {MOST_HOSTS} times while it ran, at last: {reason}")
                else:
                    entry.become(JobState.WAITING)

    def _end(self, entry: _Entry, state: JobState, error: str, now_s: float, *, ours: bool = False) -> None:
        if not entry.standing:
            entry.become(state, error, ours=ours)
            return
        entry.ends = 0 if now_s - entry.began_at_s > WELL_S else entry.ends + 1
        entry.runs += 1
        entry.due_at_s = now_s + AGAIN_S[min(entry.ends, len(AGAIN_S) - 1)]
        entry.become(JobState.WAITING, error, ours=ours)

    def _due(self, now_s: float) -> Iterable[_Entry]:
        entries = self._entries.values()
        return (one for one in entries if one.line.state is JobState.WAITING and one.due_at_s <= now_s)

    def _entry(self, job_id: str) -> _Entry:
        if job_id not in self._entries:
            raise UnknownJobId(job_id)
        return self._entries[job_id]

    def _of_run(self, run_id: str) -> _Entry | None:
        """Return the job of a run id, if that is the job's latest run."""
        entry = self._entries.get(run_id.rpartition(".")[0])
        return entry if entry is not None and entry.run_id == run_id else None

    def _forget(self) -> None:
        ended = [job_id for job_id, entry in self._entries.items() if entry.line.state in ENDED]
        beyond = ended[: max(0, len(ended) - KEPT)]
        for job_id in ended:
            if job_id in beyond or self._entries[job_id].dropped:
                del self._entries[job_id]
