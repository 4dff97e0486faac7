"""Computes pauses from the samples of a watch. Pure; seconds of one clock.

A pause is the longest time without progress of any partition. A watch asks both clusters for their end offsets about
twenty times a second. A partition makes *progress* at an instant when more records of the final copy are below its end
than ever before; the control records of a takeover do not count. The instant is that of the first answer that showed
it, so a gap is exact to about one round of requests.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

Sample = tuple[float, int]
"""(instant, end offset or count)."""


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """One partition: when the source held how many records, and when the target did. Both grow strictly."""

    source: tuple[Sample, ...]
    target: tuple[Sample, ...]


def growth(samples: Iterable[Sample], offsets: Sequence[int] | None = None) -> tuple[Sample, ...]:
    """Keep the instants at which a count exceeds all before. `offsets` are those of the records, in order: an end is
    then converted to the count of records below it.
    """
    grown: list[Sample] = []
    highest = 0
    for at, end in sorted(samples):
        count = end if offsets is None else bisect_left(offsets, end)
        if count > highest:
            highest = count
            grown.append((at, count))
    return tuple(grown)


def longest_pause(feeds: Iterable[Feed], since: float, until: float) -> float:
    """Return the longest gap between two instants of progress of one partition that touches [since, until].

    It counts from the last progress, also one before `since`; for a partition without progress, from its first record
    at the source. If a record never arrived, its gap ends at `until`.
    """
    longest = 0.0
    for feed in feeds:
        points = _points(feed, until)
        for begin, end in pairwise(points):
            if end > since and begin < until:
                longest = max(longest, end - begin)
    return longest


def usual_pause(feeds: Iterable[Feed], since: float, until: float) -> float:
    """Return the longest gap between two instants of progress of one partition, both within [since, until]."""
    longest = 0.0
    for feed in feeds:
        within = [at for at, _ in feed.target if since <= at <= until]
        longest = max([longest, *(end - begin for begin, end in pairwise(within))])
    return longest


class Wait(msgspec.Struct, frozen=True):
    """How long one partition had something to copy and made no progress, and from which instant on. Seconds."""

    length: float = 0.0
    begin: float = 0.0


def longest_wait(feeds: Iterable[Feed], since: float, until: float) -> Wait:
    """Find the longest time in [since, until] in which one partition had something to copy and made no progress.

    Unlike `longest_pause`, time before `since` is not counted, nor is time in which the target had everything that the
    source held: a source that was down, or a load that is only starting, is not the mirror's delay.
    """
    longest = Wait(begin=since)
    for feed in feeds:
        source_counts = [count for _, count in feed.source]
        target_ats = [at for at, _ in feed.target]
        copied = bisect_right(target_ats, since)
        count, progress_at = (feed.target[copied - 1][1] if copied else 0), since
        for at, more in (*feed.target[copied:], (until, _copied(feed) + 1)):
            ahead = bisect_right(source_counts, count)
            if ahead < len(source_counts):
                begin = max(progress_at, feed.source[ahead][0])
                longest = max(longest, Wait(min(at, until) - begin, begin), key=wait_length)
            count, progress_at = more, at
    return longest


def wait_length(wait: Wait) -> float:
    """Order waits by their length; of equal waits `max` keeps the first."""
    return wait.length


def longest_silence(answers: Iterable[float], since: float, until: float) -> float:
    """Return the longest time in [since, until] without an answer of a broker."""
    instants = [since, *sorted(at for at in answers if since < at < until), until]
    return max(later - earlier for earlier, later in pairwise(instants))


def silence_across(answers: Iterable[float], since: float, until: float) -> float:
    """Return the longest time between two answers that overlaps [since, until], however much of it lies before and
    behind.
    """
    return max(
        (later - earlier for earlier, later in pairwise(sorted(answers)) if later > since and earlier < until),
        default=0.0,
    )


def _points(feed: Feed, until: float) -> list[float]:
    points = [at for at, _ in feed.source[:1]] + [at for at, _ in feed.target]
    if feed.source and _copied(feed) < feed.source[-1][1]:
        points.append(until)
    return points


def _copied(feed: Feed) -> int:
    return feed.target[-1][1] if feed.target else 0
