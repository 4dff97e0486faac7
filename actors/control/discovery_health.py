"""Makes events when the discovery of a flow's topics begins to fail, fails in another way, and works again."""

from collections.abc import Iterator

from actors.control.ports import DiscoveryAnswer
from actors.model.events import FlowRecovered, FlowTroubled, FlowWaits
from policies.model import FlowName

CALM_S = 10.0
"""Seconds without a failure before recovery is reported: a metadata actor that has just started knows of none yet."""


class DiscoveryHealth:
    """The discovery failures of one flow, and who else has taken it."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self._reported = self._taken = self._awaited = ""
        self._failed_since_s = self._calm_since_s = 0.0
        self._is_calm = True

    def events(self, found: DiscoveryAnswer, now_s: float) -> Iterator[FlowTroubled | FlowWaits | FlowRecovered]:
        """Yield the events of one answer of Metadata; `now_s` is monotonic."""
        if found.taken and not self._taken:
            self._taken = found.taken
            yield FlowTroubled(flow=self._flow, what=found.taken)
        if found.failure:
            self._is_calm = False
            if not self._reported:
                self._failed_since_s = now_s
            if found.failure != self._reported:
                self._reported = found.failure
                yield FlowTroubled(flow=self._flow, what=found.failure)
            return
        is_told, self._awaited = found.awaited == self._awaited, found.awaited
        if found.awaited:
            self._is_calm = False
            if not is_told:
                yield FlowWaits(flow=self._flow, what=found.awaited)
            return
        if not self._is_calm:
            self._is_calm, self._calm_since_s = True, now_s
        if self._reported and found.kept is not None and now_s - self._calm_since_s >= CALM_S:
            yield FlowRecovered(flow=self._flow, what=self._reported, seconds=self._calm_since_s - self._failed_since_s)
            self._reported = ""
