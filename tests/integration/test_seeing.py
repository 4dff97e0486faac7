"""A copier's report on real partitions: lag, latencies, and why one makes no progress."""

import asyncio
import os
import signal
import time

import pytest

from engine.core.events.events import HeldByTransaction
from engine.core.reports.progress import LaneProgress
from tests.harness.load import append, numbered, produce, producer
from tests.harness.mirror import Mirror, Run

pytestmark = pytest.mark.integration


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def lag_s(lane: LaneProgress) -> float:
    return lane.lag_ms(now_ms()) / 1000


async def pause(run: Run, topic: str) -> None:
    """Pause, and wait until no fetch is under way any more: one that waits at the broker would bring what comes."""
    run.copier.pause(None)
    await run.until(lambda: run.copier.router.pool.used_bytes == 0, "no fetch is under way")
    assert run.lane(topic).state == "paused"


async def caught_up(run: Run, topic: str) -> None:
    await run.until_copied(topic)
    await run.until(lambda: at_rest(run.lane(topic)), "nothing is behind, and nothing is wrong")


def at_rest(lane: LaneProgress) -> bool:
    return lane.lag_ms(now_ms()) == 0 and lane.reason == ""


async def test_lag_latency_and_reason_of_a_paused_lane(mirror: Mirror) -> None:
    await mirror.topic("seen")
    began_ms = now_ms()
    await produce(mirror.source, "seen", 0, numbered(2000, size_bytes=100))
    async with mirror.run() as run:
        await caught_up(run, "seen")
        seen, whole = run.lane("seen"), run.progress()
        assert (seen.lag_records, seen.lag_bytes) == (0, 0)
        assert began_ms <= seen.newest_ms <= seen.appended_at_ms <= now_ms()
        assert whole.replication_latency.count == 2000
        assert whole.record_age.count >= 2000
        assert whole.append_latency.count >= 1
        assert seen.latency_ms <= 2000 * (now_ms() - began_ms)
        assert whole.replication_latency.sum_ms >= whole.record_age.sum_ms * 0.5 > 0

        await pause(run, "seen")
        await produce(mirror.source, "seen", 0, numbered(1000, first=2000, size_bytes=100))
        produced_ms = now_ms()
        await run.until(lambda: run.lane("seen").lag_records == 1000, "a paused lane learns of the source's end")
        paused = run.lane("seen")
        assert paused.reason == "paused"
        assert 0.3 < paused.lag_bytes / (seen.wire_bytes / 2) < 3.0
        assert paused.behind_since_ms <= produced_ms
        assert lag_s(paused) > 0.0
        run.copier.resume(None)
        await caught_up(run, "seen")


async def test_the_first_record_after_a_quiet_time_is_as_old_as_it_is(mirror: Mirror) -> None:
    await mirror.topic("quiet")
    day_ms = 86_400_000
    old = [one._replace(timestamp_ms=now_ms() - 2 * day_ms) for one in numbered(10)]
    await produce(mirror.source, "quiet", 0, old)
    async with mirror.run() as run:
        await caught_up(run, "quiet")
        await pause(run, "quiet")
        await produce(mirror.source, "quiet", 0, [one._replace(timestamp_ms=now_ms() - day_ms) for one in numbered(5)])
        await run.until(lambda: run.lane("quiet").lag_records == 5, "the end is known")
        assert lag_s(run.lane("quiet")) < 120.0  # since it last had everything, whatever the records' own time
        run.copier.resume(None)
        await caught_up(run, "quiet")


async def test_an_open_transaction_is_the_reason_and_the_lag_grows(mirror: Mirror) -> None:
    await mirror.topic("held")
    await produce(mirror.source, "held", 0, numbered(10))
    async with mirror.run() as run, producer(mirror.source, transactional_id="held") as client:
        await caught_up(run, "held")
        await client.begin_transaction()
        await append(client, "held", 0, numbered(10, first=10))
        await run.until_told(HeldByTransaction, "held")
        await run.until(lambda: "open transaction" in run.lane("held").reason, "the reason is told")
        await run.until(lambda: run.lane("held").lag_records == 10, "the end is known")
        before_s = lag_s(run.lane("held"))
        await asyncio.sleep(0.5)
        assert lag_s(run.lane("held")) > before_s
        await client.commit_transaction()
        await caught_up(run, "held")


def waits_for_the_target(lane: LaneProgress) -> bool:
    known = "broker 1" in lane.reason or "its position is durable" in lane.reason
    return known and lane.lag_records == 50 and lag_s(lane) > 1.0


@pytest.mark.fault
async def test_a_target_that_is_away_is_the_reason_and_the_lag_grows(mirror: Mirror) -> None:
    await mirror.topic("away")
    await produce(mirror.source, "away", 0, numbered(10))
    async with mirror.run() as run:
        await caught_up(run, "away")
        pid = mirror.target.brokers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await produce(mirror.source, "away", 0, numbered(50, first=10))
            await run.until(lambda: bool(run.lane("away").reason), "a reason is told")
            await run.until(lambda: waits_for_the_target(run.lane("away")), "it is the target, the lag grows")
        finally:
            os.kill(pid, signal.SIGCONT)
        await caught_up(run, "away")


@pytest.mark.fault
async def test_the_lag_of_a_source_that_is_silent_is_unknown_until_it_answers_again(mirror: Mirror) -> None:
    await mirror.topic("silent", 2)
    await produce(mirror.source, "silent", 0, numbered(10))
    async with mirror.run() as run:
        await caught_up(run, "silent")
        await run.until(lambda: all(lane.lag_known for lane in run.progress().lanes), "every lag is known")
        pid = mirror.source.brokers[0].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await run.until(
                lambda: not any(lane.lag_known for lane in run.progress().lanes),
                "the lag of every partition is unknown",
                deadline_s=60.0,
            )
            seen = run.lane("silent")
            assert (seen.lag_ms(now_ms()), seen.lag_records) == (-1, -1)
            assert (seen.source_next, seen.source_end) == (10, 10)  # what was heard last is kept
        finally:
            os.kill(pid, signal.SIGCONT)
        await run.until(lambda: all(lane.lag_known for lane in run.progress().lanes), "every lag is known again")
        await produce(mirror.source, "silent", 0, numbered(10, first=10))
        await caught_up(run, "silent")
        assert run.lane("silent").source_next == 20
