"""The distance of a run, and what is asked of its windows."""

from typing import Literal

import msgspec

Side = Literal["source", "target", "both"]
MESSAGE_BYTES = 1280
"""`max.message.bytes` of the topics. It bounds merged batches, so that a full window has many appends. The largest
batch of the load, three records, has 700 bytes."""
PARTITIONS = 16
"""Fewer than without a distance, so that each of them has more appends in flight than a broker remembers."""
MOST_RECORDS = 3
"""Records of one batch of the backlog: one to three, so that two to four of these batches fit into one of the copy."""
COPIED_PER_S = 3_500
"""Records of such a backlog that a mirror on two cores copies in a second, measured at 50 ms: nearly 900 batches of the
copy. More than 200 appends are in flight then, so the CPU is the limit, and not the distance."""
FULL_S = 4.0
"""Seconds until the windows are full."""
PER_S = 25
"""Records per second and partition of the load that follows the backlog: ten batches of two or three."""


class Far(msgspec.Struct, frozen=True, kw_only=True):
    """Where the mirror is far from, and how much there is to copy.

    `backlog`: records at the source before the mirror starts; 0: as many as last for the fault. `least_appends`: the
    median of appends in flight while the backlog lasts, below which a run is failed. `translated`: source offsets that
    are translated at the end. `must_merge`: whether a run is failed in which no batch of the copy holds several batches
    of the source.
    """

    rtt_ms: float
    side: Side = "target"
    backlog: int = 0
    least_appends: int = 128
    translated: int = 2_000
    must_merge: bool = False

    def lasting(self, seconds: float) -> "Far":
        """Return the same with a backlog that lasts so many seconds from full windows on, if none was given.

        What is left after that proves nothing more, and costs most of a run: each record is copied, read twice, proven.
        """
        if self.backlog:
            return self
        return msgspec.structs.replace(self, backlog=int((FULL_S + seconds) * COPIED_PER_S))

    def holds(self, side: str) -> bool:
        """Whether the mirror is far from a side, `source` or `target`."""
        return self.side in (side, "both")
