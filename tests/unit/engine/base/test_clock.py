"""The beat of a process: loops that pause to it wake together."""

import asyncio
from itertools import pairwise

import pytest

from engine.base import clock
from engine.base.clock import Beats, MachineClock, beat_s, pause


async def test_loops_that_began_at_different_instants_pause_to_one_beat() -> None:
    woken: list[float] = []

    async def look_around(after_s: float, every_s: float) -> None:
        await asyncio.sleep(after_s)
        for _ in range(3):
            await pause(beat_s(every_s))
            woken.append(asyncio.get_running_loop().time())

    async with asyncio.TaskGroup() as group:
        for number in range(7):
            group.create_task(look_around(0.1 * number, 1.0))
    wakes = sorted({round(at_s, 3) for at_s in woken})
    assert len(woken) == 21
    assert len(wakes) <= 4
    assert all(later - at_s == pytest.approx(1.0) for at_s, later in pairwise(wakes))


@pytest.mark.parametrize("late_s", [0.0, 0.001, 0.3, 0.74, 0.76, 0.999])
async def test_a_pause_is_never_a_moment_and_never_much_longer_than_the_interval(late_s: float) -> None:
    await pause(beat_s(1.0))
    await asyncio.sleep(late_s)
    assert 0.25 < beat_s(1.0) <= 1.25


@pytest.mark.parametrize(("work_s", "beats"), [(0.0, 1), (0.5, 1), (0.76, 1), (0.99, 1), (1.2, 2), (1.9, 2), (2.5, 3)])
async def test_work_leaves_out_only_the_beats_that_come_while_it_is_done(work_s: float, beats: int) -> None:
    loop, kept = asyncio.get_running_loop(), Beats(1.0)
    begun: list[float] = []
    for _ in range(8):
        await kept.wait()
        begun.append(loop.time())
        await asyncio.sleep(work_s)
    assert [later - at_s for at_s, later in pairwise(begun)] == pytest.approx([beats] * 7)


async def test_work_at_a_beat_wakes_with_the_others() -> None:
    await asyncio.sleep(0.3)
    kept, other_s = Beats(1.0), beat_s(1.0)
    began_s = asyncio.get_running_loop().time()
    await kept.wait()
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(other_s)


async def test_a_timer_that_fires_early_brings_no_beat_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, kept = asyncio.get_running_loop(), Beats(1.0)

    async def early(duration_s: float) -> None:
        await asyncio.sleep(duration_s - 0.001)

    monkeypatch.setattr(clock, "pause", early)
    await kept.wait()
    began_s = loop.time()
    await kept.wait()
    assert loop.time() - began_s == pytest.approx(1.0)


async def test_processes_have_beats_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    await pause(beat_s(1.0))
    monkeypatch.setattr(clock._clock, "phase", lambda: 0.5)
    assert beat_s(1.0) == pytest.approx(0.5, abs=0.001)
    assert beat_s(10.0) % 1.0 == pytest.approx(0.0, abs=0.001)
    assert 0.0 <= MachineClock().phase() < 1.0
