"""The mirror as a handler sees it: its connectors, and as much of its present state as the route needs."""

import enum
from collections.abc import Iterator

import msgspec

from actors.model.messages import StoredOffset
from actors.model.status import FlowStatus, MirrorStatus
from actors.rest.connectors import MirrorConnector
from actors.rest.entities import LoggerLevel
from actors.rest.exchange import HttpCall, HttpRefusal
from engine.core.reports.progress import LaneProgress

NO_SUCH = "Connector {} not found"
UNKNOWN = "Unknown connector {}"
UNKNOWN_TO_RESTART = "Unknown connector: {}"
NO_STATUS = "No status found for connector {}"
"""Connect words one fact in four ways, by route (DistributedHerder, AbstractHerder)."""


class Need(enum.Enum):
    """How much of the mirror's state a route needs."""

    NOTHING = enum.auto()
    HEALTH = enum.auto()
    """The status without partitions, perhaps a second old: everybody may ask for it, as often as they like."""
    STATUS = enum.auto()
    """The status without partitions."""
    TASKS = enum.auto()
    """The status, with all partitions only if some have stopped on an error."""
    LANES = enum.auto()
    """The status with all partitions."""
    POSITIONS = enum.auto()
    """The status without partitions, and the positions of the connector's flow on its target."""
    METRICS = enum.auto()
    """The page of metrics."""
    READINESS = enum.auto()
    """Why the mirror is not ready, perhaps a second old."""


class MirrorView(msgspec.Struct, frozen=True, kw_only=True):
    """The mirror at one moment."""

    connectors: dict[str, MirrorConnector]
    deleted: dict[str, MirrorConnector] = {}
    """Connectors of flows that requests have deleted; they are configured still, and not among `connectors`."""
    version: str
    """raymirror's own."""
    config_path: str = ""
    host: str = ""
    """Where the server is, `host:port`."""
    node: str = ""
    """The Ray node of the server."""
    status: MirrorStatus | None = None
    positions: tuple[StoredOffset, ...] = ()
    loggers: dict[str, LoggerLevel] = {}
    metrics: str = ""
    why_dead: str = ""
    """Why the mirror's supervisor does not work; empty if it does."""
    why_not_ready: str = ""
    """Why the mirror does not do its work; empty if it does."""

    @property
    def present(self) -> MirrorStatus:
        """The status. Raises LookupError if the route did not ask for it."""
        if self.status is None:
            raise LookupError("the route needs a status")  # a bug in the table of routes
        return self.status

    def connector(self, call: HttpCall, wording: str = NO_SUCH) -> MirrorConnector:
        """Return the connector that a path names. Raises HttpRefusal in Connect's words for this route."""
        name = call.path["connector"]
        found = self.connectors.get(name)
        if found is None:
            raise HttpRefusal(404, wording.format(name))
        return found

    def flow(self, connector: MirrorConnector) -> FlowStatus | None:
        """Return the status of a connector's flow; None for a moment after a reload that added it."""
        return next((flow for flow in self.present.flows if flow.flow == connector.flow), None)

    def lanes(self, connector: MirrorConnector) -> Iterator[LaneProgress]:
        """Yield the partitions of a connector's flow, as far as the status has them."""
        return (lane for lane in self.present.lanes if lane.set_id.rpartition("/")[0] == connector.flow)
