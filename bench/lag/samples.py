"""Sends samples of lanes with a known lag, as copiers do: `python -m bench.lag.samples`."""

import asyncio
import sys
import time
from collections.abc import Iterator

from aiokafka import AIOKafkaProducer

from bench.errors import BenchError
from engine.core.reports.latency import BOUNDS_MS
from engine.core.reports.progress_sample import (
    FORMAT_VERSION,
    LANES_A_RECORD,
    CopierSample,
    LaneSample,
    ProgressSample,
    encode_sample,
    progress_topic,
)
from engine.jobs.lag.options import LagOptions
from policies.model import FlowName

COPIERS = 4
LATE_S = LagOptions(flow=FlowName("", "")).watermark_s
RATE = 100
"""Records that a lane receives each second."""
_PERIOD_S = 120
_COUNTS = (0, 0, RATE, *(0,) * (len(BOUNDS_MS) - 2))


def lag_of(lane: int, at_s: int) -> int:
    """Return the lag of a lane at a second of Unix time: it grows for a minute, and drains in the next."""
    phase = (at_s + lane) % _PERIOD_S
    return RATE * min(phase, _PERIOD_S - phase)


def copied_until(lane: int, at_s: int) -> int:
    """Return how many records of a lane were copied at a second of Unix time."""
    return RATE * at_s - lag_of(lane, at_s)


def records_at(flow: str, lanes: int, at_s: int, every_s: int) -> Iterator[bytes]:
    """Make the samples of all copiers at a second of Unix time."""
    for copier in range(COPIERS):
        own = range(copier, lanes, COPIERS)
        for first in range(0, len(own), LANES_A_RECORD):
            some = tuple(_lane(lane, at_s, every_s) for lane in own[first : first + LANES_A_RECORD])
            yield encode_sample(
                ProgressSample(
                    format=FORMAT_VERSION,
                    flow=flow,
                    copier=f"copier-{copier}",
                    at_ms=at_s * 1000,
                    span_ms=every_s * 1000,
                    lanes=some,
                    all=CopierSample(lanes=len(own), append_ms=_COUNTS, copied_ms=_COUNTS) if first == 0 else None,
                )
            )


def _lane(lane: int, at_s: int, every_s: int) -> LaneSample:
    lag, position = lag_of(lane, at_s), copied_until(lane, at_s)
    records = position - copied_until(lane, at_s - every_s)
    return LaneSample(
        topic=f"topic-{lane // 10}",
        partition=lane % 10,
        state="copying",
        set_id=f"set-{lane % 50}",
        position=position,
        source_end=position + lag,
        lag_bytes=lag * 1000,
        lag_ms=lag * 1000 // RATE,
        newest_ms=at_s * 1000,
        span_ms=every_s * 1000,
        records=records,
        wire_bytes=records * 1000,
        latency_ms=records * 10,
    )


async def tell(servers: str, source: str, lanes: int, every_s: int, from_s: int, until_s: int) -> None:
    """Write samples at every multiple of `every_s` in a range of Unix time, each when it is due.

    Raises BenchError if the broker took one so late that it would have the broker's time: a copier tries only once.
    """
    producer = AIOKafkaProducer(bootstrap_servers=servers, compression_type="gzip", max_request_size=4 << 20)
    await producer.start()
    try:
        for at_s in range(from_s, until_s, every_s):
            made = list(records_at(f"{source}->target", lanes, at_s, every_s))
            await asyncio.sleep(max(0.0, at_s - time.time()))
            for value in made:
                await producer.send(progress_topic(source), value, partition=0)
            await producer.flush()
            if (late_s := time.time() - at_s) > LATE_S:
                raise BenchError("lag", f"a sample was taken {late_s:.1f} s after it was due: this machine is too slow")
    finally:
        await producer.stop()


def main() -> None:
    """Send the samples that the arguments describe."""
    servers, source, *numbers = sys.argv[1:]
    try:
        asyncio.run(tell(servers, source, *map(int, numbers)))
    except BenchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
