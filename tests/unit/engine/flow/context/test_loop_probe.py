"""How late the loop runs what is due."""

import asyncio

from engine.base.clock import pause
from engine.core.reports.latency import BOUNDS_MS, LatencyHistogram
from engine.flow.context.loop_probe import EVERY_S, LoopProbe
from tests.harness.virtual_time import VirtualLoop


async def test_a_loop_that_waits_is_never_late() -> None:
    late = LatencyHistogram()
    probe = LoopProbe(late)
    for _ in range(3):
        probe.sample()
        await pause(2 * EVERY_S)
    found = late.snapshot()
    assert (found.count, found.counts[0]) == (3, 3)


async def test_records_that_arrive_before_the_sample_share_it_and_none_follows_without_records() -> None:
    late = LatencyHistogram()
    probe = LoopProbe(late)
    probe.sample()
    probe.sample()
    await pause(EVERY_S / 2)
    probe.sample()
    await pause(100 * EVERY_S)
    assert late.snapshot().count == 1


async def test_a_callback_that_takes_long_shows_as_the_time_that_it_holds_up_others() -> None:
    late = LatencyHistogram()
    LoopProbe(late).sample()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.clock.advance(EVERY_S + 0.04)  # a callback of 40 ms more than the probe's interval
    await pause(EVERY_S)
    assert dict(zip(BOUNDS_MS, late.snapshot().counts, strict=False))[50.0] == 1
    assert 39 < late.snapshot().sum_ms < 41
