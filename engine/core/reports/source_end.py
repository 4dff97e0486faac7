"""Stores the end offset of a lane's source partition, and when a broker last reported it.

A lag is only as fresh as the source end that it is computed from. While no broker of the source answers, the end stays
at the last report and says nothing about now.
"""

END_LASTS_MS = 10_000
"""How long (ms) a reported end counts as known. A fetch reports the end twice a second; for lanes that are not fetched
raymirror asks the source after 4 s, then every second (`engine/flow/io/ends.py`). So an older end means that no broker
answers."""
UNREACHED_END_LASTS_MS = 2_000
"""The same (ms) if the broker that reports the end is unreachable: a lost source must not look like "caught up".
Raymirror then asks for the end every second, so the end stays known while a broker answers."""
_MISSES = 2
"""The number of requests in a row without an answer that also mean "not reached". One alone may hit a moved leader."""


def end_known(offset: int, age_ms: int, *, reached: bool = True) -> bool:
    """Return whether a source's end that was reported `age_ms` ago still counts as known.

    `reached`: whether the source broker that reports the end can be asked, as far as known.
    """
    return offset >= 0 and 0 <= age_ms <= (END_LASTS_MS if reached else UNREACHED_END_LASTS_MS)


class SourceEnd:
    """The end of one source partition: `offset`, the high watermark, and when it was reported (Unix ms); -1: never."""

    def __init__(self) -> None:
        self.offset = -1
        self.at_ms = -1
        self.reached = True
        """Whether the broker that reports the end is reachable, as far as known; outlives the copier."""
        self._in_doubt = False
        self._misses = 0

    def reported(self, offset: int, at_ms: int) -> None:
        """Take the end offset that a broker reported."""
        self.offset, self.at_ms, self._in_doubt = offset, at_ms, False
        self.reached, self._misses = True, 0

    def stands(self, at_ms: int) -> None:
        """Note that a broker answered and left out the partition: its end is unchanged (fetch sessions, KIP-227)."""
        if self.offset >= 0:
            self.at_ms = at_ms
            self.reached, self._misses = True, 0

    def lose(self) -> None:
        """Note a lost connection to the broker: it counts as not reached until it answers over another connection."""
        self.reached, self._in_doubt = False, True

    def miss(self) -> None:
        """Note a request for the end that got no answer."""
        self._misses += 1
        if self._misses >= _MISSES:
            self.lose()

    def doubt(self) -> None:
        """Note that a broker answered with an error: the end must be asked for, and the last report grows old."""
        self._in_doubt = True

    def age_ms(self, now_ms: int) -> int:
        """Return how many ms before `now_ms` (Unix time) the end was reported; -1: never."""
        return max(0, now_ms - self.at_ms) if self.at_ms >= 0 else -1

    def is_stale(self, now_ms: int, stale_ms: int) -> bool:
        """Return whether the end must be asked for: never reported, reported more than `stale_ms` ago, or in doubt."""
        return self._in_doubt or not 0 <= self.age_ms(now_ms) <= stale_ms
