"""What the supervisor needs of the world: copiers it can start and talk to, and what Metadata found and keeps.

Nothing here waits: what is said is on its way, what comes back is picked up by a later step.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from actors.messages import Orders, Report
from actors.spark.status import SparkNews, SparkStatus
from actors.states import Desired
from engine.core.config_report import ConfigReport
from engine.core.events import AnyEvent, Event
from engine.core.group_report import GroupsReport
from engine.core.progress import FlowProgress, LaneProgress
from engine.errors import MirrorError
from engine.state import Quarantine, SetState
from policies.model import FlowName, LaneName


class CopierUnreachable(MirrorError):
    """A call to an actor did not come back: it may have been done, it may not. Say it again later."""

    exit_code = 1  # it ran, and did not end well: not bad input

    def __init__(self, copier_id: str, call: str, cause: str) -> None:
        super().__init__(copier_id, call, cause)
        self.copier_id, self.call, self.cause = copier_id, call, cause

    def __str__(self) -> str:
        return f"{self.copier_id}: {self.call} did not come back ({self.cause})"


class Vital(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a copier lives. `closed` = drained and returned; `dead` = its process has ended in any other way;
    `lost` = its node is gone, and nobody can say whether the process is; `cause` says how. `blameless`: it told why
    itself, and it is nothing that a partition set could have done.
    """

    state: Literal["starting", "ready", "closed", "dead", "lost"]
    cause: str = ""
    last: FlowProgress | None = None
    blameless: bool = False


class CopierPort(Protocol):
    """One copier of one flow."""

    copier_id: str
    flow: FlowName

    @property
    def granted_until_s(self) -> float:
        """Until when (the supervisor's clock) its lease can last at most, by all that was ever said to it."""

    @property
    def trouble(self) -> str:
        """Why the last call did not come back; empty when it did."""

    def vital(self) -> Vital:
        """Say at once, from what was last seen, whether the copier lives."""

    def tell(self, orders: Orders) -> None:
        """Say what it is to do, from now on and until other orders: once a second, its lease with it."""

    def hush(self) -> None:
        """Say nothing more, so that its lease runs out."""

    def reports(self) -> Sequence[Report]:
        """Take the reports that came since the last call."""


class Fleet(Protocol):
    """Starts copiers, finds those that run, ends them."""

    def start_copier(self, flow: FlowName, recipe: str) -> CopierPort:
        """Begin starting a copier, under a name never used before; it is `starting` until it answers."""

    def find_copiers(self) -> Sequence[CopierPort]:
        """Find the copiers that an earlier supervisor of this mirror left running."""

    def retire(self, copier: CopierPort) -> None:
        """End a copier's process for good, drained or not."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a flow, as the state topic on its target has it. `at_ms`: when its state was asked for,
    Unix time. `sets` are those that no plan would make again (of hot lanes, of suspects), by id, as `quarantine` is.
    """

    state: Desired = Desired.RUNNING
    paused_topics: tuple[str, ...] = ()
    at_ms: int = 0
    sets: dict[str, SetState] = {}
    quarantine: dict[str, Quarantine] = {}


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of Metadata about one flow: `serial` grows with every discovery, 0 before the first.

    `kept` is None until the state topic was read. `taken` says who else mirrors this flow, where somebody does.
    `awaited`: what the flow waits for before it is ours, which is no failure.
    `unrenewed_s`: for how many seconds nobody could tell whether the flow is still ours.
    `groups` is the last round of its consumer groups, None before the first; `configs` of its configs and ACLs.
    """

    serial: int
    lanes: tuple[LaneName, ...] = ()
    highest_epoch: int = 0
    events: tuple[AnyEvent, ...] = ()
    failure: str = ""
    awaited: str = ""
    kept: Kept | None = None
    taken: str = ""
    unrenewed_s: float = 0.0
    groups: GroupsReport | None = None
    configs: ConfigReport | None = None


class SparkPort(Protocol):
    """What the mirror's Spark tells; nothing waits for it."""

    def status(self) -> SparkStatus:
        """Say how it is."""

    def note_activity(self, flows: Iterable[tuple[FlowName, Iterable[LaneProgress]]]) -> None:
        """Wake the lag history of the flows that copy or are behind."""

    def take_news(self) -> tuple[SparkNews, ...]:
        """Give what happened since the last call."""

    def take_events(self) -> tuple[Event, ...]:
        """Give what its jobs told since the last call."""


class MetadataPort(Protocol):
    """What is to be copied, and what is to be remembered."""

    def found(self, flow: FlowName) -> Found:
        """Give the latest discovery of a flow; events are handed over once."""

    def keep(self, flow: FlowName, kept: Kept) -> None:
        """Write down what is wanted of a flow."""

    def tell(self, event: Event) -> None:
        """Write down what happened."""

    def give_back(self, flow: FlowName) -> None:
        """Look after a flow no more: write down what is owed of it, and let others have it."""
