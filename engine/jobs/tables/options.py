"""Options and reports of the maintenance of tables, and what is too old. Imports no pyarrow."""

from collections.abc import Iterable

import msgspec


class CareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that rows are stored (0: for ever), rounded up to whole partitions. `expiry_ms` says from when."""

    keep_s: float = 30 * 86_400.0


class CareReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one round: partitions folded, partitions expired, files deleted, changes refused by conflicts."""

    folded: int = 0
    expired: int = 0
    deleted: int = 0
    conflicts: int = 0


def expiry_ms(newest: Iterable[int], now_ms: int, keep_ms: int) -> int | None:
    """Return the Unix time in ms before which rows are too old; None: no row is.

    `newest`: the time of the newest row of each partition. `keep_ms` ends at the present, or at the newest row of the
    last partition but one, whichever is earlier. Otherwise a clock that is ahead, or the first rows with its time,
    would take out the whole table.
    """
    last_but_one = sorted(newest)[-2:-1]
    return min(now_ms, *last_but_one) - keep_ms if last_but_one else None
