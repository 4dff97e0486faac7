"""Virtual time: it jumps to the next timer, waits for threads, and fails if nothing can come."""

import asyncio
import socket
import subprocess
import sys
import threading
import time

import pytest
import ray

from engine.base.clock import now_s, pause, wall_ms
from tests.harness import virtual_time
from tests.harness.outside import Outside
from tests.harness.virtual_time import Stuck

DAY_S = 86_400.0


async def test_timers_come_in_their_order_and_at_their_time() -> None:
    came: list[tuple[str, float]] = []
    began_s = now_s()

    async def wait(name: str, duration_s: float) -> None:
        await pause(duration_s)
        came.append((name, round(now_s() - began_s, 3)))

    async with asyncio.TaskGroup() as group:
        for name, duration_s in (("last", 2 * DAY_S), ("first", 0.5), ("second", DAY_S)):
            group.create_task(wait(name, duration_s))
    assert came == [("first", 0.5), ("second", DAY_S), ("last", 2 * DAY_S)]


async def test_all_clocks_are_one() -> None:
    loop = asyncio.get_running_loop()
    before = loop.time(), now_s(), wall_ms() / 1000
    await pause(DAY_S)
    after = loop.time(), now_s(), wall_ms() / 1000
    assert [end - begin for begin, end in zip(before, after, strict=True)] == pytest.approx([DAY_S] * 3, abs=0.01)


async def test_work_takes_no_time_and_a_deadline_is_met_exactly() -> None:
    async with asyncio.timeout(0.001):
        for _ in range(1000):
            await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(DAY_S):
            await pause(DAY_S + 1)


async def test_a_look_at_the_clock_takes_a_moment() -> None:
    assert now_s() < now_s()


async def test_a_thread_at_work_is_not_jumped_over() -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert go.wait(60)
        return "done"

    async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
        working = group.create_task(asyncio.to_thread(work))
        while not begun.is_set():
            await pause(0.001)
        await pause(0.01)  # timers come meanwhile, when it is their time
        assert not working.done()
        go.set()
        assert await working == "done"
    before_s = now_s()
    await pause(DAY_S)  # nobody is out any more
    assert now_s() - before_s == pytest.approx(DAY_S, abs=0.01)


async def test_a_thread_that_nobody_awaits_any_more_is_still_waited_for() -> None:
    begun, go = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go.wait(60)

    task = asyncio.get_running_loop().create_task(asyncio.to_thread(work))
    while not begun.is_set():
        await pause(0.001)
    task.cancel()
    before_s, real_s = now_s(), time.monotonic()
    await pause(0.05)
    assert time.monotonic() - real_s > 0.04
    assert now_s() - before_s >= 0.05
    go.set()


async def test_work_of_a_thread_that_fails_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 // 0)


def test_whoever_waits_for_nothing_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "STRANGERS_S", 0.1)  # threads that other tests left may run beside

    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match=r"nothing is ready, no timer is set.*wait"):
        asyncio.run(wait())


def test_whoever_spins_for_what_only_time_can_bring_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "MOST_TURNS", 500)

    async def spin() -> None:
        until_s = asyncio.get_running_loop().time() + 1
        while asyncio.get_running_loop().time() < until_s:  # noqa: ASYNC110 - that is what is wrong with it
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="who spins"):
        asyncio.run(spin())


def test_a_thread_that_the_loop_has_not_started_may_still_speak() -> None:
    async def wait() -> str:
        loop = asyncio.get_running_loop()
        said: asyncio.Future[str] = loop.create_future()
        speak = threading.Timer(0.05, lambda: loop.call_soon_threadsafe(said.set_result, "here"))
        speak.start()
        return await said

    assert asyncio.run(wait()) == "here"


@pytest.mark.local
async def test_time_is_real_where_a_test_says_so() -> None:
    assert not isinstance(asyncio.get_running_loop(), virtual_time.VirtualLoop)
    began_s = time.monotonic()
    await pause(0.05)
    assert time.monotonic() - began_s > 0.04


async def test_a_unit_test_has_no_sockets() -> None:
    with socket.socket() as one, pytest.raises(Outside, match="local"):
        one.bind(("127.0.0.1", 0))
    with socket.socket() as one, pytest.raises(Outside, match="local"):
        one.connect(("127.0.0.1", 1))


def test_a_unit_test_starts_no_process() -> None:
    with pytest.raises(Outside, match="local"):
        subprocess.run([sys.executable, "-c", ""], check=True)


def test_a_unit_test_starts_no_ray() -> None:
    with pytest.raises(Outside):
        ray.init(num_cpus=1, include_dashboard=False)
