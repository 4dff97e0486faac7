"""Divides a limit of bytes per second among the copiers of a flow, by what each of them uses and could use.

Max-min fairness: a copier that is not held back gets what it uses and a quarter more; what is left goes in equal parts
to those that are held back, or to all if none is. The sum is never above the limit, so the limit holds whatever the
copiers do. Every copier gets at least a small share, so that a lane that becomes busy starts at once.

Rejected: equal shares. A flow whose backlog is in one of four copiers would get a quarter of its limit.
"""

from collections.abc import Sequence

import msgspec

_MORE = 1.25
"""A copier that is not held back may grow by this factor before the next division, which is a second later."""
_LEAST = 16
"""A copier gets at least this part (1/16) of an equal share."""


class BandwidthUse(msgspec.Struct, frozen=True):
    """What one copier fetches under one limit: bytes per second, and whether the limit held a lane back lately."""

    bytes_per_s: float = 0.0
    held: bool = False


def shares_of(limit: int, uses: Sequence[BandwidthUse]) -> list[int]:
    """Return each copier's part of a limit, bytes per second: at least 1 each, in sum at most the limit if it can be.

    A limit of fewer bytes per second than there are copiers is exceeded: each copier has one byte per second.
    """
    if not uses:
        return []
    least = max(1.0, limit / len(uses) / _LEAST)
    wanted = [limit if use.held else max(least, use.bytes_per_s * _MORE) for use in uses]
    level = _level(limit, wanted)
    given = [min(want, level) for want in wanted]
    spare = (limit - sum(given)) / len(uses)  # nobody is held back: everyone may grow
    return [max(1, int(one + max(0.0, spare))) for one in given]


def _level(limit: int, wanted: Sequence[float]) -> float:
    """Return the level up to which every want can be met: what lies above is cut off."""
    left, rest = float(limit), sorted(wanted)
    for at, want in enumerate(rest):
        equal = left / (len(rest) - at)
        if want >= equal:
            return equal
        left -= want
    return float(limit)
