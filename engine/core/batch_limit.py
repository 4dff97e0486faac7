"""How large a lane's batches may be: what the target's topic says, or less for a while where that was too much.

A target topic that compresses anew (`compression.type`) judges the size that its broker makes of a batch (Kafka's
`UnifiedLog.append` looks again behind `LogValidator`), which nobody knows before. So a refused batch below the limit
halves what is taken to fit, and batches that fit let it grow again: one odd batch narrows the lane for some batches
only, and where nearly every batch is refused, ever more must fit before a larger one is tried.
"""

from collections.abc import Mapping

DEFAULT_BYTES = 1_048_588
"""Kafka's default of `max.message.bytes`."""
SIZE_CONFIGS = ("max.message.bytes", "segment.bytes")
"""A batch above the one is refused with 10, above the other with 18."""
_FIRST_NEEDED, _MOST_NEEDED = 32, 4096


def most_bytes(configs: Mapping[str, str]) -> int | None:
    """Return how large a batch may be by a topic's configs; None where they were not to be read."""
    return min((int(configs[name]) for name in SIZE_CONFIGS if configs.get(name)), default=None)


class BatchLimit:
    """The limit of one lane, in bytes of a whole batch as it is sent."""

    def __init__(self, told: int = DEFAULT_BYTES) -> None:
        self.told = self.bytes = told
        self._fitted, self._needed = 0, _FIRST_NEEDED
        self._widened = False

    def learn(self, told: int) -> None:
        """Take what the topic's configs say; what was found out beside the same value stays."""
        if told != self.told:
            self.told = self.bytes = told
            self._fitted, self._needed, self._widened = 0, _FIRST_NEEDED, False

    def refused(self, size_bytes: int) -> None:
        """Note a batch that was too large: to be made as small as is told, or half as large where it was so already."""
        if size_bytes > self.told:
            self.bytes = min(self.bytes, self.told)
            return
        self.bytes = max(1, min(self.bytes, size_bytes // 2))
        self._needed = min(2 * self._needed, _MOST_NEEDED) if self._widened else self._needed
        self._fitted, self._widened = 0, False

    def fitted(self, size_bytes: int) -> None:
        """Note a batch that was taken; after enough of about the limit's size it is doubled."""
        if not (self._widened or self.bytes < self.told) or 2 * size_bytes < self.bytes:
            return
        self._fitted += 1
        if self._fitted < self._needed:
            return
        self._fitted = 0
        if self.bytes < self.told:
            self.bytes, self._widened = min(2 * self.bytes, self.told), True
        else:  # what the topic says holds again
            self._needed, self._widened = _FIRST_NEEDED, False
