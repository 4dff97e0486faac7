"""Conditions over a mirror's flows for scripts: `lag_seconds>60`, `stalled>0`. A metric, a comparison, a number."""

import operator
import re
from collections.abc import Callable
from typing import Final

import msgspec

from actors.model.states import Desired
from actors.model.status import FlowStatus, MirrorStatus
from engine.base.errors import MirrorError
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
_RISING: Final = (">", ">=")
"""Comparisons that hold for every higher value once they hold for one."""
FIGURES: Final[dict[str, Figure]] = {
    "lag_seconds": lambda flow, at_ms: flow.least_lag_ms(at_ms) / 1000,
    "lag_records": lambda flow, _: flow.least_lag_records,
    "lag_bytes": lambda flow, _: flow.least_lag_bytes,
    "unknown": lambda flow, _: flow.unknown_lanes,
    "stalled": lambda flow, _: flow.stalled,
    "failed": lambda flow, _: flow.errors,
    "partitions": lambda flow, _: flow.lanes,
    "topics": lambda flow, _: flow.topics,
    "records_per_s": lambda flow, _: flow.records_per_s,
    "bytes_per_s": lambda flow, _: flow.bytes_per_s,
}
"""The figures by name; of an unknown lag, its lower bound."""
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
        """Return a sentence for each flow in which the condition holds.

        Of an unknown lag, its lower bound is compared. If that does not decide the condition, the condition counts as
        true: a script that watches over data must not treat silence as good news.
        """
        said = (self._said(flow, status.at_ms) for flow in status.flows)
        return [sentence for sentence in said if sentence]

    def _said(self, flow: FlowStatus, at_ms: int) -> str:
        if self.figure == "unknown" and flow.is_undiscovered and flow.desired is not Desired.STOPPED:
            waits = f", it waits for {flow.waiting_for}" if flow.waiting_for else ""
            return f"{flow.flow}: its number of partitions is not known, no topic was discovered yet{waits} ({self})"
        value = FIGURES[self.figure](flow, at_ms)
        holds = _COMPARISONS[self.comparison](value, self.number)
        if flow.is_lag_known or not self.figure.startswith("lag_"):
            return f"{flow.flow}: {self.figure} is {value:g} ({self})" if holds else ""
        if holds and value > 0 and self.comparison in _RISING:
            return f"{flow.flow}: {self.figure} is at least {value:g} ({self})"
        if not flow.unknown_lanes:
            return f"{flow.flow}: {self.figure} is not known, no partition was discovered yet ({self})"
        heard = f", the source has not reported its end for {flow.source_end_age_ms / 1000:.0f} s"
        return (
            f"{flow.flow}: {self.figure} of {counted(flow.unknown_lanes, 'partition')} is not known"
            f"{heard if flow.is_silent else ''} ({self})"
        )


def parse_condition(text: str) -> Condition:
    """Read a condition. Raises BadCondition."""
    found = _CONDITION.fullmatch(text)
    if found is None or found[1] not in FIGURES:
        raise BadCondition(text)
    return Condition(found[1], found[2], float(found[3]))
