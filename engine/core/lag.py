"""How far a lane is behind in seconds and in bytes, from what its driver sees anyway.

Lag in seconds is the age of the oldest record that the source holds and the target does not. Nobody is told that age;
what is known bounds it:

- the record at the head of the lane's queue carries a timestamp; where nothing is queued, the last copied record's
  does, and the next one came after it; of a lane that has copied nothing yet, and is not fetched, the source is asked
  for the next one's (`engine/flow/ends.py`);
- at the instant the lane last had everything, nothing was uncopied: so nothing uncopied is older (that corrects records
  written late with old timestamps, and the first record after a quiet day);
- since the last acknowledgement, or since the lane is here, it has been behind: so it is behind at least that long
  (that corrects timestamps from the future, and speaks where no timestamp is known).
"""

_FADING = 0.9
"""How much of an old measurement of weight remains at the next: some ten snapshots count."""


class LagWatch:
    """What a lane's driver notes to tell its lag; times are Unix ms, -1 = never."""

    def __init__(self, began_ms: int) -> None:
        self.began_ms = began_ms
        self.caught_up_ms = -1
        self.appended_at_ms = -1
        self._dated = (-1, -1)
        self._seen = (0, 0)
        self._bytes = 0.0
        self._offsets = 0.0

    def date(self, offset: int, timestamp_ms: int) -> None:
        """Take the timestamp of the first record from a source offset on, as the source was asked for it."""
        self._dated = offset, timestamp_ms

    def is_dated(self, offset: int) -> bool:
        """Whether the source was asked for the first record from this offset on."""
        return self._dated[0] == offset

    def date_of(self, offset: int) -> int:
        """Say what it told; -1 where it was not asked, or holds none."""
        return self._dated[1] if self.is_dated(offset) else -1

    def behind_since_ms(self, head_ms: int, newest_ms: int) -> int:
        """Say since when the source holds what is not copied, for a lane that is behind.

        `head_ms`: timestamp of the oldest queued record; `newest_ms`: of the last copied one; -1 where not known.
        """
        moved_ms = max(self.appended_at_ms, self.caught_up_ms, self.began_ms)
        by_records_ms = head_ms if head_ms >= 0 else newest_ms
        if by_records_ms < 0:
            return moved_ms
        return min(max(by_records_ms, self.caught_up_ms), moved_ms)

    def weigh(self, wire_bytes: int, offsets: int) -> None:
        """Take what the lane has copied in all, so far: bytes on the wire, and source offsets passed with them."""
        more_bytes, more_offsets = wire_bytes - self._seen[0], offsets - self._seen[1]
        self._seen = (wire_bytes, offsets)
        if more_offsets > 0:
            self._bytes = self._bytes * _FADING + more_bytes
            self._offsets = self._offsets * _FADING + more_offsets

    def bytes_of(self, offsets: int) -> int:
        """Estimate the wire bytes of so many source offsets; -1 while nothing was measured."""
        if offsets == 0:
            return 0
        return round(offsets * self._bytes / self._offsets) if self._offsets else -1
