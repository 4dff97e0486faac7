"""What the supervisor needs of the world: copiers it can start and talk to, and what Metadata found."""

from typing import Literal, Protocol

import msgspec

from engine.core.events import AnyEvent
from engine.core.progress import FlowProgress
from engine.errors import MirrorError
from policies.model import FlowName, LaneName, PartitionSet


class CopierUnreachable(MirrorError):
    """A call to a copier did not come back: it may have been done, it may not. Say it again later."""

    exit_code = 1  # it ran, and did not end well: not bad input

    def __init__(self, copier_id: str, call: str, cause: str) -> None:
        super().__init__(copier_id, call, cause)
        self.copier_id, self.call, self.cause = copier_id, call, cause

    def __str__(self) -> str:
        return f"copier {self.copier_id}: {self.call} did not come back ({self.cause})"


class Vital(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a copier lives. `closed` = drained and returned; `dead` = ended in any other way, `cause` says how."""

    state: Literal["starting", "ready", "closed", "dead"]
    cause: str = ""
    last: FlowProgress | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of Metadata about one flow: `serial` grows with every discovery, 0 before the first."""

    serial: int
    lanes: tuple[LaneName, ...] = ()
    highest_epoch: int = 0
    events: tuple[AnyEvent, ...] = ()
    failure: str = ""


class CopierPort(Protocol):
    """One copier of one flow. Every call raises CopierUnreachable; saying the same twice is harmless."""

    copier_id: str
    flow: FlowName

    def vital(self) -> Vital:
        """Say at once, from what was last seen, whether the copier lives."""

    async def assign(self, partition_set: PartitionSet) -> None:
        """Hand a partition set over, or give new lanes to one that the copier owns."""

    async def pause(self, topics: frozenset[str] | None) -> None:
        """Stop fetching these source topics (None = the whole flow); what is in flight is finished."""

    async def resume(self, topics: frozenset[str] | None) -> None:
        """Fetch again; lanes that had stopped on their own try again."""

    async def progress(self) -> FlowProgress:
        """Give the latest snapshot; events are handed over once."""

    async def drain(self) -> None:
        """Ask for the end: finish what is in flight, write positions. `vital` turns to `closed` later."""


class Fleet(Protocol):
    """Starts copiers and ends them."""

    def start_copier(self, flow: FlowName, copier_id: str) -> CopierPort:
        """Begin starting a copier; it is `starting` until it answers."""

    async def retire(self, copier: CopierPort) -> None:
        """End a copier's process for good, drained or not."""


class MetadataPort(Protocol):
    """What is to be copied."""

    async def found(self, flow: FlowName) -> Found:
        """Give the latest discovery of a flow; events are handed over once. Raises CopierUnreachable."""
