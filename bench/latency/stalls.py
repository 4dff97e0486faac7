"""The stalls of raymirror's event loops during a run, from its metrics page."""

import re
import urllib.request
from collections.abc import Sequence

from engine.core.reports.quantiles import quantile

_BUCKET = re.compile(r'^raymirror_loop_stall_seconds_bucket\{.*le="[^"]+"\} (\d+)$', re.MULTILINE)
_TIMEOUT_S = 10.0


def read_counts(port: int) -> list[int]:
    """Return the counts of the histogram by bucket. Raises OSError, and ValueError without exactly one flow."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_TIMEOUT_S) as page:
        return counts_of(page.read().decode())


def counts_of(page: str) -> list[int]:
    """Return the counts by bucket of a page with one flow; a page has the sums up to each bucket."""
    sums = [int(number) for number in _BUCKET.findall(page)]
    if not sums or sums != sorted(sums):
        raise ValueError(f"{len(sums)} buckets of stalls, not those of one flow")
    return [upto - below for upto, below in zip(sums, [0, *sums], strict=False)]


def stalls(before: Sequence[int], after: Sequence[int]) -> dict[str, float]:
    """Return quantiles in ms of what was counted in between; they are estimated from buckets. Empty without samples."""
    counts = [now - then for now, then in zip(after, before, strict=True)]
    found = {name: quantile(counts, part) for name, part in (("stall_p99_ms", 0.99), ("stall_p99.9_ms", 0.999))}
    return {name: round(value, 2) for name, value in found.items() if value is not None}
