"""The size limit of a lane's batches: the target topic's limit, or a smaller one for a while after a refusal.

If a target topic sets `compression.type`, its broker compresses each batch again. It then checks the size of the result
(Kafka's `UnifiedLog.append` checks again after `LogValidator`), and the lane cannot know that size in advance. So a
refused batch below the limit halves the limit, and batches that fit let the limit grow again. One odd batch lowers the
limit only for some batches. If nearly every batch is refused, more and more batches must fit before the lane tries a
larger one.
"""

from collections.abc import Mapping

DEFAULT_BYTES = 1_048_588
"""Kafka's default of `max.message.bytes`, in bytes."""
SIZE_CONFIGS = ("max.message.bytes", "segment.bytes")
"""The broker refuses a batch above the first limit with error code 10, and above the second with error code 18."""
_FIRST_NEEDED, _MOST_NEEDED = 32, 4096


def most_bytes(configs: Mapping[str, str]) -> int | None:
    """Return the largest batch in bytes that a topic's configs allow; None if they could not be read."""
    return min((int(configs[name]) for name in SIZE_CONFIGS if configs.get(name)), default=None)


class BatchLimit:
    """The limit of one lane, in bytes of a whole batch as sent; `configured`: the limit in the topic's configs."""

    def __init__(self, configured: int = DEFAULT_BYTES) -> None:
        self.configured = self.bytes = configured
        self._fitted, self._needed = 0, _FIRST_NEEDED
        self._widened = False

    def learn(self, configured: int) -> None:
        """Take the limit from the topic's configs; if it has not changed, keep the limit learned from refusals."""
        if configured != self.configured:
            self.configured = self.bytes = configured
            self._fitted, self._needed, self._widened = 0, _FIRST_NEEDED, False

    def refused(self, size_bytes: int) -> None:
        """Note a batch that was too large: lower the limit to `configured`, or to half of a batch within it."""
        if size_bytes > self.configured:
            self.bytes = min(self.bytes, self.configured)
            return
        self.bytes = max(1, min(self.bytes, size_bytes // 2))
        self._needed = min(2 * self._needed, _MOST_NEEDED) if self._widened else self._needed
        self._fitted, self._widened = 0, False

    def fitted(self, size_bytes: int) -> None:
        """Note a batch that was appended; after enough batches of about the limit's size, double the limit."""
        if not (self._widened or self.bytes < self.configured) or 2 * size_bytes < self.bytes:
            return
        self._fitted += 1
        if self._fitted < self._needed:
            return
        self._fitted = 0
        if self.bytes < self.configured:
            self.bytes, self._widened = min(2 * self.bytes, self.configured), True
        else:  # the limit of the topic's configs holds again
            self._needed, self._widened = _FIRST_NEEDED, False
