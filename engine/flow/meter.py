"""What one copier measures on the way: once a request or a batch, never once a record."""

from collections.abc import Callable, Iterable, Sequence

from engine.clock import now_s, wall_ms
from engine.core.outcome import Outcome, OutcomeKind
from engine.core.progress import TopicCount
from engine.core.tally import Tally

_APPENDED = OutcomeKind.APPENDED


class FlowMeter:
    """Counters of one flow in one copier: they grow for as long as it lives.

    `now_ms` is the Unix time of the latest answer from any broker, so that a batch need not ask the clock.
    """

    def __init__(self, wall: Callable[[], int] = wall_ms, clock: Callable[[], float] = now_s) -> None:
        self.append_latency = Tally()
        self.replication_latency = Tally()
        self.record_age = Tally()
        self.append_failures = 0
        self.now_ms = wall()
        self._wall, self._clock = wall, clock
        self._left: dict[str, TopicCount] = {}

    def sent(self) -> float:
        """Begin to measure a produce request; give what `answered` wants."""
        return self._clock()

    def answered(self, sent_s: float, outcomes: Sequence[Outcome]) -> None:
        """A produce request has its outcomes, which are about to be told."""
        self.now_ms = self._wall()
        appended = sum(1 for outcome in outcomes if outcome.kind is _APPENDED)
        self.append_failures += len(outcomes) - appended
        if appended:
            self.append_latency.add((self._clock() - sent_s) * 1000)

    def fetch_answered(self) -> int:
        """A fetch has its answer, which is about to be taken in; give the Unix time."""
        self.now_ms = self._wall()
        return self.now_ms

    def fetched(self, newest_ms: int, records: int) -> None:
        """Records of one partition arrived, the newest of them written at `newest_ms` (-1: without a timestamp)."""
        if records and newest_ms >= 0:
            self.record_age.add(self.now_ms - newest_ms, records)

    def copied(self, newest_ms: int, records: int) -> int:
        """A batch was acknowledged; give the milliseconds since its newest timestamp, times its records."""
        if newest_ms < 0:
            return 0
        latency_ms = max(0, self.now_ms - newest_ms)
        self.replication_latency.add(latency_ms, records)
        return latency_ms * records

    def leave(self, topic: str, records: int, wire_bytes: int, latency_ms: int) -> None:
        """Keep what a lane had counted that leaves this copier."""
        known = self._left.get(topic) or TopicCount(topic=topic, records=0, wire_bytes=0, latency_ms=0)
        self._left[topic] = known.plus(records, wire_bytes, latency_ms)

    @property
    def left(self) -> Iterable[TopicCount]:
        """What lanes that have left had counted, by topic."""
        return self._left.values()
