"""Where the source partition of a lane ends, and when a broker said so last: the one owner of both.

A lag is as old as the source's end that it is made of. While no broker of the source answers, the end stays the one
that was heard last, and says nothing about now.
"""

END_LASTS_MS = 10_000
"""How long an end that was heard counts as known. A lane that is fetched hears its end twice a second, any other one is
asked about after 4 s, every second (`engine/flow/ends.py`): so an older one means that nobody answers."""
UNREACHED_END_LASTS_MS = 2_000
"""How long it counts as known where the broker that would tell cannot be reached: a source that is gone must not read
as "nothing is behind". Its end is asked for every second then, so one that answers is known all the time."""
_MISSES = 2
"""Questions in a row without an answer that say so too: one alone may have met a leader that moved."""


def end_known(offset: int, age_ms: int, *, reached: bool = True) -> bool:
    """Say whether a source's end that was heard so long ago (ms) is still taken for known.

    `reached`: whether the source broker that would say otherwise can be asked, as far as one knows.
    """
    return offset >= 0 and 0 <= age_ms <= (END_LASTS_MS if reached else UNREACHED_END_LASTS_MS)


class SourceEnd:
    """The end of one source partition: `offset`, the high watermark, and when it was heard (Unix ms); -1 never."""

    def __init__(self) -> None:
        self.offset = -1
        self.at_ms = -1
        self.reached = True
        """Whether the broker that tells can be asked, as far as one knows. A copier that ends leaves it as it was."""
        self._in_doubt = False
        self._misses = 0

    def told(self, offset: int, at_ms: int) -> None:
        """A broker has said where the partition ends."""
        self.offset, self.at_ms, self._in_doubt = offset, at_ms, False
        self.reached, self._misses = True, 0

    def stands(self, at_ms: int) -> None:
        """A broker has answered for the partition and left it out: nothing changed (fetch sessions, KIP-227)."""
        if self.offset >= 0:
            self.at_ms = at_ms
            self.reached, self._misses = True, 0

    def lose(self) -> None:
        """The connection to the broker is lost: it is to be asked over another one, and until then is not reached."""
        self.reached, self._in_doubt = False, True

    def miss(self) -> None:
        """The end was asked for, and did not come."""
        self._misses += 1
        if self._misses >= _MISSES:
            self.lose()

    def doubt(self) -> None:
        """A broker has answered with an error: it is to be asked, and what was heard before grows old."""
        self._in_doubt = True

    def age_ms(self, now_ms: int) -> int:
        """Say how long ago it was heard, at an instant of Unix time; -1 where it never was."""
        return max(0, now_ms - self.at_ms) if self.at_ms >= 0 else -1

    def is_stale(self, now_ms: int, stale_ms: int) -> bool:
        """Say whether it is to be asked for: never heard, heard longer ago than `stale_ms`, or in doubt."""
        return self._in_doubt or not 0 <= self.age_ms(now_ms) <= stale_ms
