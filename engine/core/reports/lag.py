"""Measures how far a lane is behind, in seconds and in bytes, from facts that its driver has anyway.

Lag in seconds is the age of the oldest record that the source has and the target does not. That age cannot be read
directly. These facts bound it:

- the first record of the lane's queue has a timestamp. If the queue is empty, the last copied record has one, and the
  next record came after it. For a lane that has copied nothing yet and is not fetched, raymirror asks the source for
  the timestamp of the next record (`engine/flow/io/ends.py`);
- at the instant when the lane had last caught up, every record was copied: so no uncopied record is older. That
  corrects records written late with old timestamps, and the first record after a quiet day;
- the lane has been behind since its last acknowledgement at the latest, or since this copier got it. That corrects
  timestamps from the future, and it is the answer if no timestamp is known.
"""

_FADING = 0.9
"""The weight of the old measurements at each new one: about ten snapshots count."""


class LagWatch:
    """The measurements of a lane's driver for its lag; times are Unix ms, -1: never."""

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.caught_up_ms = -1
        self.appended_at_ms = -1
        self._dated = (-1, -1, -1)
        self._seen = (0, 0)
        self._bytes = 0.0
        self._offsets = 0.0

    def date(self, offset: int, timestamp_ms: int, at_ms: int) -> None:
        """Store the source's answer: the timestamp of the first record at or after a source offset; -1: no answer."""
        self._dated = offset, timestamp_ms, at_ms

    def is_dated(self, offset: int, since_ms: int) -> bool:
        """Whether the source answered for this offset, or was asked without an answer since an instant (Unix ms)."""
        of, timestamp_ms, at_ms = self._dated
        return of == offset and (timestamp_ms >= 0 or at_ms >= since_ms)

    def date_of(self, offset: int) -> int:
        """Return the timestamp in the source's answer; -1 without an answer."""
        return self._dated[1] if self._dated[0] == offset else -1

    def behind_since_ms(self, head_ms: int, newest_ms: int) -> int:
        """Return since when (Unix ms) the source holds records that are not copied, for a lane that is behind.

        `head_ms`: timestamp of the oldest queued record; `newest_ms`: of the last copied record; -1 if not known.
        """
        moved_ms = max(self.appended_at_ms, self.caught_up_ms, self.began_ms)
        by_records_ms = head_ms if head_ms >= 0 else newest_ms
        if by_records_ms < 0:
            return moved_ms
        return min(max(by_records_ms, self.caught_up_ms), moved_ms)

    def weigh(self, wire_bytes: int, offsets: int) -> None:
        """Take the lane's totals so far: bytes copied on the wire, and the source offsets passed with them."""
        more_bytes, more_offsets = wire_bytes - self._seen[0], offsets - self._seen[1]
        self._seen = (wire_bytes, offsets)
        if more_offsets > 0:
            self._bytes = self._bytes * _FADING + more_bytes
            self._offsets = self._offsets * _FADING + more_offsets

    def bytes_of(self, offsets: int) -> int:
        """Estimate the wire bytes of a number of source offsets; -1 while nothing is measured."""
        if offsets == 0:
            return 0
        return round(offsets * self._bytes / self._offsets) if self._offsets else -1
