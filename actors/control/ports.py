"""Ports of the supervisor: copiers that it starts and talks to, what Metadata discovers and stores, and Spark.

No call waits: when it returns, the message is on its way. A later step picks up the answer.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from actors.model.messages import Orders, Report
from actors.model.spark_status import SparkNews, SparkStatus
from actors.model.states import Desired, StopKind
from actors.model.status import EventLine
from engine.base.errors import MirrorError
from engine.core.events.events import AnyEvent, Event
from engine.core.reports.config_report import ConfigReport
from engine.core.reports.drill_report import DrillStanding
from engine.core.reports.group_report import GroupsReport
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.jobs.proof.state import FlowProof
from engine.jobs.runtime.runner import JobLine
from engine.state.state import Quarantine, SetState
from policies.model import FlowName, LaneName


class ActorUnreachable(MirrorError):
    """A call to an actor did not come back: it may or may not have been executed. Send it again later."""

    exit_code = 1  # it ran, and did not end well: not bad input

    def __init__(self, actor: str, call: str, cause: str) -> None:
        super().__init__(actor, call, cause)
        self.actor, self.call, self.cause = actor, call, cause

    def __str__(self) -> str:
        return f"{self.actor}: {self.call} did not come back ({self.cause})"


class CopierVitals(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a copier lives. `closed`: it drained and returned. `dead`: its process has ended in any other way.
    `lost`: its node is gone, and it is not known whether the process is. `cause` says how. `blameless`: the copier
    itself gave the cause, and no partition set could have caused it.
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
        """The latest time (the supervisor's clock) when its lease can end, by all orders ever sent to it."""

    @property
    def trouble(self) -> str:
        """Why the last call did not come back; empty when it did."""

    def vital(self) -> CopierVitals:
        """Return at once, from the last observation, whether the copier lives."""

    def send(self, orders: Orders) -> None:
        """Send what it should do from now on, until other orders come: once a second, and the lease goes with it."""

    def hush(self) -> None:
        """Send nothing more, so that its lease runs out."""

    def reports(self) -> Sequence[Report]:
        """Take the reports that came since the last call."""


class Fleet(Protocol):
    """Starts copiers, finds those that run, ends them."""

    def start_copier(self, flow: FlowName, fingerprint: str) -> CopierPort:
        """Begin to start a copier, under a name that was never used before; it is `starting` until it answers."""

    def lacks(self, flow: FlowName) -> str:
        """Say why no Ray node can ever run a copier of a flow; empty if one can, or if that is not known."""

    def find_copiers(self) -> Sequence[CopierPort]:
        """Find the copiers that an earlier supervisor of this mirror left running."""

    def retire(self, copier: CopierPort) -> None:
        """End a copier's process for good, drained or not."""


class RememberedFlow(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of a flow, as in the state topic on its target. `at_ms`: when the state was requested, Unix
    time. `sets`: by id, sets that no plan would create again (of hot lanes, of suspects). `quarantine`: by set id too.
    `stop`: what a stop is part of. `moved_topics`: those of `paused_topics` whose producers write to the target now.
    `is_blind`: a command came before the stored state was read, so what was stored of moved topics stays.
    """

    state: Desired = Desired.RUNNING
    stop: StopKind = StopKind.MIRROR
    paused_topics: tuple[str, ...] = ()
    moved_topics: tuple[str, ...] = ()
    is_blind: bool = False
    at_ms: int = 0
    sets: dict[str, SetState] = {}
    quarantine: dict[str, Quarantine] = {}

    @property
    def failed_over(self) -> bool:
        """Whether a failover or a failback has stopped the flow: then no start copies it."""
        return self.state is Desired.STOPPED and self.stop.is_turned


class DiscoveryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of Metadata about one flow. `serial` grows with every discovery; it is 0 before the first.

    `kept` is None until the state topic was read. `taken`: which other mirror has this flow, empty if none.
    `awaited`: what the flow waits for before this mirror has it, which is no failure.
    `unrenewed_s`: for how many seconds it has not been known whether this mirror still has the flow.
    `groups`: the last round of its consumer groups, None before the first. `configs`: that of its configs and ACLs.
    `round_id`: a round of configs and ACLs that waits for a plan of Spark. `memory_id`: what the last round remembers.
    `target_id`: the id of the target cluster, empty while it is not known. `drill`: what is known of its drills.
    """

    serial: int
    lanes: tuple[LaneName, ...] = ()
    highest_epoch: int = 0
    events: tuple[AnyEvent, ...] = ()
    failure: str = ""
    awaited: str = ""
    kept: RememberedFlow | None = None
    taken: str = ""
    unrenewed_s: float = 0.0
    groups: GroupsReport | None = None
    configs: ConfigReport | None = None
    round_id: str = ""
    memory_id: str = ""
    target_id: str = ""
    drill: DrillStanding | None = None


class ConfigRound(NamedTuple):
    """A round of configs and ACLs that waits for a plan of Spark; `request`: the options of the job, as msgpack."""

    id: str
    request: bytes


class RoundAnswer(NamedTuple):
    """The answer to such a round: the plan, as msgpack, or None and the reason why there is none."""

    id: str
    plan: bytes | None
    why: str = ""


class SparkPort(Protocol):
    """The mirror's Spark, as the supervisor uses it; no call waits."""

    def status(self) -> SparkStatus:
        """Return its status."""

    def note_activity(self, flows: Iterable[tuple[FlowName, Iterable[LaneProgress]]]) -> None:
        """Wake the lag history of the flows that copy or are behind."""

    def take_news(self) -> tuple[SparkNews, ...]:
        """Return what happened since the last call."""

    def take_events(self) -> tuple[Event, ...]:
        """Return the events of its jobs since the last call."""

    def proofs(self) -> dict[str, FlowProof]:
        """Return the continuous proof of each flow that is proven, by the flow's name."""

    def submit(self, job: str, options: bytes, job_id: str = "") -> str:
        """Run a job once, as soon as Spark is ready; return its id. Raises SparkOff, UnknownJob."""

    def line(self, job_id: str) -> JobLine:
        """Return the state of a job. Raises UnknownJobId."""

    def report(self, job_id: str) -> bytes | None:
        """Return the last report of a job, as msgpack; None before the first. Raises UnknownJobId."""

    def drop(self, job_id: str) -> None:
        """End a job if it still runs, and forget it with its report; an unknown id is ignored."""


class MetadataPort(Protocol):
    """Discovers what to copy, and stores what the next start must know."""

    def found(self, flow: FlowName) -> DiscoveryAnswer:
        """Return the latest discovery of a flow; each event is handed over once."""

    def store_state(self, flow: FlowName, state: RememberedFlow) -> None:
        """Store the state of a flow."""

    def store_event(self, event: Event) -> None:
        """Store an event."""

    def give_back(self, flow: FlowName) -> None:
        """Release a flow: write what is still unwritten for it, and let other mirrors have it."""

    def config_round(self, flow: FlowName) -> ConfigRound | None:
        """Return the round of configs and ACLs of a flow that waits for a plan of Spark, if one does."""

    def answer_round(self, flow: FlowName, answer: RoundAnswer) -> None:
        """Answer such a round; Metadata ignores the answer to a round that waits no longer."""


class ControlSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Work that is over. Seconds of the supervisor's clock; `about`: the set, or how many copiers there are."""

    name: str
    flow: FlowName
    about: str
    began_s: float
    ended_s: float
    giver: str = ""
    taker: str = ""


class Observer(Protocol):
    """Receives events and spans of a mirror, for its metrics and traces."""

    def count(self, line: EventLine) -> None:
        """Count an event."""

    def record(self, span: ControlSpan) -> None:
        """Record work that is over."""


class Clock(Protocol):
    """The supervisor's time; the module `engine.base.clock` is one."""

    def now_s(self) -> float:
        """Return a monotonic instant in seconds."""

    def wall_ms(self) -> int:
        """Return milliseconds of Unix time."""


class Ports(NamedTuple):
    """All that the supervisor uses and that is not its own."""

    fleet: Fleet
    metadata: MetadataPort
    spark: SparkPort
    observer: Observer
    clock: Clock
