"""Keeps a lane at five appends in flight for a while, after a target refused the order of a longer window.

Kafka's brokers take any number of a producer's batches in flight, if each sequence follows the last one. Other
implementations of the protocol may take five at most, and answer 45 (out of order) to the sixth. A broker of Kafka
answers 45 to a first try only if it lost what came before. The lane cannot know which of the two happened: so it reads
the log in any case, goes on with five, and tries more again after some acknowledged batches, each time later.
"""

_FIRST, _MOST = 1_000, 1_000_000
"""Acknowledged batches until the lane tries a longer window again: at first, and at most."""
_FORGIVEN = 10
"""After so many times as many batches in a longer window the next refusal costs half."""


class NarrowWindow:
    """Counts the batches until a longer window may be tried."""

    def __init__(self) -> None:
        self._left, self._next, self._good = 0, _FIRST, 0

    @property
    def is_on(self) -> bool:
        """Whether at most five batches may be in flight."""
        return self._left > 0

    def refused(self) -> None:
        """Note that a target answered 45 to the first try of a batch."""
        self._left, self._next, self._good = self._next, min(2 * self._next, _MOST), 0

    def acknowledged(self) -> None:
        """Note an acknowledged batch."""
        if self._left:
            self._left -= 1
        elif self._next > _FIRST:
            self._good += 1
            if self._good >= _FORGIVEN * self._next:
                self._next, self._good = self._next // 2, 0
