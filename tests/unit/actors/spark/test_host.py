"""The Spark host around a fake session: it answers whatever the session does."""

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.config import config_ref
from actors.model.spark_status import HostSpec, HostStatus
from actors.spark import host as host_module
from actors.spark.host import SparkHostActor
from actors.spark.session import SessionOptions, java_sizes, placement
from actors.spark.sizing import Sized
from deploy.local.errors import ClusterError
from engine.config.settings import SparkConfig
from engine.jobs.runtime.runner import JobState
from engine.jobs.runtime.storage_check import StorageUnusable
from tests.harness.eventually import until_equal
from tests.unit.engine.config_files import BASE


class FakeContext:
    _gateway = None

    def setJobGroup(self, group: str, name: str, interruptOnCancel: bool) -> None:
        pass

    def setLocalProperty(self, key: str, value: str) -> None:
        pass


class FakeSpark:
    sparkContext = FakeContext()


class FakeSession:
    """A session that has as many executors as a test says, or raises."""

    def __init__(self) -> None:
        self.spark: Any = FakeSpark()
        self.node = "f00"
        self.has: int | Exception = 0
        self.wanted: list[int] = []
        self.leaving = ""
        self.unsettled = False
        self.closed = False
        self.opening = threading.Event()
        self.opening.set()
        self.refuses: Exception | None = None
        self.options: SessionOptions | None = None

    def open(self, options: SessionOptions) -> "FakeSession":
        self.opening.wait()
        self.options = options
        if self.refuses is not None:
            raise self.refuses
        return self

    def executors(self) -> int:
        if isinstance(self.has, Exception):
            raise self.has
        return self.has

    def resize(self, wanted: int) -> Sized:
        self.wanted.append(wanted)
        return Sized(f"{self.has} are there", self.leaving, self.unsettled)

    def close(self) -> None:
        self.closed = True


class Stage:
    def __init__(self, folder: Path) -> None:
        path = folder / "mm2.properties"
        path.write_text(BASE + "raymirror.spark = on\nraymirror.spark.executors = 3\n")
        spec = HostSpec(config=config_ref.refer(path), namespace="raymirror-t", name="raymirror-t-1", one_node=False)
        self.session = FakeSession()
        self._spec = msgspec.msgpack.encode(spec)

    def start(self) -> SparkHostActor:
        self.host = SparkHostActor(self._spec, self.session.open)
        return self.host

    async def status(self) -> HostStatus:
        return msgspec.msgpack.decode(await self.host.status(), type=HostStatus)

    async def state(self) -> str:
        return (await self.status()).state

    async def reason(self) -> str:
        return (await self.status()).reason

    async def last_wanted(self) -> int:
        return self.session.wanted[-1] if self.session.wanted else 0


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(host_module, "LOOK_S", 0.01)
    return Stage(tmp_path)


async def test_it_answers_while_its_session_opens_and_says_what_it_waits_for(stage: Stage) -> None:
    stage.session.opening.clear()
    host = stage.start()
    assert await stage.status() == HostStatus(state="starting")
    with pytest.raises(RuntimeError, match="not ready"):
        await host.submit("1", "probe", b"")
    stage.session.opening.set()

    await until_equal(stage.reason, "0 are there")
    stage.session.has = 1
    await until_equal(stage.state, "ready")
    told = await stage.status()
    assert (told.executors, told.reason, told.node) == (1, "", "f00")
    assert stage.session.options is not None
    assert stage.session.options.config.executors == 3
    await host.close()
    assert stage.session.closed


async def test_what_is_missing_is_a_refusal_and_anything_else_an_end(stage: Stage) -> None:
    stage.session.refuses = ClusterError("no Java 17 to 21", "no java on PATH")
    stage.start()
    await until_equal(stage.state, "broken")
    told = await stage.status()
    assert (told.refused, told.reason) == (True, "Spark did not start: ClusterError: no Java 17 to 21: no java on PATH")
    stage.session.refuses = RuntimeError("py4j")
    stage.start()
    await until_equal(stage.state, "broken")
    assert not (await stage.status()).refused


async def test_a_session_that_breaks_is_told_and_jobs_are_still_looked_at(stage: Stage) -> None:
    stage.session.has = 1
    host = stage.start()
    await until_equal(stage.state, "ready")
    await host.submit("1", "probe", msgspec.msgpack.encode({}))

    async def failed() -> list[JobState]:
        return [line.state for line in (await stage.status()).jobs]

    await until_equal(failed, [JobState.FAILED])  # this session cannot run anything
    assert await host.report("1") is None
    await host.cancel("1")
    stage.session.has = ConnectionRefusedError("JVM is gone")
    await until_equal(stage.state, "broken")
    assert "the Spark session is broken: ConnectionRefusedError: JVM is gone" in (await stage.status()).reason


async def test_a_job_that_fails_with_its_session_has_not_failed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.session.has = 1
    host = stage.start()
    await until_equal(stage.state, "ready")
    monkeypatch.setattr(host_module, "LOOK_S", 0.5)
    stage.session.has = ConnectionRefusedError("JVM is gone")
    await host.submit("1", "probe", msgspec.msgpack.encode({}))

    seen: set[JobState] = set()

    async def broken() -> bool:
        status = await stage.status()
        seen.update(line.state for line in status.jobs)
        return status.state == "broken"

    await until_equal(broken, True)
    assert seen == {JobState.RUNNING}, "the next host runs it again"


async def test_executors_that_stay_away_are_an_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.session.has = 1
    stage.start()
    await until_equal(stage.state, "ready")
    monkeypatch.setattr(host_module, "EXECUTORS_S", 0.05)
    stage.session.has = 0
    await until_equal(stage.state, "broken")
    assert "no executor is left" in (await stage.status()).reason


async def test_a_large_job_gets_all_executors_and_they_end_after_it(stage: Stage) -> None:
    stage.session.has = 1
    host = stage.start()
    await until_equal(stage.state, "ready")
    assert await stage.last_wanted() == 1
    with host._share.large_job():
        await until_equal(stage.last_wanted, 3)
        await until_equal(stage.reason, "1 are there")
        stage.session.has = 3
        await until_equal(stage.reason, "")
        assert (host._share.cores, (await stage.status()).executors) == (3, 3)
    await until_equal(stage.last_wanted, 1)


async def test_a_resize_that_hangs_or_fails_delays_no_check(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    away, calls = threading.Event(), list[int]()

    def resize(wanted: int) -> Sized:
        calls.append(wanted)
        away.wait()
        raise ConnectionError("the control store is away")

    monkeypatch.setattr(stage.session, "resize", resize)
    stage.start()
    stage.session.has = 0  # so that it is looked at often
    await until_equal(stage.state, "starting")
    stage.session.has = 1
    await until_equal(stage.state, "ready")
    assert calls == [1], "one at a time"
    stage.session.has = 0
    away.set()

    async def tried_again() -> bool:
        return len(calls) > 2

    await until_equal(tried_again, True)
    assert await stage.state() == "ready"


async def test_while_executors_change_it_looks_often(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "REST_LOOKS", 10_000_000)
    stage.session.has, stage.session.unsettled = 1, True
    stage.start()

    async def resized_often() -> bool:
        return len(stage.session.wanted) > 5

    await until_equal(resized_often, True)


async def test_where_a_master_has_to_leave_its_node_the_host_ends(stage: Stage) -> None:
    stage.session.has, stage.session.leaving = 1, "f01"
    stage.start()
    await until_equal(stage.state, "broken")
    told = await stage.status()
    assert (told.reason, told.refused) == ("its node f01 is being drained", False)


def test_only_executors_have_javas_second_compiler() -> None:
    sizes = java_sizes(SparkConfig(on=True))
    assert {name for name, options in sizes.items() if "TieredStopAtLevel=1" in options} == {
        "spark.driver.extraJavaOptions",
        "spark.ray.raydp_app_master.extraJavaOptions",
    }
    assert all(options.startswith("-XX:+IgnoreUnrecognizedVMOptions --add-opens") for options in sizes.values())
    assert sizes["spark.executor.extraJavaOptions"].endswith(" -XX:+UseSerialGC -Xmn64m")
    large = java_sizes(SparkConfig(on=True, cores=8))["spark.executor.extraJavaOptions"]
    assert "Serial" not in large


def test_everything_of_rays_goes_where_java_is_and_executors_to_a_named_node() -> None:
    anywhere = placement("")
    assert anywhere["spark.ray.raydp_spark_executor.actor.resource.raymirror_java"] == "0.001"
    assert anywhere["spark.ray.raydp_spark_master.actor.resource.raymirror_java"] == "0.001"
    assert anywhere["spark.ray.raydp_spark_master.actor.resource.CPU"] == "0"
    there = placement("10.0.0.7")
    assert there.items() - anywhere.items() == {
        ("spark.ray.raydp_spark_executor.actor.resource.node:10.0.0.7", "0.001")
    }


def test_only_what_waiting_cannot_help_is_a_refusal() -> None:
    assert host_module._is_refusal(StorageUnusable("s3a://b", "no such bucket", "create it", False))
    assert not host_module._is_refusal(StorageUnusable("s3a://b", "no answer", "see that it runs", True))
    assert not host_module._is_refusal(RuntimeError("the JVM ended"))
