"""A token bucket: holds a stream of bytes to a rate, with bursts of at most one second. Pure: the caller has the clock.

Bytes are known only when they have arrived, so a fetch may take more than the bucket holds. The bucket then is in debt,
and nothing is fetched until the debt is paid. So the average is exact, whatever the sizes of answers.
"""

_BURST_S = 1.0
_LEAST_S = 0.05
"""A fetch waits for the bytes of this many seconds: fetches of a few bytes each would cost more than they bring."""
_LEAST_BYTES = 512 * 1024
"""... but for no more bytes than these."""


class TokenBucket:
    """`bytes_per_s` on average. It begins full of one fetch, not of one second: a new copier begins without a burst."""

    def __init__(self, bytes_per_s: int, now_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._at_s = now_s
        self._level = self._least

    @property
    def _least(self) -> float:
        return min(self.bytes_per_s * _LEAST_S, _LEAST_BYTES)

    def limit(self, bytes_per_s: int, now_s: float) -> None:
        """Hold to another rate from now on; a debt stays, and is paid at the new rate."""
        self._fill(now_s)
        self.bytes_per_s = bytes_per_s
        self._level = min(self._level, bytes_per_s * _BURST_S)

    def take(self, size: int, now_s: float) -> None:
        """Note that `size` bytes have arrived, or will arrive; a negative size gives back what did not."""
        self._fill(now_s)
        self._level = min(self._level - size, self.bytes_per_s * _BURST_S)

    def room(self, now_s: float) -> int:
        """Return how many bytes may be fetched now; 0: wait."""
        self._fill(now_s)
        return max(1, int(self._level)) if self.wait_s(now_s) == 0.0 else 0

    def wait_s(self, now_s: float) -> float:
        """Return for how many seconds nothing may be fetched."""
        self._fill(now_s)
        lacking = self._least - self._level
        return max(0.0, lacking / self.bytes_per_s) if lacking > 1e-6 else 0.0

    def _fill(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._at_s)
        self._at_s = max(self._at_s, now_s)
        self._level = min(self._level + passed_s * self.bytes_per_s, self.bytes_per_s * _BURST_S)
