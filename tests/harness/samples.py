"""A simulated copier whose lag is known at every second, as progress samples."""

from collections.abc import Iterable, Iterator

import msgspec

from engine.core.reports.latency import BOUNDS_MS
from engine.core.reports.progress_sample import FORMAT_VERSION, CopierSample, LaneSample, ProgressSample, encode_sample

BUCKETS = len(BOUNDS_MS) + 1


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """One lane: records that are produced and copied in each second, from `start_ms` on; it stands still in some."""

    topic: str
    partition: int
    start_ms: int
    produced: tuple[int, ...]
    copied: tuple[int, ...]
    still: frozenset[int] = frozenset()

    def lag(self, second: int) -> int:
        """Records that are not copied at the end of so many seconds."""
        return sum(self.produced[:second]) - sum(self.copied[:second])

    def lag_ms(self, second: int) -> int:
        """Age of the oldest of them: each second's records are produced at its beginning, and copied in order."""
        copied, produced = sum(self.copied[:second]), 0
        for at, records in enumerate(self.produced[:second]):
            produced += records
            if produced > copied:
                return 1000 * (second - at)
        return 0

    def sample(self, second: int, every_s: int) -> LaneSample:
        """What its copier tells at the end of so many seconds."""
        records = sum(self.copied[max(0, second - every_s) : second])
        return LaneSample(
            topic=self.topic,
            partition=self.partition,
            state="copying",
            reason="waits for a fetch from source broker 1" if second in self.still else "",
            position=sum(self.copied[:second]),
            source_end=sum(self.produced[:second]),
            lag_bytes=100 * self.lag(second),
            lag_ms=self.lag_ms(second),
            newest_ms=self.start_ms,
            span_ms=1000 * every_s,
            records=records,
            wire_bytes=100 * records,
            latency_ms=7 * records,
        )


def told(
    truths: Iterable[Truth], *, every_s: int, flow: str = "A->B", copier: str = "copier-1", clock_off_ms: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Give instant (Unix ms) and value of each record, in order: all lanes each `every_s` seconds."""
    lanes = list(truths)
    seconds = len(lanes[0].produced)
    for second in range(every_s, seconds + 1, every_s):
        at_ms = lanes[0].start_ms + 1000 * second
        samples = tuple(lane.sample(second, every_s) for lane in lanes)
        records = sum(one.records for one in samples)
        counts = (0, 0, records, *(0,) * (BUCKETS - 3))
        yield (
            at_ms,
            encode_sample(
                ProgressSample(
                    format=FORMAT_VERSION,
                    flow=flow,
                    copier=copier,
                    at_ms=at_ms + clock_off_ms,
                    span_ms=1000 * every_s,
                    lanes=samples,
                    all=CopierSample(
                        lanes=len(lanes),
                        records=records,
                        wire_bytes=100 * records,
                        append_ms=(second, *(0,) * (BUCKETS - 1)),
                        copied_ms=counts if records else (),
                        dropped=2,
                    ),
                )
            ),
        )
