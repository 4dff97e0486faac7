"""The Spark host: one process with one RayDP session, so that a failure of the session ends with the process.

It starts to open its session at once. Jobs run in its threads, and never keep it from answering. It repairs nothing: if
the session is broken, the supervisor replaces the host.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, Protocol

import msgspec

from actors.config import config_ref
from actors.logging.logs import log_sentence, setup_logging
from actors.model.events import pack
from actors.model.spark_status import HostSpec, HostStatus
from actors.spark.event_buffer import EventBuffer
from actors.spark.executor_target import ExecutorTarget
from actors.spark.session import Session, SessionOptions
from actors.spark.sizing import Sized, Sizing
from actors.spark.standing_jobs import has_streams
from deploy.local.errors import ClusterError
from engine.base.clock import now_s
from engine.base.errors import MirrorError
from engine.base.tasks import join
from engine.config.settings import MirrorConfig
from engine.jobs.runtime.core_budget import CoreBudget
from engine.jobs.runtime.runner import JobLine, JobRunner, JobState, failure_text

LOOK_S = 1.0
REST_LOOKS = 15
"""Looks at the jobs per check of the session, while all wanted executors run and no job fails: a check asks two JVMs,
an actor and Ray's control store. A broken session fails its jobs, and each look sees that.
"""
HANG_S = 60.0
"""How long a check of the session may take, in seconds: an overloaded machine is slow, a hung JVM never answers."""
EXECUTORS_S = 60.0
"""How long all executors may be missing, in seconds: RayDP starts them again within seconds, if it can."""


class OpenSession(Protocol):
    """The parts of a session that the host needs."""

    spark: Any
    node: str

    def executors(self) -> int: ...
    def resize(self, wanted: int) -> Sized: ...
    def close(self) -> None: ...


Opens = Callable[[SessionOptions], OpenSession]


class SparkHostActor:
    """The actor of the Spark host."""

    def __init__(self, spec: bytes, opens: Opens = Session) -> None:
        self._spec = msgspec.msgpack.decode(spec, type=HostSpec)
        self._logs = setup_logging(self._spec.namespace, "spark")
        self._opens = opens
        self._status = HostStatus()
        self._session: OpenSession | None = None
        self._runner: JobRunner | None = None
        self._noted = EventBuffer()
        self._vetted: frozenset[str] = frozenset()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            config = config_ref.load(self._spec.config)
            options = SessionOptions(
                name=self._spec.name, config=config.spark, storage=config.storage, node=self._node()
            )
            session = await asyncio.to_thread(self._opens, options)
        except Exception as error:  # noqa: BLE001 RayDP and Py4J raise anything; the status reports it
            self._break(f"Spark did not start: {failure_text(error)}", refused=_is_refusal(error))
            return
        await self._watch(session, config)

    async def _watch(self, session: OpenSession, config: MirrorConfig) -> None:
        self._session = session
        spark = config.spark
        self._share = share = CoreBudget(streams=has_streams(config), all_cores=spark.executors * spark.cores)
        offered = {"config": config, "storage": config.storage, "note": self._noted.note, "share": share}
        self._runner = JobRunner(session.spark, offered)
        sizing = Sizing(session, ExecutorTarget(spark.executors, spark.idle_s), share)
        async with asyncio.TaskGroup() as group:
            resizing = group.create_task(sizing.run())
            await self._check(session, self._runner, sizing, spark.cores)
            resizing.cancel()

    async def _check(self, session: OpenSession, runner: JobRunner, sizing: Sizing, cores: int) -> None:
        """Check the session from time to time, until it is broken. `cores`: of one executor."""
        seen_at_s, had_any = now_s(), False
        while True:
            failed = self._failed_jobs(runner)
            try:
                async with asyncio.timeout(HANG_S):
                    executors = await asyncio.to_thread(session.executors)
                    await asyncio.to_thread(runner.press)
            except Exception as error:  # noqa: BLE001 as above
                self._break(f"the Spark session is broken: {failure_text(error)}")
                return
            sizing.ask(now_s())
            if sizing.found.leaving:
                self._break(f"its node {sizing.found.leaving} is being drained")
                return
            self._vetted, self._share.cores = failed, executors * cores
            had_any = had_any or executors > 0
            seen_at_s = now_s() if executors or not had_any else seen_at_s
            if now_s() - seen_at_s > EXECUTORS_S:
                self._break(f"no executor is left for {EXECUTORS_S:.0f} s")
                return
            state: Literal["ready", "starting"] = "ready" if had_any else "starting"
            waiting = sizing.found.waiting if executors < sizing.wanted else ""
            self._status = HostStatus(state=state, reason=waiting, executors=executors, node=session.node)
            for _ in range(REST_LOOKS if executors == sizing.wanted and not failed else 1):
                await asyncio.sleep(LOOK_S)
                if self._failed_jobs(runner) != failed or sizing.is_due(now_s()):
                    break

    @staticmethod
    def _failed_jobs(runner: JobRunner) -> frozenset[str]:
        return frozenset(line.job_id for line in runner.lines() if line.state is JobState.FAILED)

    def _break(self, reason: str, *, refused: bool = False) -> None:
        log_sentence("error", reason)
        self._status = HostStatus(state="broken", reason=reason, refused=refused)

    def _node(self) -> str:
        if not self._spec.one_node:
            return ""
        import ray

        util: Any = ray.util  # without types
        return str(util.get_node_ip_address())

    async def status(self) -> bytes:
        """Return a HostStatus, at once."""
        if self._task.done():
            await join(self._task)
        seen = msgspec.structs.replace(self._status, jobs=self._jobs(), events=self._noted.count)
        return msgspec.msgpack.encode(seen)

    def _jobs(self) -> tuple[JobLine, ...]:
        """Return the jobs; report a failure only after a check found the session healthy since.

        Otherwise the session itself has failed, and the job runs again on the next host.
        """
        lines = self._runner.lines() if self._runner is not None else ()
        return tuple(
            msgspec.structs.replace(line, state=JobState.RUNNING, error="")
            if line.state is JobState.FAILED and line.job_id not in self._vetted
            else line
            for line in lines
        )

    async def submit(self, job_id: str, job: str, options: bytes) -> None:
        """Start a job; a job with a known id just continues. Raises UnknownJob, BadOptions."""
        if self._runner is None:
            raise RuntimeError("this Spark host is not ready and accepts no jobs yet")
        await asyncio.to_thread(self._runner.submit, job_id, job, options)

    async def cancel(self, job_id: str) -> None:
        if self._runner is not None:
            await asyncio.to_thread(self._runner.cancel, job_id)

    async def wake(self, job_id: str) -> None:
        if self._runner is not None:
            self._runner.wake(job_id)

    async def report(self, job_id: str) -> bytes | None:
        """Return the last report of a job; None before the first."""
        return self._runner.report(job_id) if self._runner is not None else None

    async def events(self, after: int) -> tuple[int, bytes]:
        """Return how many events jobs have reported so far, and those after the first `after`, packed."""
        count, events = self._noted.after(after)
        return count, pack(events)

    async def close(self) -> None:
        """Stop Spark; the caller ends the process."""
        self._task.cancel()
        if self._session is not None:
            await asyncio.to_thread(self._session.close)
        self._logs.close()


def _is_refusal(error: BaseException) -> bool:
    """Whether another try would fail as well: these errors say that something is missing."""
    return isinstance(error, (MirrorError, ClusterError, ImportError)) and not getattr(error, "may_pass", False)
