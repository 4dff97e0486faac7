"""Folds repeated log lines: a repeated text is written once, and then its count. Pure: the caller has the clock.

- A text that comes again within its window is not written; when the window ends, one line says how often it came. A
  window is one minute, and doubles up to ten minutes as long as the text keeps coming.
- Different texts of one kind (with a partition's name in each) share a token bucket that refills slowly. Lines beyond
  it are counted, and one line a minute says how many were left out.
"""

from collections.abc import Iterator

import msgspec

FIRST_WINDOW_S = 60.0
LAST_WINDOW_S = 600.0
BURST = 200
"""Most different lines of one kind at once."""
REFILL_PER_S = 0.1
MOST_TEXTS = 2000
MOST_KINDS = 200
_OTHER = "other"


class Folded(msgspec.Struct, frozen=True):
    """A line about lines that were not written: a text and how often it came, or how many of a kind were left out."""

    kind: str
    text: str
    repeated: int = 0
    left_out: int = 0


class _Text(msgspec.Struct):
    until_s: float
    window_s: float
    count: int = 0


class _Kind(msgspec.Struct):
    lines: float
    filled_at_s: float
    left_out: int = 0
    since_s: float = 0.0
    last: str = ""


class Folding:
    """Remembers the latest lines; its memory is bounded."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], _Text] = {}
        self._kinds: dict[str, _Kind] = {}

    @property
    def holds_back(self) -> bool:
        """Whether lines were counted and their count is not written yet."""
        return any(one.count for one in self._texts.values()) or any(one.left_out for one in self._kinds.values())

    def admit(self, now_s: float, kind: str, text: str) -> bool:
        """Return whether a line is to be written; if not, count it."""
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            kind = _OTHER
        known = self._texts.get((kind, text))
        if known is not None:
            known.count += 1
            return False
        bucket = self._kinds.setdefault(kind, _Kind(lines=BURST, filled_at_s=now_s))
        bucket.lines = min(BURST, bucket.lines + (now_s - bucket.filled_at_s) * REFILL_PER_S)
        bucket.filled_at_s = now_s
        if bucket.lines < 1 or len(self._texts) >= MOST_TEXTS:
            bucket.since_s = bucket.since_s if bucket.left_out else now_s
            bucket.left_out += 1
            bucket.last = text
            return False
        bucket.lines -= 1
        self._texts[kind, text] = _Text(until_s=now_s + FIRST_WINDOW_S, window_s=FIRST_WINDOW_S)
        return True

    def due(self, now_s: float) -> Iterator[Folded]:
        """Yield the lines about counts that are due, and forget texts that have not come again."""
        for (kind, text), one in list(self._texts.items()):
            if now_s < one.until_s:
                continue
            if not one.count:
                del self._texts[kind, text]
                continue
            yield Folded(kind, text, repeated=one.count)
            one.count = 0
            one.window_s = min(2 * one.window_s, LAST_WINDOW_S)
            one.until_s = now_s + one.window_s
        for kind, bucket in list(self._kinds.items()):
            if bucket.left_out and now_s >= bucket.since_s + FIRST_WINDOW_S:
                yield Folded(kind, bucket.last, left_out=bucket.left_out)
                bucket.left_out = 0
            elif not bucket.left_out and bucket.lines + (now_s - bucket.filled_at_s) * REFILL_PER_S >= BURST:
                del self._kinds[kind]  # full again: same as a new one

    def rest(self) -> Iterator[Folded]:
        """Yield the lines about all counts, at the end."""
        for (kind, text), one in self._texts.items():
            if one.count:
                yield Folded(kind, text, repeated=one.count)
                one.count = 0
        for kind, bucket in self._kinds.items():
            if bucket.left_out:
                yield Folded(kind, bucket.last, left_out=bucket.left_out)
                bucket.left_out = 0
