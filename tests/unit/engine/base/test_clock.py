"""The beat of a process: loops that pause to it wake together."""

import asyncio
from itertools import pairwise

import pytest

from engine.base import clock
from engine.base.clock import MachineClock, beat_s, pause


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


async def test_processes_have_beats_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    await pause(beat_s(1.0))
    monkeypatch.setattr(clock._clock, "phase", lambda: 0.5)
    assert beat_s(1.0) == pytest.approx(0.5, abs=0.001)
    assert beat_s(10.0) % 1.0 == pytest.approx(0.0, abs=0.001)
    assert 0.0 <= MachineClock().phase() < 1.0
