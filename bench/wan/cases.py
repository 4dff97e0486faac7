"""Names the cases of the bench: which side is far, and what else the network and the topics do."""

from typing import Self

import msgspec

from bench.errors import BenchError
from bench.wan.distance import NO_WINDOW, Distance

RTT_MS = 100.0
REQUEST_WINDOW_BYTES, ANSWER_WINDOW_BYTES = 100 * 1024, 150 * 1024
"""What a connection to a broker with its default socket buffers has under way: its receive buffer of 100 KiB, and a
send buffer of 100 KiB, of which Linux held 146 KiB under way when it was measured."""
LATE_SHARE, LATE_MS = 0.01, 300.0
BUSY_WIDE, IDLE_WIDE = 8, 32

_FAR = {"source-far": "source", "target-far": "target"}
_WORDS = ("windows", "late", "rf3", "p8")


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One network and one shape of topics. The name holds all of it."""

    name: str
    far: str
    """`source` or `target`: the side behind the distance; the other side is next to the mirror."""
    is_windowed: bool
    """Whether each connection has the window of a broker's default socket buffers."""
    has_late_chunks: bool
    replicas: int
    partitions: int
    """Partitions with the backlog."""
    idle_partitions: int
    """Partitions beside them, in a topic of their own, with one record each."""

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a name such as `source-far-windows-rf3`. Raises BenchError."""
        far = next((far for far in _FAR if name == far or name.startswith(f"{far}-")), None)
        if far is None:
            raise BenchError("wan", f"no case {name}: a case begins with {' or '.join(_FAR)}")
        words = name.removeprefix(far).split("-")[1:]
        if unknown := [word for word in words if word not in _WORDS]:
            raise BenchError("wan", f"no case {name}: {far} can be followed by {', '.join(_WORDS)}, not {unknown[0]!r}")
        if len(set(words)) != len(words):
            raise BenchError("wan", f"no case {name}: a word comes twice")
        is_wide = "p8" in words
        return cls(
            name=name,
            far=_FAR[far],
            is_windowed="windows" in words,
            has_late_chunks="late" in words,
            replicas=3 if "rf3" in words else 1,
            partitions=BUSY_WIDE if is_wide else 1,
            idle_partitions=IDLE_WIDE if is_wide else 0,
        )

    def distance(self, rtt_ms: float) -> Distance:
        """Return what the proxy does in this case."""
        return Distance(
            rtt_ms=rtt_ms,
            request_window_bytes=REQUEST_WINDOW_BYTES if self.is_windowed else NO_WINDOW,
            answer_window_bytes=ANSWER_WINDOW_BYTES if self.is_windowed else NO_WINDOW,
            late_share=LATE_SHARE if self.has_late_chunks else 0.0,
            late_ms=LATE_MS,
        )


CASES = tuple(
    f"{far}{more}" for far in ("source-far", "target-far") for more in ("", "-windows", "-late", "-rf3", "-p8")
)
"""The cases of a whole run; every other combination of words can be named."""


def grouped(cases: list[Case]) -> list[list[Case]]:
    """Put the cases together that can use the same brokers: same replicas, same socket buffers."""
    groups: dict[tuple[int, bool], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.replicas, case.is_windowed), []).append(case)
    return list(groups.values())
