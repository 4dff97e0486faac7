"""A round that Spark plans, on its whole way between the product's own classes: without Ray, brokers or Spark.

ConfigService in MetadataActor <-> RayMetadata <-> ConfigRounds <-> SparkService <-> a host of this test
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from actors.control.config_rounds import JOB, ConfigRounds
from actors.control.ports import ActorUnreachable
from actors.model.spark_status import HostStatus
from actors.ray import ray_metadata
from actors.ray.metadata_actor import MetadataActor
from actors.ray.ray_metadata import RayMetadata
from actors.ray.watch import Watch
from actors.spark.service import SparkService
from engine.base import clock
from engine.core.reports.config_report import ConfigReport
from engine.flow.config_sync.round_messages import RoundRequest, cut, unpack_memory
from engine.flow.config_sync.sync import ConfigSync
from engine.jobs.runtime.runner import JobLine, JobState
from engine.services import config_service
from engine.services.config_service import ConfigService, config_sync_options
from tests.fakes.settings import FakeSettings
from tests.unit.actors.fakes import FLOW
from tests.unit.actors.ray.test_metadata_actor import FakeEvents, FakeKeeper, FakeState, Seen
from tests.unit.actors.ray.test_ray_metadata import SPEC, Remote
from tests.unit.actors.spark.test_service import FakeHost, FakeHosts
from tests.unit.engine.config_files import mirror

CONFIG = mirror("raymirror.spark = on\nsync.topic.configs.interval.seconds = 60\n")


class Client:
    """A client that is connected to nothing; its cluster is found by its alias."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.identity = self
        self.id = f"id-of-{alias}"

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return


class PlanningHost(FakeHost):
    """A Spark host that plans rounds with the engine's own classes, over clusters in memory; it may `hang`."""

    def __init__(self, clusters: dict[str, FakeSettings]) -> None:
        super().__init__()
        self.clusters = clusters
        self.hang = False
        self.reports: dict[str, bytes] = {}
        self.lines: list[JobLine] = []
        self.requests: list[RoundRequest] = []
        self.ready()

    async def submit(self, job_id: str, job: str, options: bytes) -> None:
        assert job == JOB
        request = msgspec.msgpack.decode(options, type=RoundRequest)
        self.requests.append(request)
        if self.hang:
            self.lines.append(JobLine(job_id=job_id, job=job, state=JobState.RUNNING))
        else:
            sync = ConfigSync(config_sync_options(CONFIG.flows[0]), self.clusters["A"], self.clusters["B"])
            sync.known = unpack_memory(request.memory)
            plan = cut(await sync.compare(request.scope), sync.known)
            self.reports[job_id] = msgspec.msgpack.encode(plan)
            self.lines.append(JobLine(job_id=job_id, job=job, state=JobState.DONE))
        self.ready(*self.lines)

    async def report(self, job_id: str) -> bytes | None:
        return self.reports.get(job_id)


class Handle:
    """A metadata actor as its supervisor calls it; a dead one answers nothing."""

    def __init__(self, actor: MetadataActor) -> None:
        self.actor = actor
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __getattr__(self, name: str) -> Remote:
        async def call(*words: Any) -> Any:
            asking = asyncio.ensure_future(getattr(self.actor, name)(*words))
            await asyncio.wait((asking, self.died), return_when=asyncio.FIRST_COMPLETED)
            if self.died.done():
                asking.cancel()
                raise ActorUnreachable("metadata", name, "ActorDiedError")
            return await asking

        return Remote(call)

    def die(self) -> None:
        """End as a killed process does: nothing is written, nothing given back."""
        if not self.died.done():
            self.died.set_result(None)
            self.actor._task.cancel()


class NothingLent:
    """The log of a cluster to whose topics nothing is lent."""

    def __init__(self, *_args: object) -> None: ...

    async def read(self) -> tuple[()]:
        return ()

    async def close(self) -> None: ...


class Stage:
    """Both clusters, and everything between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clusters = {"A": FakeSettings("A"), "B": FakeSettings("B")}
        self.handles: list[Handle] = []
        self.hosts = FakeHosts()
        self.spark = SparkService(self.hosts, clock, on=True, namespace="raymirror-a-b", stays=True)
        monkeypatch.setattr(self.hosts, "start", self._start_host)
        self.metadata = RayMetadata(SPEC, (FLOW,), asyncio.Event())
        self.rounds = ConfigRounds(self.metadata)

        async def admitted(*_words: object) -> bool:
            return True

        async def direct(_who: str, _what: str, call: Any, _timeout_s: float = 0.0) -> Any:
            return await call

        for module, name, value in (
            (config_service, "clients_of", lambda _config, flow, _id: tuple(map(Client, flow))),
            (config_service, "KafkaSettings", lambda client: self.clusters[client.alias]),
            (config_service, "LentLog", NothingLent),
            (config_service, "_unfenced", lambda _flow, source, _target: self.clusters[source.alias]),
            (config_service, "refuse_one_cluster", admitted),
            (config_service, "check_clusters", admitted),
            (ray_metadata, "actor_class", lambda _shell: self),
            (ray_metadata, "found_actors", lambda _namespace: []),
            (ray_metadata, "bounded", direct),
            (ray_metadata, "AGAIN_S", -1.0),
        ):
            monkeypatch.setattr(module, name, value)
        monkeypatch.setattr("ray.kill", lambda _actor: None)

    def _start_host(self, _name: str) -> PlanningHost:
        self.hosts.started.append(PlanningHost(self.clusters))
        return self.host

    @property
    def host(self) -> PlanningHost:
        found = self.hosts.started[-1]
        assert isinstance(found, PlanningHost)
        return found

    # --- what `actor_class` gives -----------------------------------------------------------------------------

    def options(self, **_options: object) -> "Stage":
        return self

    def remote(self, spec: bytes) -> Handle:
        watch = Watch(
            flow=FLOW,
            service=FakeKeeper([Seen(())]),
            state=FakeState,
            events=FakeEvents(),
            every_s=5.0,
            configs=ConfigService(CONFIG, CONFIG.flows[0]),
        )
        self.handles.append(Handle(MetadataActor(spec, make=lambda _spec: (watch,))))
        return self.handles[-1]

    # --- a supervisor -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async def steps() -> None:
            while True:
                self.rounds.step([FLOW], self.spark)
                await asyncio.sleep(1.0)

        async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in (self.metadata.run(), self.spark.run(), steps())]
            yield
            for task in tasks:
                task.cancel()
        for handle in self.handles:
            handle.die()

    @property
    def report(self) -> ConfigReport:
        return self.metadata.found(FLOW).configs or ConfigReport()

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():  # noqa: ASYNC110 - the condition is the state of fakes
            await asyncio.sleep(0.5)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    FakeState.topic.clear()
    FakeState.fail.clear()
    made = Stage(monkeypatch)
    made.clusters["A"].put("orders", retention_ms="5")
    made.clusters["B"].put("A.orders")
    return made


async def test_spark_plans_and_metadata_writes(stage: Stage) -> None:
    async with stage.running():
        await stage.until(lambda: stage.report.by == "spark")
        assert stage.clusters["B"].own["A.orders"] == {"retention.ms": "5"}
        stage.clusters["A"].put("orders", retention_ms="6")
        await stage.until(lambda: stage.clusters["B"].own["A.orders"] == {"retention.ms": "6"})
        await stage.until(lambda: stage.report.changes == 2)
        assert (stage.report.by, stage.report.not_spark) == ("spark", "")
        assert stage.spark.status().jobs == (), "no plan is kept"
    assert stage.host.requests[0].clusters == ("id-of-A", "id-of-B")


async def test_a_metadata_process_that_dies_leaves_its_memory_to_the_next(stage: Stage) -> None:
    async with stage.running():
        await stage.until(lambda: stage.report.by == "spark")
        await asyncio.sleep(10.0)
        del stage.clusters["A"].own["orders"]["retention.ms"]
        stage.clusters["A"].put("later", retention_ms="7")
        stage.clusters["B"].put("A.later")
        stage.handles[0].die()
        await stage.until(lambda: len(stage.handles) == 2 and stage.clusters["B"].own["A.later"])
        await stage.until(lambda: stage.clusters["B"].own["A.orders"] == {})
    writes = stage.clusters["B"].writes
    assert sorted(writes) == ["A.later: retention.ms=7", "A.orders: retention.ms=5", "A.orders: retention.ms=None"]


async def test_a_spark_that_ends_in_the_middle_keeps_nobody_waiting(stage: Stage) -> None:
    async with stage.running():
        await stage.until(lambda: stage.report.by == "spark")
        stage.host.hang = True
        rounds = len(stage.host.requests)
        stage.clusters["A"].put("orders", retention_ms="6")
        await stage.until(lambda: len(stage.host.requests) > rounds)
        stage.host.tells = HostStatus(state="broken", reason="its JVM has ended")
        await stage.until(lambda: stage.clusters["B"].own["A.orders"] == {"retention.ms": "6"})
        await stage.until(lambda: stage.report.by == "loop")
        assert "its JVM has ended" in stage.report.not_spark
        await stage.until(lambda: stage.report.by == "spark")
    assert len(stage.hosts.started) == 2
    assert stage.clusters["B"].writes == ["A.orders: retention.ms=5", "A.orders: retention.ms=6"]


async def test_a_round_that_takes_too_long_is_planned_by_the_loop(stage: Stage) -> None:
    async with stage.running():
        await stage.until(lambda: stage.report.by == "spark")
        stage.host.hang = True
        stage.clusters["A"].put("orders", retention_ms="6")
        await stage.until(lambda: stage.clusters["B"].own["A.orders"] == {"retention.ms": "6"})
        await stage.until(lambda: "no plan came within" in stage.report.not_spark)
        await stage.until(lambda: stage.host.cancelled)
    assert stage.report.by == "loop"
