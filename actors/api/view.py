"""The mirror as a handler of `/api/v1` sees it."""

import enum
from typing import Any

import msgspec

from actors.api.entities import ClusterSummary
from actors.api.series import SeriesRing
from actors.model.status import FlowStatus
from actors.rest.exchange import HttpCall, HttpRefusal, StartCommand
from actors.rest.view import MirrorView


class ApiNeed(enum.Enum):
    """What a route of `/api/v1` needs to know."""

    STATUS = enum.auto()
    """The status without partitions."""
    LANES = enum.auto()
    """The status with all partitions, perhaps a second old."""
    ASKED = enum.auto()
    """The status, with all partitions if the query has `partitions=true`."""
    FILE_PLAN = enum.auto()
    """What a reload of the file on disk would change: a ConfigDifference, or why it cannot be read."""
    SYNC_PLAN = enum.auto()
    """What `raymirror plan` prints about a flow; this and the following: `actors/api/commands/look_words.py`."""
    REFUSED = enum.auto()
    """What `raymirror quarantine list` prints about a flow."""
    CONTENTS = enum.auto()
    """What `raymirror quarantine show` prints."""
    TRANSLATION = enum.auto()
    """What `raymirror translate` prints about a group."""
    MOVES = enum.auto()
    """What `raymirror move --list` prints about a flow."""
    ENDS = enum.auto()
    """What `raymirror compare-ends` prints about a flow."""
    TABLES = enum.auto()
    """What `raymirror tables` prints."""
    SQL = enum.auto()
    """What `raymirror sql` prints for a query."""
    DRIFT = enum.auto()
    """What `raymirror drift` prints."""
    REPORT = enum.auto()
    """The page that `raymirror report` makes."""
    PREVIEW = enum.auto()
    """What `raymirror dr preview` prints about a flow."""
    HISTORY = enum.auto()
    """What `raymirror lag --history` prints about a flow."""
    AUDIT = enum.auto()
    """What `raymirror audit` prints."""
    OPERATIONS = enum.auto()
    """What `raymirror dr history` prints about a flow."""
    RUNS = enum.auto()
    """The status, and the commands that requests have started; of the run that the path names also its result."""
    OPEN_OPERATION = enum.auto()
    """The same, and what `raymirror dr status` prints if a request would forget a failover."""


class CommandPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command finds the mirror: its name, and the address of its Ray; empty: as on this machine."""

    mirror: str = ""
    address: str = ""


class RunFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A started command as its files say. `code`: its exit code; None while it runs, and if it was killed.

    `said`: the end of its standard error; `printed`: its standard output, if that was asked for.
    """

    call: StartCommand
    alive: bool
    code: int | None = None
    ended_ms: int | None = None
    said: str = ""
    printed: bytes = b""
    has_printed: bool = False
    """Whether it has printed anything, also if that was not asked for."""


class ApiFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about a mirror and `/api/v1` shows; it changes with a reload."""

    clusters: tuple[ClusterSummary, ...] = ()
    objectives_s: dict[str, float] = {}
    """By flow, if set."""
    place: CommandPlace = CommandPlace()
    storage: str = ""
    """Where the audit trail and the history are; empty if they are not kept."""


class ApiView(MirrorView, frozen=True, kw_only=True):
    """The mirror at one moment, with its series. `found`: what a need beyond the status has found."""

    facts: ApiFacts = ApiFacts()
    ring: SeriesRing
    found: Any = None
    runs: tuple[RunFiles, ...] = ()
    """Newest first; empty if the need does not ask for them."""

    def named_flow(self, call: HttpCall) -> FlowStatus:
        """Return the flow that a path names. Raises HttpRefusal (404)."""
        name = call.path["flow"]
        found = next((flow for flow in self.present.flows if flow.flow == name), None)
        if found is None:
            there = ", ".join(flow.flow for flow in self.present.flows) or "none"
            raise HttpRefusal(404, f"No flow {name!r} in this mirror; it has: {there}")
        return found

    def operated_flow(self, call: HttpCall) -> str:
        """Return the flow that a path names: one of the mirror, or the reverse of one, as after a switchover.

        Raises HttpRefusal (404).
        """
        named = call.path["flow"]
        if any(flow.flow == reverse_of(named) for flow in self.present.flows):
            return named
        return self.named_flow(call).flow


def reverse_of(flow: str) -> str:
    """Return the flow in the other direction."""
    source, _, target = flow.partition("->")
    return f"{target}->{source}"
