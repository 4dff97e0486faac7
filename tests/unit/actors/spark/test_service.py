"""The Spark service: when a host runs, what it reports, and that Spark's errors stay inside."""

import asyncio

import msgspec
import pytest

from actors.model.spark_status import HostStatus, SparkNews, SparkState
from actors.spark.activity import INTERVAL_S
from actors.spark.service import (
    PAUSES_S,
    REFUSED_S,
    SILENT_S,
    START_S,
    WELL_S,
    HostGone,
    HostSilent,
    JobRefused,
    SparkOff,
    SparkService,
)
from actors.spark.standing_jobs import lag_job
from engine.core.events.event_base import Event
from engine.core.events.progress_events import RpoBreached
from engine.jobs.runtime.runner import JobLine, JobState
from engine.jobs.runtime.table import UnknownJob
from policies.model import FlowName
from tests.harness.eventually import until_equal
from tests.unit.actors.fakes import Clock
from tests.unit.actors.spark.test_activity import lane as a_lane


class FakeHost:
    """A host that tells what a test says."""

    def __init__(self) -> None:
        self.tells: HostStatus | Exception = HostStatus()
        self.runs: dict[str, bytes] = {}
        self.cancelled: list[str] = []
        self.woken: list[str] = []
        self.closed = self.killed = False
        self.refuses = ""
        self.told: list[Event] = []

    async def status(self) -> HostStatus:
        if isinstance(self.tells, Exception):
            raise self.tells
        return self.tells

    async def submit(self, job_id: str, job: str, options: bytes) -> None:
        if self.refuses:
            raise JobRefused(self.refuses)
        self.runs[job_id] = options

    async def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)

    async def wake(self, job_id: str) -> None:
        self.woken.append(job_id)

    async def report(self, job_id: str) -> bytes | None:
        return b"report of " + job_id.encode()

    async def events(self, after: int) -> tuple[int, tuple[Event, ...]]:
        return len(self.told), tuple(self.told[after:])

    async def close(self) -> None:
        self.closed = True

    def kill(self) -> None:
        self.killed = True

    def ready(self, *jobs: JobLine) -> None:
        self.tells = HostStatus(state="ready", executors=1, jobs=jobs, events=len(self.told))


class FakeHosts:
    def __init__(self) -> None:
        self.started: list[FakeHost] = []
        self.why = ""
        self.cleared = 0

    def clear(self) -> None:
        self.cleared += 1

    def refusal(self) -> str:
        return self.why

    def start(self, name: str) -> FakeHost:
        assert name.startswith("raymirror-a-b-")
        self.started.append(FakeHost())
        return self.started[-1]


class Stage:
    """A keeper, its fake hosts, and a clock."""

    def __init__(self, *, on: bool = True, stays: bool = False) -> None:
        self.hosts = FakeHosts()
        self.clock = Clock()
        self.service = SparkService(self.hosts, self.clock, on=on, namespace="raymirror-a-b", stays=stays)

    @property
    def host(self) -> FakeHost:
        return self.hosts.started[-1]

    @property
    def state(self) -> SparkState:
        return self.service.status().state

    async def count(self) -> int:
        return len(self.hosts.started)

    async def look(self) -> SparkState:
        return self.state

    async def steps(self, count: int = 1, after_s: float = 0.0) -> None:
        self.clock.seconds += after_s
        for _ in range(count):
            await self.service.step()

    async def make_ready(self) -> str:
        job_id = self.service.submit("probe", b"t")
        await self.steps()
        self.host.ready()
        await self.steps()
        return job_id


async def test_nothing_is_started_before_it_is_needed() -> None:
    stage = Stage()
    await stage.steps(3)
    assert (stage.state, stage.hosts.started) == (SparkState.IDLE, [])
    stage.service.submit("probe", b"t")
    await stage.steps()
    assert stage.state is SparkState.STARTING


async def test_spark_that_is_off_takes_no_job_and_says_how_to_have_it() -> None:
    stage = Stage(on=False)
    assert stage.state is SparkState.OFF
    with pytest.raises(SparkOff, match=r"set raymirror\.spark = on"):
        stage.service.submit("probe", b"t")
    await stage.service.run()
    assert stage.hosts.cleared == 1


async def test_an_unknown_job_is_refused_at_once() -> None:
    with pytest.raises(UnknownJob):
        Stage().service.submit("prove", b"t")


async def test_a_job_runs_and_its_report_is_had() -> None:
    stage = Stage()
    job_id = await stage.make_ready()
    assert stage.state is SparkState.READY
    assert stage.service.status().executors == 1
    (run,) = stage.host.runs
    stage.host.ready(JobLine(job_id=run, job="probe", state=JobState.DONE))
    await stage.steps()
    assert stage.service.line(job_id).state is JobState.DONE
    assert stage.service.report(job_id) == b"report of " + run.encode()
    assert stage.service.take_news() == (SparkNews("started"),)
    assert stage.service.take_news() == ()


async def test_what_jobs_tell_is_taken_once_from_each_host() -> None:
    def breach(topic: str) -> Event:
        return RpoBreached(flow=FlowName("a", "b"), topic=topic, seconds=9.0, objective_s=5.0, since_ms=0)

    stage = Stage()
    await stage.make_ready()
    for topic in ("t", "u"):
        stage.host.told.append(breach(topic))
        stage.host.ready()
        await stage.steps(2)
        assert stage.service.take_events() == (breach(topic),)
        assert stage.service.take_events() == ()
    stage.host.tells = HostGone("killed")
    await stage.steps()
    await stage.steps(after_s=PAUSES_S[0])
    stage.host.told.append(breach("of the next host"))
    stage.host.ready()
    await stage.steps()
    assert stage.service.take_events() == (breach("of the next host"),)


async def test_what_a_job_tells_on_its_way_is_had() -> None:
    stage = Stage()
    job_id = await stage.make_ready()
    (run,) = stage.host.runs
    stage.host.ready(JobLine(job_id=run, job="probe", state=JobState.RUNNING, told=1))
    await stage.steps()
    assert (stage.service.line(job_id).state, stage.service.line(job_id).told) == (JobState.RUNNING, 1)
    assert stage.service.report(job_id) == b"report of " + run.encode()


async def test_a_job_that_is_cancelled_is_cancelled_on_the_host() -> None:
    stage = Stage()
    stage.service.cancel(await stage.make_ready())
    await stage.steps()
    assert stage.host.cancelled == list(stage.host.runs)


async def test_a_job_that_the_host_refuses_has_failed_and_spark_goes_on() -> None:
    stage = Stage()
    job_id = stage.service.submit("probe", b"t")
    await stage.steps()
    stage.host.ready()
    stage.host.refuses = "bad terms"
    await stage.steps()
    assert stage.service.line(job_id).error == "bad terms"
    assert stage.state is SparkState.READY


async def test_a_host_that_ends_is_replaced_ever_later_and_its_job_runs_again() -> None:
    stage = Stage()
    job_id = await stage.make_ready()
    for pause_s in (*PAUSES_S, PAUSES_S[-1]):
        stage.host.tells = HostGone("killed")
        await stage.steps()
        assert stage.host.killed
        assert stage.state is SparkState.RESTARTING
        assert stage.service.status().reason == f"killed; Spark starts again after {pause_s:.0f} s"
        count = len(stage.hosts.started)
        stage.service.submit("probe", b"t")
        await stage.steps(after_s=pause_s - 0.1)
        assert len(stage.hosts.started) == count
        await stage.steps(after_s=0.2)
        assert len(stage.hosts.started) == count + 1
        assert stage.state is SparkState.RESTARTING, "until it is ready"
    stage.host.ready()
    await stage.steps()
    assert stage.state is SparkState.READY
    assert len(stage.host.runs) >= 1
    assert stage.service.line(job_id).state is JobState.RUNNING
    news = stage.service.take_news()
    once = (SparkNews("started"), SparkNews("failed", "killed"), SparkNews("recovered"))
    assert news == once, "the same is not said again and again"


async def test_a_host_that_was_well_for_long_had_no_failure_before() -> None:
    stage = Stage()
    await stage.make_ready()
    stage.host.tells = HostGone("killed")
    await stage.steps()
    await stage.steps(after_s=PAUSES_S[0])
    stage.host.ready()
    await stage.steps()
    await stage.steps(after_s=WELL_S + 1)
    stage.host.tells = HostGone("killed")
    await stage.steps()
    assert stage.service.status().reason.endswith(f"after {PAUSES_S[0]:.0f} s")


async def test_one_silence_is_nothing_and_a_long_one_is_an_end() -> None:
    stage = Stage()
    await stage.make_ready()
    stage.host.tells = HostSilent("no answer in 10 s")
    await stage.steps(after_s=SILENT_S - 1)
    assert stage.service.status().state is SparkState.READY
    await stage.steps(after_s=2)
    assert stage.service.status().state is SparkState.RESTARTING


async def test_a_session_that_does_not_open_in_time_is_tried_again_but_one_that_waits_for_resources_waits() -> None:
    stage = Stage()
    stage.service.submit("probe", b"t")
    await stage.steps()
    stage.host.tells = HostStatus(state="starting", reason="waiting for resources: none")
    await stage.steps(after_s=START_S + 1)
    assert (stage.state, stage.service.status().reason) == (SparkState.STARTING, "waiting for resources: none")
    stage.host.tells = HostStatus(state="starting")
    await stage.steps()
    assert "its session did not open" in stage.service.status().reason


async def test_no_place_is_a_refusal_with_its_reason_and_looked_at_again() -> None:
    stage = Stage()
    stage.hosts.why = "no node has Java"
    stage.service.submit("probe", b"t")
    await stage.steps(3)
    assert (stage.state, stage.service.status().reason) == (SparkState.REFUSED, "no node has Java")
    assert stage.hosts.started == []
    stage.hosts.why = ""
    await stage.steps(after_s=REFUSED_S)
    stage.host.ready()
    await stage.steps()
    assert stage.state is SparkState.READY
    assert stage.service.take_news() == (SparkNews("failed", "no node has Java"), SparkNews("recovered"))


async def test_what_a_host_refuses_is_a_refusal_too() -> None:
    stage = Stage()
    stage.service.submit("probe", b"t")
    await stage.steps()
    stage.host.tells = HostStatus(state="broken", reason="no jars", refused=True)
    await stage.steps()
    assert (stage.state, stage.service.status().reason) == (SparkState.REFUSED, "no jars")
    assert stage.host.killed
    await stage.steps(2, after_s=REFUSED_S)
    assert len(stage.hosts.started) == 2
    assert (stage.state, stage.service.status().reason) == (SparkState.REFUSED, "no jars"), "until it is known better"
    stage.host.ready()
    await stage.steps()
    assert (stage.state, stage.service.status().reason) == (SparkState.READY, "")


async def test_of_a_node_that_is_going_away_it_goes_elsewhere() -> None:
    stage = Stage()
    job_id = await stage.make_ready()
    stage.host.tells = HostStatus(state="ready", executors=1, node="f00")
    await stage.steps()
    stage.service.clear_node("ba2")
    assert stage.state is SparkState.READY
    stage.service.clear_node("f00")
    assert stage.host.killed
    assert stage.service.status().reason.startswith("its node f00 is being drained; Spark starts again")
    stage.service.clear_node("f00")
    await stage.steps(after_s=PAUSES_S[0])
    stage.host.ready()
    await stage.steps()
    assert stage.service.line(job_id).state is JobState.RUNNING


async def test_what_is_ready_may_still_wait_for_more() -> None:
    stage = Stage()
    await stage.make_ready()
    stage.host.tells = HostStatus(state="ready", reason="1 of 2 executors has a place", executors=1)
    await stage.steps()
    assert (stage.state, stage.service.status().reason) == (SparkState.READY, "1 of 2 executors has a place")


async def test_an_error_of_ray_is_told_and_the_keeper_lives_on() -> None:
    stage = Stage()

    def broken() -> str:
        stage.hosts.refusal = FakeHosts.refusal.__get__(stage.hosts)  # type: ignore[method-assign]
        raise RuntimeError("GCS is away")

    stage.hosts.refusal = broken  # type: ignore[method-assign]
    stage.service.submit("probe", b"t")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(stage.service.run())
        await until_equal(stage.look, SparkState.RESTARTING)
        assert "RuntimeError: GCS is away" in stage.service.status().reason
        stage.clock.seconds += PAUSES_S[0]
        await until_equal(stage.count, 1)
        running.cancel()
    assert stage.host.killed


async def test_it_is_closed_in_order_at_the_end() -> None:
    stage = Stage()
    await stage.make_ready()
    await stage.service.close(5.0)
    assert (stage.host.closed, stage.host.killed) == (True, True)
    assert stage.state is SparkState.OFF


async def test_a_job_that_runs_all_the_time_begins_again() -> None:
    stage = Stage()
    stage.service.submit_standing("lag", "probe", b"t")
    await stage.steps()
    stage.host.ready()
    await stage.steps()
    (first,) = stage.host.runs
    stage.host.ready(JobLine(job_id=first, job="probe", state=JobState.FAILED, error="why"))
    await stage.steps()
    stage.host.ready()
    await stage.steps(after_s=60)
    assert len(stage.host.runs) == 2
    assert stage.service.line("lag") == JobLine(job_id="lag", job="probe", state=JobState.RUNNING)


def test_a_status_crosses_processes() -> None:
    status = Stage().service.status()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(status), type=type(status)) == status


async def test_the_lag_history_of_an_active_flow_is_woken() -> None:
    stage = Stage()
    moving, still = FlowName("A", "B"), FlowName("B", "A")
    for flow in (moving, still):
        stage.service.submit_standing(lag_job(flow), "lag", b"t")
    lanes = [msgspec.structs.replace(a_lane(), records=1)]

    def pass_time() -> None:
        stage.clock.seconds += INTERVAL_S
        stage.service.note_activity([(moving, lanes), (still, [])])

    pass_time()
    await stage.steps(2)
    stage.host.ready()
    await stage.steps(2)
    assert stage.host.woken == [], "nothing runs before the host is ready, so nothing idles"
    pass_time()
    await stage.steps()
    assert stage.host.woken == ["lag A->B.1"]
    await stage.steps()
    pass_time()
    await stage.steps()
    assert stage.host.woken == ["lag A->B.1"], "it has copied nothing since"


async def test_where_rounds_come_and_go_a_host_runs_without_a_job() -> None:
    stage = Stage(stays=True)
    await stage.steps()
    assert (len(stage.hosts.started), stage.state) == (1, SparkState.STARTING)
    stage.host.ready()
    await stage.steps()
    assert await stage.look() is SparkState.READY
    stage.host.tells = HostGone("it ended")
    await stage.steps()
    assert await stage.look() is SparkState.RESTARTING
    await stage.steps(after_s=PAUSES_S[0])
    assert len(stage.hosts.started) == 2
    idle = Stage()
    await idle.steps()
    assert idle.hosts.started == []


async def test_a_job_that_is_dropped_ends_and_leaves_no_report() -> None:
    stage = Stage()
    job_id = await stage.make_ready()
    await stage.steps()
    stage.service.drop(job_id)
    stage.service.drop("unknown")
    await stage.steps()
    assert stage.host.cancelled == [f"{job_id}.1"]
