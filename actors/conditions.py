"""Conditions over a mirror's flows for scripts: `lag_seconds>60`, `stalled>0`. A metric, a comparison, a number."""

import operator
import re
from collections.abc import Callable
from typing import Final

import msgspec

from actors.status import FlowStatus, MirrorStatus
from engine.errors import MirrorError
from policies.words import counted

Figure = Callable[[FlowStatus, int], float]

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
FIGURES: Final[dict[str, Figure]] = {
    "lag_seconds": lambda flow, at_ms: flow.lag_ms(at_ms) / 1000,
    "lag_records": lambda flow, _: flow.lag_records,
    "lag_bytes": lambda flow, _: flow.lag_bytes,
    "unknown": lambda flow, _: flow.unknown_lanes,
    "stalled": lambda flow, _: flow.stalled,
    "failed": lambda flow, _: flow.errors,
    "partitions": lambda flow, _: flow.lanes,
    "topics": lambda flow, _: flow.topics,
    "records_per_s": lambda flow, _: flow.records_per_s,
    "bytes_per_s": lambda flow, _: flow.bytes_per_s,
}
_CONDITION = re.compile(r"\s*([a-z_]+)\s*(>=|<=|==|!=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*")


class BadCondition(MirrorError):
    """A condition that cannot be read."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return (
            f"condition {self.text!r} cannot be read; write METRIC OP NUMBER, e.g. 'lag_seconds>60',"
            f" with one of {', '.join(FIGURES)} and one of {' '.join(_COMPARISONS)}"
        )


class Condition(msgspec.Struct, frozen=True):
    """A figure of a flow compared with a number."""

    figure: str
    comparison: str
    number: float

    def __str__(self) -> str:
        return f"{self.figure}{self.comparison}{self.number:g}"

    def holds_in(self, status: MirrorStatus) -> list[str]:
        """Say in which flows it holds, a sentence each.

        Lag that is known in part is at least what is known. Where that does not settle it, the condition counts as
        holding: a script that watches over data must not take silence for good news.
        """
        found = []
        for flow in status.flows:
            value = FIGURES[self.figure](flow, status.at_ms)
            unknown = self.figure.startswith("lag_") and flow.unknown_lanes > 0
            if _COMPARISONS[self.comparison](value, self.number) and not (unknown and value < 0):
                found.append(f"{flow.flow}: {self.figure} is {value:g} ({self})")
            elif unknown:
                found.append(
                    f"{flow.flow}: {self.figure} of {counted(flow.unknown_lanes, 'partition')} is not known ({self})"
                )
        return found


def parse_condition(text: str) -> Condition:
    """Read a condition. Raises BadCondition."""
    found = _CONDITION.fullmatch(text)
    if found is None or found[1] not in FIGURES:
        raise BadCondition(text)
    return Condition(found[1], found[2], float(found[3]))
