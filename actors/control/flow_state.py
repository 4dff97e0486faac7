"""The state of one flow: its copiers, its sets, its wanted state. No await, no Ray.

discovery ──> plan ──> ownership table (sets, owners, moves) ──> orders of each copier
                          ^                                         │
                          └────────────── reports ──────────────────┘
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from actors.control.copier_handle import CopierHandle
from actors.control.ownership_table import OwnershipTable
from actors.control.ports import DiscoveryAnswer, RememberedFlow
from actors.control.weights import Weights
from actors.model.states import (
    Command,
    CopierState,
    Desired,
    FailedOverFlow,
    MovedTopics,
    NotFailedOver,
    StopKind,
    desired_after,
    turned_text,
)
from engine.base.errors import MirrorError
from engine.core.reports.progress import FlowProgress, LaneProgress
from engine.state.state import Quarantine, SetState
from policies.model import FlowName, LaneName, PartitionSet
from policies.placement.assignment import IDLE_LANE, SetPlan, is_closed, too_heavy
from policies.placement.flapping import SetRecord, released, remembered
from policies.placement.scaling import ScalingLimits
from policies.placement.sites import copier_needs
from policies.traffic import TrafficRules

# flow, its lanes, its present sets, the number of copiers to plan for -> the new sets
Plan = Callable[
    [FlowName, tuple[LaneName, ...], Mapping[str, tuple[LaneName, ...]], int], Mapping[str, tuple[LaneName, ...]]
]

UNSURE_S = 20.0
"""Seconds without proof that this mirror owns the flow, after which its copiers get no further lease. Another mirror
may take the flow after 30 s (`engine.flow.ports.state_options`), and a lease granted just before lasts 6 s.
"""


FIRST_DISCOVERY = "the first discovery of topics"
"""What a flow without topics waits for, if it names nothing else."""


class UnknownTopic(MirrorError):
    """A command named a topic that the flow does not copy."""

    def __init__(self, topic: str, flow: str) -> None:
        super().__init__(topic, flow)
        self.topic, self.flow = topic, flow

    def __str__(self) -> str:
        return f"flow {self.flow} copies no topic {self.topic!r}; see: raymirror lag"


class TopicsNotKnownYet(MirrorError):
    """A command named a topic before the topics of the flow were discovered; `waits_for`: what that waits for."""

    exit_code = 1  # the same command may succeed later

    def __init__(self, topic: str, flow: str, waits_for: str) -> None:
        super().__init__(topic, flow, waits_for)
        self.topic, self.flow, self.waits_for = topic, flow, waits_for

    def __str__(self) -> str:
        return (
            f"the topics of flow {self.flow} are not known yet, {self.topic!r} may be one of them; nothing was changed;"
            f" try again later: it waits for {self.waits_for}"
        )


class FlowPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A flow's settings for the supervisor: its name, how many copiers it may get, and their fingerprint."""

    name: FlowName
    scaling: ScalingLimits = ScalingLimits()
    fingerprint: str = ""
    started_ms: int = 0
    """When the command to run the flow was given, Unix time (ms): a stop before that does not count."""
    site: str = ""
    """The site where its copiers must run; empty: anywhere."""
    traffic: TrafficRules = TrafficRules()
    is_added: bool = False
    """Whether a reload has added it: then it is to run, even if it was stopped alone before it was removed."""
    resumable: bool = False
    """Whether the mirror stays for the flow when it is stopped alone, so that a request over HTTP can resume it."""


class DesiredFlow(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted state of one flow. `wake` grows with every resume, so that a resume of a running flow counts too.

    `moved_topics`: those of `paused_topics` whose producers write to the target now. No resume ends their pause.
    """

    state: Desired = Desired.RUNNING
    paused_topics: frozenset[str] = frozenset()
    moved_topics: frozenset[str] = frozenset()
    wake: int = 0
    stop: StopKind = StopKind.MIRROR
    """What a stop is part of; it means something only while the state is STOPPED."""


def plan_sets(
    flow: FlowName, lanes: tuple[LaneName, ...], known: Mapping[str, tuple[LaneName, ...]], copiers: int
) -> Mapping[str, tuple[LaneName, ...]]:
    """Keep every lane in its set; new lanes join the smallest set."""
    return SetPlan(sets=dict(known)).with_lanes(flow, lanes, copiers).sets


class FlowState:
    """The state of one flow; the supervisor decides, and records its decisions here."""

    def __init__(self, flow: FlowPlan, plan: Plan) -> None:
        self.flow = flow.name
        self.fingerprint = flow.fingerprint
        self.copiers_wanted = flow.scaling.minimum
        self.is_removed = False
        """Whether the configuration no longer has this flow: it is drained, and then forgotten."""
        self.is_held_back = False
        """Whether no copier may start now: its positions are being changed."""
        self.mirror_ends = False
        """Whether the whole mirror ends, so that only a new start of the mirror copies again."""
        self._most = flow.scaling.maximum
        self.wanted = DesiredFlow()
        self.wanted_at_ms = 0
        self.stored = RememberedFlow()
        """The state that Metadata was last given to store, or has read."""
        self.is_state_read = False
        """Whether the state topic was read; no set is placed before."""
        self.handles: dict[str, CopierHandle] = {}
        self.ownership = OwnershipTable()
        self.weights = Weights()
        self.uneven_since_s: float | None = None
        self.records: dict[str, SetRecord] = {}
        """Records of sets whose copiers have ended; a set without an entry has a clean record."""
        self.found = DiscoveryAnswer(serial=0)
        """The last answer of Metadata."""
        self.taken = ""
        """Which other mirror has the flow; once set, it is never cleared."""
        self.refused = ""
        """Why a command to run the flow was refused; empty if it was not."""
        self.lacks = ""
        """Why no node can ever run a copier that starts now; empty if one can, or if that is not known."""
        self.start_not_before_s = 0.0
        self.quick_deaths = 0
        self.serial = 0
        self._plan = plan
        self._found_lanes: tuple[LaneName, ...] | None = None
        """The lanes from which the sets were last planned."""
        self._started_ms = flow.started_ms
        self._site = flow.site
        self._resumable, self._is_added = flow.resumable, flow.is_added
        self.traffic = flow.traffic
        """The limits of the whole flow; each copier gets a part of them."""

    def replan(self, flow: FlowPlan) -> None:
        """Apply other settings of the same flow: copiers of another fingerprint are replaced, the sets stay."""
        self.fingerprint, self._most, self._site = flow.fingerprint, flow.scaling.maximum, flow.site
        self.traffic, self._resumable = flow.traffic, flow.resumable
        self.copiers_wanted = min(max(self.copiers_wanted, flow.scaling.minimum), flow.scaling.maximum)

    def command(self, command: Command, topics: tuple[str, ...] = (), stop: StopKind = StopKind.FLOW) -> None:
        """Change the wanted state of the flow, or of topics that `known_of` returned; `stop`: what a stop is part of.

        Raises IllegalCommand.
        """
        self.refuse_moved(command, topics)
        if self.failed_over and command is not Command.STOP:
            raise FailedOverFlow(command, str(self.flow), self.wanted.stop)
        # a flow that was stopped alone may be resumed, because its mirror has not ended; with HTTP it may be paused too
        is_back = not topics and (command is Command.RESUME or (command is Command.PAUSE and self.may_return))
        state = desired_after(Desired.RUNNING if is_back else self.wanted.state, command)
        wake = self.wanted.wake + (command is Command.RESUME)
        if command is Command.RESUME:
            self.release()
        if not topics:
            # a stop ends the copying and changes no topic: topics that are paused stay paused at the next start
            kept = self.wanted.paused_topics if command is Command.STOP else self.wanted.moved_topics
            self._want(state=state, paused_topics=kept, wake=wake, stop=self._stop_after(state, stop))
            return
        paused = self.wanted.paused_topics
        paused = paused | set(topics) if command is Command.PAUSE else paused - set(topics)
        self._want(paused_topics=paused, wake=wake, stop=StopKind.MIRROR)

    def refuse_moved(self, command: Command, topics: Sequence[str]) -> None:
        """Refuse to resume topics by name whose producers have moved. Raises MovedTopics."""
        if command is Command.RESUME and (moved := self.wanted.moved_topics.intersection(topics)):
            raise MovedTopics(str(self.flow), tuple(sorted(moved)))

    def pause_moved(self, topics: Sequence[str]) -> None:
        """Pause topics until they are released, whatever the flow does: their producers move to the target."""
        wanted = self.wanted
        self._want(paused_topics=wanted.paused_topics.union(topics), moved_topics=wanted.moved_topics.union(topics))

    def release_moved(self, topics: Sequence[str]) -> None:
        """Copy those of the topics again whose producers had moved: they are back on the source."""
        freed = self.wanted.moved_topics.intersection(topics)
        wanted = self.wanted
        self._want(
            paused_topics=wanted.paused_topics - freed,
            moved_topics=wanted.moved_topics - freed,
            wake=wanted.wake + bool(freed),
        )

    def _want(self, **changes: object) -> None:
        self.wanted = msgspec.structs.replace(self.wanted, **changes)

    def forget_failover(self) -> None:
        """Make the failover a plain stop, after which the flow may be resumed. Raises NotFailedOver."""
        if not self.failed_over or not self.wanted.stop.may_be_forgotten:
            raise NotFailedOver(str(self.flow))
        self.wanted = msgspec.structs.replace(self.wanted, stop=StopKind.MIRROR)
        self.refused = ""

    def _stop_after(self, state: Desired, stop: StopKind) -> StopKind:
        if state is not Desired.STOPPED:
            return StopKind.MIRROR
        return stop.after(self.wanted.stop) if self.wanted.state is Desired.STOPPED else stop

    def known_of(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Return the given topics that the flow copies, or that are paused in it."""
        known = self.topics() | self.wanted.paused_topics if topics else frozenset()
        return tuple(topic for topic in topics if topic in known)

    def remembered(self, at_ms: int) -> RememberedFlow:
        """Return the state to store, as of `at_ms` (Unix time)."""
        sets = {
            set_id: SetState(lanes=group.lanes, epoch=group.epoch)
            for set_id, group in self.ownership.sets.items()
            if group.lanes and is_closed(set_id)
        }
        before, left_alone = self.stored.quarantine, self.quarantined()
        return RememberedFlow(
            state=self.wanted.state,
            stop=self.wanted.stop,
            paused_topics=tuple(sorted(self.wanted.paused_topics)),
            moved_topics=tuple(sorted(self.wanted.moved_topics)),
            is_blind=not self.is_state_read,
            at_ms=self.wanted_at_ms,
            sets=sets,
            quarantine={
                set_id: Quarantine(
                    reason=why,
                    since_ms=before[set_id].since_ms if set_id in before else at_ms,
                    failures=self.records[set_id].ends,
                )
                for set_id, why in left_alone.items()
            },
        )

    def apply_discovery(self, found: DiscoveryAnswer, now_s: float) -> Counter[str]:
        """Apply what Metadata found: new lanes join sets, lanes that are gone leave theirs. Return the topics that are
        gone, with their numbers of partitions. Sets are planned only after the stored state was read.
        """
        self.found = found
        self.taken = self.taken or found.taken  # a new metadata actor does not know it yet
        if found.kept is not None and not self.is_state_read:
            self.is_state_read = True
            self._recall(found.kept, now_s)
        if found.serial == self.serial or not self.is_known or not self.is_state_read:
            return Counter()
        self.serial = found.serial
        self.ownership.see_epoch(found.highest_epoch)
        if found.lanes == self._found_lanes:
            return Counter()
        if self._found_lanes is None:
            self.ownership.separate()  # adopted sets may overlap
        self._found_lanes = found.lanes
        before = self._partitions()
        plan = self._plan(self.flow, found.lanes, self.ownership.lanes(), self._most)
        self.ownership.reshape(plan, self._pattern)
        filled = {set_id for set_id, group in self.ownership.sets.items() if group.lanes}
        self.records = {set_id: record for set_id, record in self.records.items() if set_id in filled}
        gone = before.keys() - {lane.source.topic for lane in found.lanes}
        return Counter({topic: before[topic] for topic in gone})

    def _partitions(self) -> Counter[str]:
        return Counter(lane.source.topic for group in self.ownership.sets.values() for lane in group.lanes)

    def _recall(self, kept: RememberedFlow, now_s: float) -> None:
        """Restore the stored state; a stored stop does not count if it is older than the command to run the flow."""
        self.stored = kept
        for set_id, state in kept.sets.items():
            self.ownership.remember(
                msgspec.structs.replace(self._pattern, set_id=set_id, epoch=state.epoch, lanes=state.lanes)
            )
        for set_id, left in kept.quarantine.items():
            self.records[set_id] = remembered(left.reason, left.failures, set_id, now_s)
        if kept.failed_over:  # no start, and no command that came before this was read, starts it again
            self.wanted = _recalled(kept, Desired.STOPPED, kept.stop)
            self.wanted_at_ms = kept.at_ms
            self.refused = f"flow {self.flow}: {turned_text(str(self.flow), kept.stop)}" if self._is_later(kept) else ""
            return
        if self.wanted != DesiredFlow():
            self.pause_moved(kept.moved_topics)
            return  # a command came before the stored state was read: it wins
        # starting a stopped mirror means that it is to run; a flow that was stopped alone over HTTP waits for a resume
        is_alone = kept.stop.is_alone and self._resumable and not self._is_added
        is_started = kept.state is Desired.STOPPED and self._is_later(kept) and not is_alone
        wanted = Desired.RUNNING if is_started else kept.state
        stop = kept.stop if wanted is Desired.STOPPED else StopKind.MIRROR
        self.wanted = _recalled(kept, wanted, stop)
        self.wanted_at_ms = kept.at_ms

    def _is_later(self, kept: RememberedFlow) -> bool:
        """Whether the command to run the flow came after the stored state."""
        return kept.at_ms < self._started_ms

    def split_hot(self) -> None:
        """Give a lane that is too hot for its set a set of its own, if there are enough copiers."""
        copiers = len(self.open_handles())
        crowded = too_heavy(self.weights.measured, copiers)
        if not crowded or self.ownership.leaving:
            return
        plan = SetPlan(sets=self.ownership.lanes())
        weights = {
            lane: self.weights.lanes.get(lane.source, IDLE_LANE)
            for set_id in crowded
            for lane in plan.sets.get(set_id, ())
        }
        split = plan.split_hot(self.flow, weights, copiers, sum(self.weights.measured.values()))
        if split is not plan:
            self.ownership.reshape(split.sets, self._pattern)

    def divide(self, set_id: str) -> tuple[str, ...]:
        """Split a set whose copiers end into two, and return their ids; none if it has a single lane."""
        plan = SetPlan(sets=self.ownership.lanes())
        after = plan.divide(self.flow, set_id)
        if after is plan:
            return ()
        self.ownership.reshape(after.sets, self._pattern)
        return tuple(sorted(known for known, held in after.sets.items() if held and plan.sets.get(known) != held))

    def release(self) -> None:
        """Try the quarantined sets again now, because the operator asked for it."""
        for set_id in self.quarantined():
            self.records = released(self.records, set_id)

    @property
    def is_unsure(self) -> bool:
        """Whether ownership of the flow was unproven for so long that another mirror may have it."""
        return self.found.unrenewed_s > UNSURE_S

    @property
    def is_over(self) -> bool:
        """Whether this mirror must not copy the flow: it was stopped, or removed, or another mirror owns it."""
        return self.is_removed or bool(self.taken) or self.wanted.state is Desired.STOPPED

    @property
    def failed_over(self) -> bool:
        """Whether a failover or a failback stopped the flow; only a confirmation or another operation clears this."""
        return self.wanted.state is Desired.STOPPED and self.wanted.stop.is_turned

    @property
    def deleted(self) -> bool:
        """Whether a request has deleted the flow's connector; a resume or a pause creates it again."""
        return self.may_return and self.wanted.stop is StopKind.DELETED

    @property
    def may_return(self) -> bool:
        """Whether the mirror stays for the flow although it is stopped: a stop of the mirror or a failover ends it."""
        is_alone = self.wanted.state is Desired.STOPPED and self.wanted.stop.is_alone
        return self._resumable and is_alone and not self.is_removed and not self.taken

    @property
    def is_ending(self) -> bool:
        """Whether its copiers end, or have ended, and no others will start."""
        return self.is_over or self.mirror_ends

    @property
    def _pattern(self) -> PartitionSet:
        return PartitionSet(set_id="", flow=self.flow, epoch=0, lanes=())

    @property
    def is_known(self) -> bool:
        """Whether every copier that was found running has reported what it holds."""
        return all(handle.introduced for handle in self.handles.values())

    @property
    def is_heeded(self) -> bool:
        """Whether every copier follows the present wanted state; a starting copier holds nothing and counts as such."""
        paused = self.wanted.state is Desired.PAUSED
        wanted = (paused, self.wanted.paused_topics, self.wanted.wake)
        return all(handle.is_new or handle.heeds(*wanted) for handle in self.handles.values())

    @property
    def may_be_paused(self) -> bool:
        """Whether something may be paused of which this supervisor does not know yet, so that no order may end it."""
        return not self.is_state_read and self.wanted.state is Desired.RUNNING

    def held_since(self, handle: CopierHandle | None = None) -> dict[str, float]:
        """Return since when each set is held by its copier: of all copiers, or of one."""
        handles = [handle] if handle is not None else list(self.handles.values())
        return {set_id: since for one in handles for set_id, (_, since) in one.held_since.items()}

    def quarantined(self) -> dict[str, str]:
        """Return the quarantined sets, and why."""
        return {set_id: record.reason for set_id, record in self.records.items() if record.reason}

    def quarantined_lanes(self) -> dict[str, str]:
        return {
            str(lane): why for set_id, why in self.quarantined().items() for lane in self.ownership.sets[set_id].lanes
        }

    def open_handles(self) -> list[CopierHandle]:
        return [handle for handle in self.handles.values() if handle.is_open]

    def reported(self) -> dict[str, FlowProgress]:
        return {copier_id: handle.progress for copier_id, handle in self.handles.items() if handle.progress is not None}

    def lanes(self) -> Iterator[LaneProgress]:
        """Yield every lane that some copier has reported."""
        for progress in self.reported().values():
            yield from progress.lanes

    def topics(self) -> frozenset[str]:
        return frozenset(self._partitions())

    def waiting_for(self) -> str:
        """Return what keeps the flow from copying; empty if nothing does."""
        if self.is_removed:
            return "its drain: the configuration no longer has this flow"
        if self.taken:
            return self.taken
        if self.mirror_ends:
            return ""
        if self.failed_over:
            return turned_text(str(self.flow), self.wanted.stop)
        if self.wanted.state is Desired.STOPPED:
            return f"an operator to start it again: raymirror resume '{self.flow}'"
        if self.found.failure or self.found.awaited:
            return self.found.failure or self.found.awaited
        if self.serial == 0:
            return FIRST_DISCOVERY
        starts = self._waiting_to_start()
        if starts and self._site:
            return starts
        troubles = (handle.trouble for handle in self.handles.values())
        if trouble := next(filter(None, troubles), ""):
            return trouble
        for set_id, why in self.quarantined().items():
            return f"{set_id} is in quarantine: {why}"
        return starts or ("" if self.ownership.sets else "topics that match the flow's patterns")

    def _waiting_to_start(self) -> str:
        """Return what a starting copier needs, if none is ready or no node can ever run it; empty otherwise."""
        states = {handle.state for handle in self.handles.values()}
        if CopierState.STARTING not in states or (CopierState.READY in states and not self.lacks):
            return ""
        return f"a copier to start ({self.lacks or f'needs {copier_needs(self._site)}'})"


def _recalled(kept: RememberedFlow, state: Desired, stop: StopKind) -> DesiredFlow:
    """Return the wanted state with the paused topics that are stored."""
    paused, moved = frozenset(kept.paused_topics), frozenset(kept.moved_topics)
    return DesiredFlow(state=state, paused_topics=paused | moved, moved_topics=moved, stop=stop)


def why_unknown(topic: str, flow_states: Sequence[FlowState]) -> UnknownTopic | TopicsNotKnownYet:
    """Return the error for a topic that none of these flows is known to copy."""
    for flow_state in flow_states:
        if flow_state.serial == 0:
            return TopicsNotKnownYet(topic, str(flow_state.flow), flow_state.waiting_for() or FIRST_DISCOVERY)
    return UnknownTopic(topic, ", ".join(str(flow_state.flow) for flow_state in flow_states))
